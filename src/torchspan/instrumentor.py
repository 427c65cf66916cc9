# SPDX-License-Identifier: Apache-2.0
"""Switching the bridge on and off."""

# Every Python that an instrumented program starts comes by here, and most never import torch: what is not needed
# before one of the observed libraries is there is imported when it is.

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING, Any

from opentelemetry import trace
from opentelemetry.instrumentation.instrumentor import BaseInstrumentor

from torchspan import _settings
from torchspan._base.import_hooks import when_imported
from torchspan._server_span import note_server_spans

if TYPE_CHECKING:
    from torchspan._bridge import Bridge
    from torchspan._run_report import RunReport
    from torchspan._settings import Config

Undo = Callable[[], None]

OBSERVED = ("torch_tensorrt", "tensorrt", "tensorrt_rtx", "torchspan.observers")
"""The libraries whose imports set the bridge to work, whichever comes first. Ours is one of them: functions that a program
observes are recorded whether or not it ever compiles."""


class TorchspanInstrumentor(BaseInstrumentor):  # type: ignore[misc]  # the base class is untyped
    """Traces Torch-TensorRT and TensorRT; the `opentelemetry_instrumentor` entry point `torchspan`.

    ``instrument()`` takes, each optional and each before its environment variable:

    tracer_provider, meter_provider: the providers to write to instead of the global ones.
    detail: `stages` or `passes`.
    tensorrt_phases: `auto`, `on` or `off`.
    capture: `none` or `text`.
    heartbeat: seconds between the `torchspan.progress` spans of a long compilation; 0: none of them.
    propagation: `on`, `links` or `off`: whether the context follows the work into threads, pools and processes.
    without_gpu: run Torch-TensorRT's pipeline without a GPU (`torchspan.testing.without_gpu`).
    log_correlation: let log records of Torch-TensorRT and TensorRT carry the ids of the current trace and span.

    It may be called before or after the libraries are imported and imports none of them, nor torch. A second call
    while instrumented does nothing. ``uninstrument()`` puts every replaced name back. Raises
    `torchspan.exceptions.ConfigurationError` for an argument that does not exist or has a value that is not allowed.
    """

    _undo: tuple[Undo, ...] = ()

    def instrumentation_dependencies(self) -> Collection[str]:
        """None: what is installed decides, nightly and vendor builds of torch included."""
        return ()

    def _instrument(self, **kwargs: Any) -> None:
        tracer_provider, meter_provider = kwargs.pop("tracer_provider", None), kwargs.pop("meter_provider", None)
        kwargs.pop("logger_provider", None)  # conventional; nothing goes there
        settings = _settings.load(kwargs)
        if settings.without_gpu:
            from torchspan import testing

            testing.without_gpu()
        report, stop_reporting = _report() if settings.reports else (None, _nothing)

        arrivals = _Arrivals(settings, tracer_provider, meter_provider, report)
        waiting = (when_imported(library, partial(arrivals.hook, library)) for library in OBSERVED)
        stop_carrying = _carry(settings, tracer_provider) if settings.propagation != "off" else _nothing
        type(self)._undo = (*waiting, arrivals.close, stop_carrying, note_server_spans(), stop_reporting)

    def _uninstrument(self, **kwargs: Any) -> None:  # noqa: ARG002 - the base class hands on what it was given
        undo, type(self)._undo = self._undo, ()
        for each in undo:
            each()


class _Arrivals:
    """Hands libraries that arrive, in whichever order and thread, to the one bridge."""

    def __init__(self, settings: Config, provider: Any, meter_provider: Any, report: RunReport | None) -> None:
        self._bridge: Bridge | None = None
        self._how = (settings, provider, meter_provider, report)
        self._lock = threading.RLock()

    def hook(self, library: str, late: bool) -> Undo:
        """Raises nothing: it would come out of the program's own import of the library."""
        try:
            from torchspan._bridge import Bridge

            with self._lock:
                if self._bridge is None:
                    self._bridge = Bridge(*self._how)
                self._bridge.hook(library, late=late)
        except Exception:
            logging.getLogger("torchspan").exception("Hooking failed; the program goes on, without our traces.")
        return _nothing

    def close(self) -> None:
        """Undo the hooks of all libraries."""
        with self._lock:
            bridge, self._bridge = self._bridge, None
        if bridge is not None:
            bridge.close()


def resume(**settings: Any) -> None:
    """In a process that an instrumented one has started: switch on with its settings, unless that has been done."""
    instrumentor = TorchspanInstrumentor()
    if not instrumentor.is_instrumented_by_opentelemetry:
        instrumentor.instrument(**settings)


def _carry(settings: Config, provider: Any) -> Undo:
    """Let the context follow the work into threads and processes."""
    from torchspan import propagation

    def flush() -> None:
        for each in (provider, trace.get_tracer_provider()):
            getattr(each, "force_flush", _nothing)()

    arguments = {name: value for name, value in settings._asdict().items() if name != "reports"}
    return propagation.install(
        resume=partial(resume, **arguments), flush=flush, as_parent=settings.propagation != "links"
    )


def _nothing() -> None:
    pass


def _report() -> tuple[RunReport | None, Undo]:
    """What `torchspan run` wants to know, written now and at the end of this process and of its forks."""
    from torchspan._run_report import RunReport

    report = RunReport.from_environment()
    return report, _nothing if report is None else report.write_until_exit()
