# SPDX-License-Identifier: Apache-2.0
"""Switching the bridge on and off."""

# Every Python that an instrumented program starts comes by here, and most never import torch: what is not needed
# before Torch-TensorRT is there is imported when it is.

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from opentelemetry.instrumentation.instrumentor import BaseInstrumentor

from torchspan import config
from torchspan.imports import when_imported

if TYPE_CHECKING:
    from torchspan.run_report import RunReport

Undo = Callable[[], None]

OBSERVED = "torch_tensorrt"
"""The library whose import sets the bridge to work."""


class TorchspanInstrumentor(BaseInstrumentor):  # type: ignore[misc]  # the base class is untyped
    """Traces Torch-TensorRT; the `opentelemetry_instrumentor` entry point `torchspan`.

    ``instrument()`` takes, each optional and each before its environment variable:

    tracer_provider, meter_provider: the providers to write to instead of the global ones.
    detail: `stages` or `passes`.
    tensorrt_phases: `auto`, `on` or `off`.
    capture: `none` or `text`.
    without_gpu: run Torch-TensorRT's pipeline without a GPU (`torchspan.testing.without_gpu`).

    It may be called before or after torch_tensorrt is imported and imports neither it nor torch. A second call
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
        settings = config.load(kwargs)
        if settings.without_gpu:
            from torchspan import testing

            testing.without_gpu()
        report, stop_reporting = _report() if settings.reports else (None, _nothing)

        def library_arrived(late: bool) -> Undo:
            try:
                from torchspan import session

                return session.start(settings, tracer_provider, report, late=late, meter_provider=meter_provider)
            except Exception:  # it would come out of the program's own import of the library
                logging.getLogger("torchspan").exception("Hooking failed; the program goes on, without our traces.")
                return _nothing

        type(self)._undo = (when_imported(OBSERVED, library_arrived), stop_reporting)

    def _uninstrument(self, **kwargs: Any) -> None:  # noqa: ARG002 - the base class hands on what it was given
        undo, type(self)._undo = self._undo, ()
        for each in undo:
            each()


def _nothing() -> None:
    pass


def _report() -> tuple[RunReport | None, Undo]:
    """What `torchspan run` wants to know, written now and at the end of this process and of its forks."""
    from torchspan.run_report import RunReport

    report = RunReport.from_environment()
    return report, _nothing if report is None else report.write_until_exit()
