# SPDX-License-Identifier: Apache-2.0
"""Progress of long work: short spans below a span that is exported only when the work ends."""

from __future__ import annotations

from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import NonRecordingSpan, SpanContext, TracerProvider

from torchspan.engine import Event
from torchspan.output.writer._own_files import OwnFiles, aside
from torchspan.output.writer._tracer import TracerOf, TracerSource
from torchspan.words import phase, semconv
from torchspan.words.semconv import Attribute

_NS = 1e9


class ProgressWriter:
    """Writes a `torchspan.progress` span for each heartbeat, and one into torchspan's own files when the work begins.

    Only these files are flushed. Other exporters send progress together with other spans: a flush would make them wait for
    their collectors, and an exit waits for an export that is in progress.

    Args:
        tracer_provider: The provider to use instead of the global one.
        tracer_of: See `TracerSource`.
    """

    def __init__(self, tracer_provider: TracerProvider | None = None, *, tracer_of: TracerOf | None = None) -> None:
        self._tracers = TracerSource(tracer_provider, tracer_of)
        self.emitted = 0
        """Number of sampled spans, without those that are only in torchspan's own files."""

    def begin(self, event: Event) -> None:
        """Write the start of the work to each file of the provider, and to no other exporter. See `FileSpanExporter`."""
        above = event.handle
        if not isinstance(above, SpanContext) or not above.trace_flags.sampled:
            return
        provider: Any = self._tracers.provider()
        files = OwnFiles(provider)
        if not files.exporters:
            return
        attributes = semconv.emitted(_describe(event, 0, event.start_ns))

        def write() -> None:
            for exporter in files.exporters:
                exporter.export_start(above, attributes, event.start_ns, provider.resource)

        aside(write)

    def report(self, event: Event, number: int) -> bool:
        """Write the span. Returns False if the work has no sampled span, or has ended.

        Start and end lie inside the work, even if it ends meanwhile: see `Event.is_open`.
        """
        above = event.handle
        if not isinstance(above, SpanContext) or not above.is_valid or not above.trace_flags.sampled:
            return False
        start_ns = event.anchor.now_ns()
        attributes = _describe(event, number, start_ns)
        end_ns = event.anchor.now_ns()
        if not event.is_open:
            return False
        # A new context: that of this thread suppresses tracing, which must not apply to the processors of this span.
        context = trace.set_span_in_context(NonRecordingSpan(above), Context())
        span = self._tracers.get().start_span(
            phase.PROGRESS.name, context, attributes=semconv.emitted(attributes), start_time=start_ns
        )
        span.end(end_ns)
        is_sampled = span.get_span_context().trace_flags.sampled
        self.emitted += is_sampled
        return is_sampled

    def flush(self) -> None:
        """Write the spans that batch processors hold for torchspan's own files. Other exporters are not flushed."""
        OwnFiles(self._tracers.provider()).flush()


def _describe(event: Event, number: int, now_ns: int) -> dict[str, Any]:
    running = event.innermost_running()
    attributes: dict[str, Any] = {
        semconv.KEEP: True,
        semconv.PROGRESS_WORK: event.name,
        semconv.PROGRESS_ELAPSED: max(now_ns - event.start_ns, 0) / _NS,
        semconv.PROGRESS_RUNNING: running.name,
        semconv.PROGRESS_RUNNING_ELAPSED: max(now_ns - running.start_ns, 0) / _NS,
        semconv.PROGRESS_NUMBER: number,
    }
    for key in (semconv.ENGINE_NAME, semconv.MODEL_CLASS, semconv.ENTRY_POINT):
        value = _known(running, key)
        if value is not None:
            attributes[key] = value
    return attributes | {key: event.attributes[key] for key in semconv.OF_WORK if key in event.attributes}


def _known(event: Event, key: Attribute) -> Any:
    """The value of `key` on the nearest event that has it, from the inside outwards."""
    nearest: Event | None = event
    while nearest is not None:
        for facts in (nearest.attributes, nearest.additions):
            if key in facts:
                return facts[key]
        nearest = nearest.parent
    return None
