# SPDX-License-Identifier: Apache-2.0
"""Starts and stops tracing: `torchspan.instrument`, and the class that OpenTelemetry's distros call."""

# Every Python that an instrumented program starts comes by here, and most never import torch: what is not needed
# before one of the observed libraries is there is imported when it is.

from __future__ import annotations

import functools
import logging
import os
import threading
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, ParamSpec

from opentelemetry import trace
from opentelemetry.instrumentation.instrumentor import BaseInstrumentor

from torchspan import _settings
from torchspan._base.import_hooks import when_imported
from torchspan._server_span import note_server_spans
from torchspan.environment_variables import TORCHSPAN_RUN_REPORT

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from torchspan._bridge import Bridge
    from torchspan._run_report import RunReport
    from torchspan._settings import Settings

logger = logging.getLogger("torchspan")

Undo = Callable[[], None]
P = ParamSpec("P")

OBSERVED = ("torch_tensorrt", "tensorrt", "tensorrt_rtx", "torchspan.observers")
"""The libraries whose imports set the bridge to work, whichever comes first. torchspan's own module is one of them:
functions that a program observes are recorded whether or not it ever compiles."""

UNUSED = "logger_provider"
"""An argument that distros conventionally pass to every instrumentor. torchspan writes no log records."""


class _Configuration:
    """The type of the options, made when it is first read: every Python that starts would pay for it."""

    def __get__(self, _instance: object, _owner: type) -> type:
        return _settings.options()


class TorchspanInstrumentor(BaseInstrumentor):  # type: ignore[misc]  # the base class is untyped
    """Traces Torch-TensorRT and TensorRT; the `opentelemetry_instrumentor` entry point `torchspan`.

    Distros call ``instrument()``; programs call `torchspan.instrument`, which takes the same arguments and shows their
    types. A misspelled argument raises TypeError. Any other unknown argument is ignored with one warning, since a
    distro may pass the same arguments to every instrumentor. ``uninstrument()`` puts every replaced name back.

    configuration: the type that OpenTelemetry's declarative configuration checks the options of a file with.
    """

    configuration = _Configuration()

    _undo: tuple[Undo, ...] = ()
    _active: Mapping[str, Any] = {}
    """The arguments in use."""

    def instrumentation_dependencies(self) -> Collection[str]:
        """None: what is installed decides, nightly and vendor builds of torch included."""
        return ()

    def instrument(self, **kwargs: Any) -> None:
        """Start tracing, as `torchspan.instrument` does. Takes the arguments of `BaseInstrumentor.instrument` as well.

        Raises TypeError for a misspelled argument and `torchspan.exceptions.ConfigurationError` for an invalid value.
        """
        _settings.refuse_misspelled(kwargs)
        if self.is_instrumented_by_opentelemetry:
            _warn_of_differences(self._active, _settings.given(kwargs))
        super().instrument(**kwargs)

    def _instrument(self, **kwargs: Any) -> None:
        given = _settings.given(kwargs)
        settings = _settings.load(given)
        unknown = [name for name in kwargs if name not in {*_settings.ARGUMENTS, UNUSED}]
        if unknown:
            logger.warning("instrument() ignores arguments that torchspan does not have: %s", ", ".join(unknown))
        tracer_provider, meter_provider = given.get("tracer_provider"), given.get("meter_provider")
        if settings.without_gpu:
            from torchspan import testing

            testing.without_gpu(engine_dir=settings.engine_dir)
        report, stop_reporting = _report()

        arrivals = _Arrivals(settings, tracer_provider, meter_provider, report)
        waiting = (when_imported(library, partial(arrivals.hook, library)) for library in OBSERVED)
        stop_carrying = _carry(settings, tracer_provider) if settings.propagation != "off" else _nothing
        type(self)._undo = (*waiting, arrivals.close, stop_carrying, note_server_spans(), stop_reporting)
        type(self)._active = {
            **settings._asdict(),
            "tracer_provider": tracer_provider,
            "meter_provider": meter_provider,
        }

    def _uninstrument(self, **kwargs: Any) -> None:  # noqa: ARG002 - the base class hands on what it was given
        undo, type(self)._undo = self._undo, ()
        type(self)._active = {}
        for each in undo:
            each()


def _refusing_unknown_arguments(function: Callable[P, None]) -> Callable[P, None]:
    """The function, with an error for an unknown argument that says which one was meant."""

    @functools.wraps(function)
    def refusing(*args: P.args, **kwargs: P.kwargs) -> None:
        _settings.refuse_unknown(kwargs)
        function(*args, **kwargs)

    return refusing


@_refusing_unknown_arguments
def instrument(
    *,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    detail: Literal["stages", "passes"] | None = None,
    build_phases: Literal["auto", "on", "off"] | None = None,
    heartbeat: float | None = None,
    capture: Literal["none", "text"] | None = None,
    log_correlation: bool | None = None,
    propagation: Literal["on", "links", "off"] | None = None,
    without_gpu: bool | None = None,
    engine_dir: str | os.PathLike[str] | None = None,
) -> None:
    """Trace what Torch-TensorRT and TensorRT do from now on.

    May be called before or after these libraries are imported; it imports none of them, nor torch. While torchspan is
    instrumented, another call does nothing, and logs a warning if it asks for different settings.

    Each argument is optional. Without it the environment variable `TORCHSPAN_` and its name in capitals holds, then
    the default.

    Args:
        tracer_provider: where spans go. Default: the global tracer provider.
        meter_provider: where metrics go. Default: the global meter provider.
        detail: `stages` (default), or `passes`: each lowering pass is a span, too.
        build_phases: `on` or `off`: whether TensorRT's build phases are spans. `auto` (default): under `torchspan run`
            and `torchspan demo`, on TensorRT-RTX.
        heartbeat: seconds between the `torchspan.progress` spans of a long compilation, 0.1 to 86400; 0: none.
            Default: they come 5, 15, 35, 75 and 135 s after its start, then every 60 s.
        capture: `text`: exception messages and lines of TensorRT's log are recorded whole. `none` (default): their
            first line, with `?` for every literal.
        log_correlation: add the ids of the current trace and span to log records of Torch-TensorRT and TensorRT.
        propagation: `on` (default): the context follows the work into threads, pools and processes. `links`: the span
            that started this process is linked to, and is no parent. `off`: the context stays where it is.
        without_gpu: run Torch-TensorRT's pipeline on a machine without a GPU (`torchspan.testing.without_gpu`).
        engine_dir: the folder in which engines that were built without a GPU are kept for other processes.

    Raises:
        TypeError: for an argument that does not exist.
        torchspan.exceptions.ConfigurationError: for an invalid value.
    """
    arguments = dict(locals())
    instrumentor = TorchspanInstrumentor()
    if instrumentor.is_instrumented_by_opentelemetry:
        _warn_of_differences(instrumentor._active, _settings.given(arguments))
    else:
        instrumentor.instrument(**arguments)


def uninstrument() -> None:
    """Stop tracing and put back every name that was replaced. Does nothing while torchspan is not instrumented."""
    instrumentor = TorchspanInstrumentor()
    if instrumentor.is_instrumented_by_opentelemetry:
        instrumentor.uninstrument()


def _warn_of_differences(active: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Log which of the given arguments are not in use."""
    in_use = {name: active.get(name, value) for name, value in given.items()}
    for name, default in (("tracer_provider", trace.get_tracer_provider), ("meter_provider", _meter_provider)):
        if name in in_use and in_use[name] is None:
            in_use[name] = default()
    different = [
        f"{name}={value!r} (in use: {_settings.describe(name, in_use[name])})"
        for name, value in given.items()
        if value != in_use[name]
    ]
    if different:
        logger.warning(
            "torchspan is already instrumented; ignoring %s. Call torchspan.uninstrument() first to change it.",
            ", ".join(different),
        )


def _meter_provider() -> MeterProvider:
    from opentelemetry import metrics

    return metrics.get_meter_provider()


class _Arrivals:
    """Hands libraries that arrive, in whichever order and thread, to the one bridge."""

    def __init__(self, settings: Settings, provider: Any, meter_provider: Any, report: RunReport | None) -> None:
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
            logger.exception("torchspan failed to instrument %s; continuing without tracing it.", library)
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


def _carry(settings: Settings, provider: Any) -> Undo:
    """Let the context follow the work into threads and processes."""
    from torchspan import propagation

    def flush() -> None:
        for each in (provider, trace.get_tracer_provider()):
            getattr(each, "force_flush", _nothing)()

    return propagation.install(
        resume=partial(resume, **settings._asdict()), flush=flush, as_parent=settings.propagation != "links"
    )


def _nothing() -> None:
    pass


def _report() -> tuple[RunReport | None, Undo]:
    """The report for `torchspan run`, written now and at the end of this process and of its forks."""
    if not os.environ.get(TORCHSPAN_RUN_REPORT):
        return None, _nothing
    from torchspan._run_report import RunReport

    report = RunReport.from_environment()
    return report, _nothing if report is None else report.write_until_exit()
