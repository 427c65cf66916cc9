# SPDX-License-Identifier: Apache-2.0
"""From events to spans."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import Token
from dataclasses import dataclass
from typing import Any

from opentelemetry import context as context_api
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.instrumentation.utils import is_instrumentation_enabled
from opentelemetry.trace import Link, NonRecordingSpan, Span, SpanContext, Status, StatusCode, TracerProvider

from torchspan import semconv
from torchspan.context_keys import STARTED_BY
from torchspan.engine import Callback, Event
from torchspan.writer._exceptions import exception_attributes
from torchspan.writer._hot import SpanHotPath
from torchspan.writer._tracer import TracerSource

VALUE_LIMIT = 2048
"""Characters of the longest attribute value, lists counted whole."""

STEPS_LIMIT = 20
"""Kinds of steps listed on a span."""


@dataclass(slots=True)
class _Open:
    span: Span
    token: Token[Context] | None


class SpanWriter:
    """The engine's privileged callback: every event is a span.

    The parent is the current
    OpenTelemetry span, on any thread, unless it has ended: a worker started inside a span that is over begins a trace
    of its own, with a link to that span. Nothing is exported here, and exporting is never traced.

    tracer_provider: the provider to use instead of the global one.
    capture_text: whether exception messages are recorded whole.
    """

    def __init__(self, tracer_provider: TracerProvider | None = None, *, capture_text: bool = False) -> None:
        self._tracers = TracerSource(tracer_provider)
        self._capture_text = capture_text
        self.recorded = 0
        """Spans started that record."""
        self.unsampled = 0
        """Spans started that the sampler refused."""
        self.hot = SpanHotPath()
        self.callback = Callback("writing spans", self._start, self._end)

    # --- start ------------------------------------------------------------------------------------------------
    def _start(self, event: Event) -> _Open | None:
        if not is_instrumentation_enabled():
            return None
        context, links = self._parent(event)
        attributes = dict(event.attributes)
        if event.phase.keep:
            attributes[semconv.KEEP] = True
        span = self._tracers.get().start_span(
            event.name, context, attributes=bounded(attributes), links=links, start_time=event.start_ns
        )
        event.handle = span.get_span_context()
        if span.is_recording():
            self.recorded += 1
        else:
            self.unsampled += 1
        token = context_api.attach(trace.set_span_in_context(span, context)) if event.scoped else None
        return _Open(span, token)

    def _parent(self, event: Event) -> tuple[Context, list[Link]]:
        links = [Link(each) for each in event.links if isinstance(each, SpanContext) and each.is_valid]
        if not event.scoped and event.parent is not None and event.parent.handle is not None:
            return trace.set_span_in_context(NonRecordingSpan(event.parent.handle)), links
        context = context_api.get_current()
        current = trace.get_current_span(context)
        if getattr(current, "end_time", None) is not None:
            links.append(Link(current.get_span_context()))
            context = trace.set_span_in_context(trace.INVALID_SPAN, context)
        elif not current.get_span_context().is_valid:
            started_by = context_api.get_value(STARTED_BY, context)
            if isinstance(started_by, SpanContext):
                links.append(Link(started_by))
        return context, links

    # --- end --------------------------------------------------------------------------------------------------
    def _end(self, event: Event, opened: _Open | None) -> None:
        if opened is None:
            return
        try:
            if opened.span.is_recording():
                self._describe(event, opened.span)
        finally:
            opened.span.end(event.end_ns)
            if opened.token is not None:
                context_api.detach(opened.token)

    def _describe(self, event: Event, span: Span) -> None:
        attributes = {**event.additions, **_steps(event)}
        for occurrence in event.occurrences:
            span.add_event(occurrence.name, bounded(dict(occurrence.attributes)), occurrence.time_ns)
        if event.error is not None:
            attributes[semconv.ERROR_TYPE] = semconv.class_name(type(event.error))
            if event.innermost:
                details = exception_attributes(event.error, capture_text=self._capture_text)
                span.add_event("exception", bounded(details), event.end_ns)
        span.set_attributes(bounded(attributes))
        if semconv.ERROR_TYPE in attributes:
            span.set_status(Status(StatusCode.ERROR))


def _steps(event: Event) -> dict[str, Any]:
    if not event.steps:
        return {}
    rows = event.steps.longest(STEPS_LIMIT)
    return {
        semconv.STEP_NAMES: [name for name, _, _ in rows],
        semconv.STEP_COUNTS: [count for _, count, _ in rows],
        semconv.STEP_DURATIONS: [seconds for _, _, seconds in rows],
    }


def bounded(attributes: dict[str, Any]) -> dict[str, Any]:
    """The attributes under plain keys, with no value longer than `VALUE_LIMIT` characters."""
    return {str(key): _bounded(value) for key, value in attributes.items()}


def _bounded(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= VALUE_LIMIT else value[: VALUE_LIMIT - 1] + "…"
    if isinstance(value, Sequence) and value and isinstance(value[0], str):
        limit = max(VALUE_LIMIT // len(value), 16)  # each shortened, none dropped: parallel lists stay parallel
        return [each if len(each) <= limit else each[: limit - 1] + "…" for each in value]
    return value
