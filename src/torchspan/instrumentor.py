# SPDX-License-Identifier: Apache-2.0
"""Switching the bridge on and off."""

from __future__ import annotations

import atexit
import logging
import os
from collections.abc import Callable, Collection
from typing import Any

from opentelemetry.instrumentation.instrumentor import BaseInstrumentor
from opentelemetry.trace import TracerProvider

from torchspan import adapters, config
from torchspan.config import Config
from torchspan.engine import Engine
from torchspan.run_report import RunReport
from torchspan.writer import SpanWriter

logger = logging.getLogger("torchspan")

Undo = Callable[[], None]


class _Session:
    """What one `instrument` call set up, and how to take it down."""

    def __init__(self, settings: Config, tracer_provider: TracerProvider | None) -> None:
        self.engine = Engine()
        self.writer = SpanWriter(tracer_provider, capture_text=settings.capture == "text")
        self.engine.hot = self.writer.hot
        self._report = RunReport.from_environment()
        self._undo: list[Undo] = [self.engine.register(self.writer.callback, privileged=True)]
        phases = _PhasesWanted(settings.tensorrt_phases, under_run=self._report is not None)
        self._undo.append(
            adapters.install(self.engine, detail=settings.detail, tensorrt_phases=phases, arrived=self._library_arrived)
        )
        if self._report is not None:
            self._report_until_exit()

    def close(self) -> None:
        """Undo everything, last done first; wrappers that stay bound somewhere pass calls through from now on."""
        self.engine.close()
        while self._undo:
            self._undo.pop()()

    # --- what `torchspan run` wants to know ---------------------------------------------------------------------
    def _report_until_exit(self) -> None:
        self._write_report()
        atexit.register(self._write_report)
        os.register_at_fork(after_in_child=self._write_report)
        self._undo.append(lambda: atexit.unregister(self._write_report))

    def _library_arrived(self) -> None:
        version = adapters.versions().get("torch_tensorrt", "unknown")
        if not adapters.is_supported(version):
            logger.warning(
                "torch_tensorrt %s is outside the versions that torchspan is tested with; what resolves is used, "
                "`torchspan probes` shows the rest.",
                version,
            )
        self._write_report()

    def _write_report(self) -> None:
        if self._report is None:
            return
        resolved = adapters.resolve_probes()
        self._report.libraries = adapters.versions()
        self._report.rows = len(resolved)
        self._report.resolved = sum(each.status == "resolved" for each in resolved)
        self._report.spans, self._report.unsampled = self.writer.recorded, self.writer.unsampled
        self._report.write()


class _PhasesWanted:
    """Whether TensorRT's phases are wanted, asked when TensorRT is there: `auto` means TensorRT-RTX under `run`."""

    def __init__(self, setting: str, *, under_run: bool) -> None:
        self._setting = setting
        self._under_run = under_run

    def __call__(self, package: str | None) -> bool:
        if self._setting == "auto":
            return self._under_run and package == "tensorrt_rtx"
        return self._setting == "on"


class TorchspanInstrumentor(BaseInstrumentor):  # type: ignore[misc]  # the base class is untyped
    """Traces Torch-TensorRT; the `opentelemetry_instrumentor` entry point `torchspan`.

    ``instrument()`` takes, each optional and each before its environment variable:

    tracer_provider: the provider to write to instead of the global one.
    detail: `stages` or `passes`.
    tensorrt_phases: `auto`, `on` or `off`.
    capture: `none` or `text`.
    without_gpu: run Torch-TensorRT's pipeline without a GPU (`torchspan.testing.without_gpu`).

    It may be called before or after torch_tensorrt is imported and imports neither it nor torch. A second call
    while instrumented does nothing. ``uninstrument()`` puts every replaced name back. Raises
    `torchspan.exceptions.ConfigurationError` for an argument that does not exist or has a value that is not allowed.
    """

    _session: _Session | None = None

    def instrumentation_dependencies(self) -> Collection[str]:
        """None: what is installed decides, nightly and vendor builds of torch included."""
        return ()

    def _instrument(self, **kwargs: Any) -> None:
        provider = kwargs.pop("tracer_provider", None)
        for of_every_instrumentor in ("meter_provider", "logger_provider"):  # conventional; nothing goes there
            kwargs.pop(of_every_instrumentor, None)
        settings = config.load(kwargs)
        if settings.without_gpu:
            from torchspan import testing

            testing.without_gpu()
        type(self)._session = _Session(settings, provider)

    def _uninstrument(self, **kwargs: Any) -> None:  # noqa: ARG002 - the base class hands on what it was given
        session, type(self)._session = self._session, None
        if session is not None:
            session.close()
