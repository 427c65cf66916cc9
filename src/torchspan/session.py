# SPDX-License-Identifier: Apache-2.0
"""The bridge at work: engine, writer and adapters, in a process that has imported Torch-TensorRT."""

from __future__ import annotations

import logging
from collections.abc import Callable

from opentelemetry.trace import TracerProvider

from torchspan import adapters
from torchspan.config import Config
from torchspan.engine import REGISTRY, Engine
from torchspan.run_report import RunReport
from torchspan.writer import SpanWriter

logger = logging.getLogger("torchspan")

Undo = Callable[[], None]


def start(settings: Config, tracer_provider: TracerProvider | None, report: RunReport | None, *, late: bool) -> Undo:
    """Put the parts together and hook into the library. Returns what takes everything down again, last done first.

    tracer_provider: the provider to write to instead of the global one.
    report: what `torchspan run` wants to know, if the program runs under it.
    late: the library was imported before the bridge was switched on.
    """
    engine = Engine(REGISTRY)
    writer = SpanWriter(tracer_provider, capture_text=settings.capture == "text")
    engine.hot = writer.hot
    engine.register(writer.callback, privileged=True)

    def phases_wanted(package: str | None) -> bool:
        if settings.tensorrt_phases == "auto":
            return report is not None and package == "tensorrt_rtx"
        return settings.tensorrt_phases == "on"

    unhook = adapters.install(engine, detail=settings.detail, tensorrt_phases=phases_wanted, late=late)
    _warn_of_untested()
    if report is not None:
        report.complete = lambda each: _complete(each, writer)
        report.write()

    def stop() -> None:
        engine.close()
        unhook()

    return stop


def _warn_of_untested() -> None:
    version = adapters.versions().get("torch_tensorrt", "unknown")
    if not adapters.is_supported(version):
        logger.warning(
            "torch_tensorrt %s is outside the versions that torchspan is tested with; what resolves is used, "
            "`torchspan probes` shows the rest.",
            version,
        )


def _complete(report: RunReport, writer: SpanWriter) -> None:
    resolved = adapters.resolve_probes()
    report.libraries = adapters.versions()
    report.rows = len(resolved)
    report.resolved = sum(each.status == "resolved" for each in resolved)
    report.spans, report.unsampled = writer.recorded, writer.unsampled
