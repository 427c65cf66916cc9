# SPDX-License-Identifier: Apache-2.0
"""Writes events as spans."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextvars import Token
from dataclasses import dataclass
from typing import Any, Literal

from opentelemetry import context as context_api
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    Span,
    SpanContext,
    Status,
    StatusCode,
    Tracer,
    TracerProvider,
)

from torchspan.base.logs import Log
from torchspan.base.recorded_operators import OPERATORS
from torchspan.engine import FOR_ITSELF, Attributes, Event, Listener, Occurrence
from torchspan.output import withheld
from torchspan.output.withheld import NOTHING, Withheld, WithheldEvent
from torchspan.output.writer._budget import SPANS_PER_TRACE, Budget, limited_by
from torchspan.output.writer._event_signals import EventSignals, LoggedOccurrence
from torchspan.output.writer._folding import Folding
from torchspan.output.writer._metric_writer import compile_outcome
from torchspan.output.writer._own_files import OwnFiles, aside
from torchspan.output.writer._parents import SpanParents
from torchspan.output.writer._selected_ranks import SelectedRanks
from torchspan.output.writer._tracer import TracerOf, TracerSource, start_kept
from torchspan.words import semconv
from torchspan.words.phase import COMPILE, IMPORT, Phase
from torchspan.words.sampling import STARTED_BY
from torchspan.words.sampling.rules import SamplingRules

SHORTEST_ON_PROCESSOR_S = 0.001
"""Less time on the processor is not written."""

STEPS_LIMIT = 20
"""Maximum number of kinds of steps that are listed on a span."""

Capture = Literal["none", "local", "text"]

logger = Log("torchspan")


@dataclass(slots=True)
class _Open:
    """An open event.

    Args:
        span: Its span; None if its trace had reached its limit.
        links: How many links it had at its start.
    """

    span: Span | None
    token: Token[Context] | None
    links: int = 0


class SpanWriter(Listener):
    """Writes every event as a span, up to the limit of its trace.

    The parent is the current OpenTelemetry span, on any thread, unless that span has ended. A worker that was started inside a
    span that has ended begins its own trace, with a link to that span. Nothing is exported here, and exporting is never traced.

    Args:
        tracer_provider: The provider to use instead of the global one.
        parents: Counts work that is folded outside every event.
        capture: Who gets texts whole: no one, the user's own file and `capture()`, or exporters as well.
        signals: Records events and exceptions. Default: as events of spans.
        spans_per_trace: The maximum number of spans in a trace. Further work is folded into the span around it.
        ranks: The ranks of a distributed job that have spans. Default: all.
        tracer_of, holds: See `TracerSource`.
    """

    name = "writing spans"

    def __init__(
        self,
        tracer_provider: TracerProvider | None = None,
        *,
        parents: SpanParents | None = None,
        capture: Capture = "none",
        signals: EventSignals | None = None,
        spans_per_trace: int = SPANS_PER_TRACE,
        ranks: SelectedRanks | None = None,
        tracer_of: TracerOf | None = None,
        holds: Callable[[SamplingRules | None], None] | None = None,
    ) -> None:
        self._tracers = TracerSource(tracer_provider, tracer_of, holds)
        parents = parents or SpanParents()
        self._capture = capture
        self._captures = capture == "text"
        self.recorded = 0
        """Number of started spans that record, except imports, which do not show any work of the libraries."""
        self.unsampled = 0
        """Number of started spans that the sampler refused, except imports."""
        self._emitted_of: Counter[Phase] = Counter()
        self.refused = 0
        """Number of spans with `torchspan.keep` that a sampler other than torchspan's refused."""
        self._budget = Budget(spans_per_trace)
        self._folding = Folding(parents)
        self._signals = signals or EventSignals()
        self._ranks = None if ranks is None or ranks.are_all else ranks

    def look_for_provider(self) -> None:
        """Look up the current provider, if one is set."""
        if self._tracers.is_set():
            self._tracers.get()

    def has_destination(self) -> bool:
        """Whether the program has set a tracer provider, or a recording span is current."""
        return self._tracers.is_set() or trace.get_current_span().is_recording()

    def is_exported(self, event: Event) -> bool:
        """Whether the span of a started event, or the span on which the event is counted, is processed."""
        handle = event.handle
        return isinstance(handle, SpanContext) and handle.trace_flags.sampled and self._tracers.has_processors()

    def emitted_of(self, phase: Phase) -> int:
        """Number of spans of the phase that were sampled and have ended."""
        return self._emitted_of[phase]

    @property
    def dropped(self) -> int:
        """Number of spans that were not started because their trace had reached its limit."""
        return self._budget.refused

    # --- start ------------------------------------------------------------------------------------------------
    def open(self, event: Event) -> _Open | None:
        """Start the span of an event. Returns None on a rank that has no spans."""
        if self._ranks is not None and self._ranks.leaves_out():
            return None
        tracer = self._tracers.get()
        context, links = self._parent(event)
        around = trace.get_current_span(context).get_span_context()
        event.follows_sampled = around.trace_flags.sampled if around.is_valid else event.pick is not FOR_ITSELF
        if around.is_valid and not self._budget.take(limited_by(around), event.phase.room):
            event.handle = around  # children and links refer to the nearest span
            return _Open(None, None)
        facts = {**event.attributes, **_kept(event)} if event.phase.keep else event.attributes
        arguments: dict[str, Any] = {
            "name": semconv.span_name(event.name),
            "attributes": semconv.emitted(facts, capture_text=self._captures),
            "links": links,
            "start_time": event.start_ns,
        }
        if self._tracers.keeps:
            span = start_kept(tracer, event, context, around, arguments)
            event.handle = span.get_span_context()
        else:
            span = tracer.start_span(context=context, **arguments)
            event.handle = span.get_span_context()
            is_sampled = event.handle.trace_flags.sampled
            if not is_sampled and event.phase.keep and _is_refused(event.handle, around, tracer):
                self.refused += 1
        if span.is_recording():
            event.is_sampled = event.handle.trace_flags.sampled
            self.recorded += event.phase is not IMPORT
            if not around.is_valid:  # it begins a trace
                self._budget.take(limited_by(event.handle), 1.0)
        else:
            self.unsampled += event.phase is not IMPORT
            self._budget.give_back(limited_by(around))
        token = None
        if event.placement.is_current:
            token = context_api.attach(trace.set_span_in_context(span))
        return _Open(span, token, len(event.links))

    @staticmethod
    def _parent(event: Event) -> tuple[Context, list[Link]]:
        """A context in which the parent is the current span, and the links."""
        links = _links(event) if event.links else []
        if not event.placement.is_current and event.parent is not None and event.parent.handle is not None:
            return trace.set_span_in_context(NonRecordingSpan(event.parent.handle)), links
        context = context_api.get_current()
        current = trace.get_current_span(context)
        ended_ns = getattr(current, "end_time", None)
        if ended_ns is not None and ended_ns <= event.start_ns:  # an import is reported after its end
            links.append(Link(current.get_span_context()))
            context = trace.set_span_in_context(trace.INVALID_SPAN, context)
        elif not current.get_span_context().is_valid:
            started_by = context_api.get_value(STARTED_BY, context)
            if isinstance(started_by, SpanContext) and started_by.is_valid:
                links.append(Link(started_by))
        return context, links

    def leave(self, event: Event, token: _Open | None) -> None:
        """Make the span around the event's current again."""
        # If start and end happen in different frames, another span may be current by now. It stays current.
        if token is not None and token.token is not None and event.was_here and trace.get_current_span() is token.span:
            context_api.detach(token.token)

    # --- end --------------------------------------------------------------------------------------------------
    def close(self, event: Event, token: _Open | None) -> None:
        """End the span of an event."""
        if token is None:
            return
        opened, span = token, token.span
        if span is None:
            self._folding.fold(event, self._raised(event, opened))
            return
        kept_back = NOTHING
        try:
            if span.is_recording():
                kept_back = self._describe(event, span, opened)
            elif event.error is not None or event.occurrences:
                self._signals.without_span(event, _inside(event, opened))
        finally:
            ids = span.get_span_context()
            if any(kept_back):
                with withheld.while_ending(ids.trace_id, ids.span_id, kept_back):
                    span.end(event.end_ns)
            else:
                span.end(event.end_ns)
            if ids.trace_flags.sampled and ids.is_valid:
                self._emitted_of[event.phase] += 1
                operators = kept_back.operators
                if operators is not None and operators.events and not operators.is_read:
                    _warn_of_missing_spans()
        if event.phase.keep and event.parent is None and span.get_span_context().trace_flags.sampled:
            # If the program crashes later, most often at the first run, the spans in a batch processor would be lost.
            with contextlib.suppress(Exception):
                files = OwnFiles(self._tracers.provider())
                if files.exporters:
                    aside(files.flush)

    def _raised(self, event: Event, opened: _Open) -> Occurrence | None:
        """The occurrence for the exception that began in the event, recorded as configured; None without such an exception."""
        if event.error is None or not event.innermost:
            return None
        return self._signals.of_exception(event, _inside(event, opened))

    def _describe(self, event: Event, span: Span, opened: _Open) -> Withheld:
        """Write the attributes, events and status of a span. Returns what the program's exporters do not get of it."""
        facts = dict(event.additions)
        if event.steps:
            facts |= _steps(event)
        thread_s, process_s = event.processor_time
        if thread_s is not None and thread_s >= SHORTEST_ON_PROCESSOR_S:
            facts[semconv.CPU_THREAD_TIME] = thread_s
        if process_s is not None and process_s >= SHORTEST_ON_PROCESSOR_S:
            facts[semconv.CPU_PROCESS_TIME] = process_s
        if event.is_incomplete:
            facts[semconv.INCOMPLETE] = True
        if event.error is not None:
            facts[semconv.ERROR_TYPE] = semconv.class_name(type(event.error))
        if event.phase is COMPILE and not event.is_incomplete:
            facts[semconv.COMPILE_OUTCOME] = compile_outcome({**event.attributes, **facts})
        logged, own = self._occurred(event, opened) if event.occurrences or event.error is not None else ([], [])
        for occurrence in own:
            span.add_event(*self._reduced(occurrence))
        attributes = semconv.emitted(facts, capture_text=self._captures)
        span.set_attributes(attributes)
        for link in event.links[opened.links :]:
            span.add_link(link)
        if semconv.ERROR_TYPE in attributes:
            span.set_status(Status(StatusCode.ERROR, attributes.get(semconv.BUILD_ERROR)))
        texts: dict[str, Any] = {}
        if self._capture == "local":
            # The SDK's limit drops the oldest events, so that the first index may be below 0.
            first = len(getattr(span, "events", ())) - len(own)
            texts = semconv.whole_texts({**event.attributes, **facts})
            if texts or own or logged:
                texts = _whole_texts(texts, [*own, *logged], first)
        reduced = [*map(self._reduced, logged)]
        return Withheld(reduced, texts, event.scratch.get(OPERATORS))

    def _occurred(self, event: Event, opened: _Open) -> tuple[Sequence[Occurrence], Sequence[Occurrence]]:
        """What occurred in the event, its exception last: what is a log record by now, and what is an event of the span."""
        occurrences: list[Occurrence] = []
        if event.occurrences:
            occurrences += self._signals.of_events(event.occurrences, _inside(event, opened))
        raised = self._raised(event, opened)
        occurrences += () if raised is None else (raised,)
        logged = [occurrence for occurrence in occurrences if type(occurrence) is LoggedOccurrence]
        return logged, [occurrence for occurrence in occurrences if type(occurrence) is not LoggedOccurrence]

    def _reduced(self, occurrence: Occurrence) -> WithheldEvent:
        """An event as it may leave the process."""
        attributes = semconv.emitted(occurrence.attributes, capture_text=self._captures)
        return WithheldEvent(semconv.event_name(occurrence.name), attributes, occurrence.time_ns)


@functools.cache
def _warn_of_missing_spans() -> None:
    """Say once in a process that no processor makes spans of operators."""
    logger.warning(
        "torchspan: PyTorch's operators are recorded, and their spans are missing, because the tracer provider has no "
        "OperatorSpanProcessor. The table of operators is on the span around them. To export the spans: "
        "provider.add_span_processor(torchspan.sdk.OperatorSpanProcessor(exporter))."
    )


def _links(event: Event) -> list[Link]:
    return [Link(link) for link in event.links if isinstance(link, SpanContext) and link.is_valid]


def _kept(event: Event) -> dict[str, Any]:
    """The facts of an event that is kept: its thread too, if it is neither the main thread nor that of the event around it."""
    around = event.parent
    if event.thread_id == threading.main_thread().ident or (around is not None and around.thread_id == event.thread_id):
        return {semconv.KEEP: True}
    return {semconv.THREAD_ID: event.thread_id, semconv.KEEP: True}


def _whole_texts(own: Attributes, occurrences: list[Occurrence], first: int) -> dict[str, Any]:
    """The attributes with whole texts, for the user's own file.

    Args:
        own: Those of the span.
        first: The index of the first occurrence among the events of the file.
    """
    texts = {}
    for key, text in own.items():
        texts[f"{semconv.LOCAL}{key}"] = text
    for index, occurrence in enumerate(occurrences, first):
        for key, text in semconv.whole_texts(occurrence.attributes).items() if index >= 0 else ():
            texts[f"{semconv.LOCAL}{semconv.event_text_key(index, key)}"] = text
    return texts


def _is_refused(own: SpanContext, around: SpanContext, tracer: Tracer) -> bool:
    """Whether a sampler of the SDK has refused a span that is not sampled. A tracer that makes no spans returns the ids of the span around."""
    if not own.is_valid or own.span_id == around.span_id:
        return False
    return getattr(tracer, "sampler", None) is not None


def _inside(event: Event, opened: _Open) -> Context:
    """The context for the event: that of its span, or of the nearest span around it."""
    span = opened.span
    if span is None:
        handle = event.handle if isinstance(event.handle, SpanContext) else trace.INVALID_SPAN_CONTEXT
        span = NonRecordingSpan(handle)
    return trace.set_span_in_context(span)


def _steps(event: Event) -> dict[str, Any]:
    rows = event.steps.renamed(semconv.span_name).longest(STEPS_LIMIT)
    return {
        semconv.STEP_NAMES: [name for name, _, _ in rows],
        semconv.STEP_COUNTS: [count for _, count, _ in rows],
        semconv.STEP_DURATIONS: [seconds for _, _, seconds in rows],
    }
