# SPDX-License-Identifier: Apache-2.0
"""Spans of PyTorch's operators. They are made of records when they are exported, without the SDK's tracer."""

from __future__ import annotations

import contextlib
import functools
import queue
import struct
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from opentelemetry.context import Context
from opentelemetry.instrumentation.utils import suppress_instrumentation
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace import Link, SpanContext, Status, StatusCode

from torchspan.base.background import Background, Wake
from torchspan.base.boundaries import ErrorBoundary, kind_of
from torchspan.base.forks import in_each_child
from torchspan.base.logs import Log
from torchspan.base.recorded_operators import RecordedOperators
from torchspan.output import withheld
from torchspan.words import phase, semconv

EVENT = struct.Struct("<QQQQQQQHBBI")
"""A record: start, end, span id, parent's id, link's span id, thread, time of its own, name, flags, depth, link's trace."""

FAILED, ELSEWHERE, LINKED = 0x01, 0x02, 0x04
"""Flags of a record: ended by an exception, ran on another thread than the root, has a link."""
_SCOPE = 0x30
_SCOPES = {0x10: "backward_function", 0x20: "torchscript_function", 0x30: "user_scope"}

_MOST_REMEMBERED = 8_192
"""Combinations of name and flags whose attributes are kept."""

_UNSET, _ERROR = Status(), Status(StatusCode.ERROR)


class _Look(NamedTuple):
    """What the spans of one name have in common."""

    name: str
    attributes: Mapping[str, Any]
    texts: Mapping[str, Any]
    status: Status


def spans(operators: RecordedOperators, root: ReadableSpan) -> list[ReadableSpan]:
    """The spans of the operators that were recorded below `root`."""
    return [span for span, _ in spans_with_texts(operators, root)]


def spans_with_texts(
    operators: RecordedOperators, root: ReadableSpan
) -> Iterator[tuple[ReadableSpan, Mapping[str, Any]]]:
    """As `spans`; with each span the attributes that the user's own file and `capture()` alone get of it."""
    own = root.get_span_context()
    if own is None:
        return
    trace_id, trace_flags, state = own.trace_id, own.trace_flags, own.trace_state
    resource, scope = _hashed(root.resource), root.instrumentation_scope
    shapes, offset_ns = operators.shapes, operators.offset_ns
    for number, record in enumerate(EVENT.iter_unpack(operators.events)):
        start, end, span_id, parent_id, link_id, thread, _, name, flags, _, link = record
        look = _look(operators.name, operators.capture, name, flags & (FAILED | _SCOPE))
        facts: dict[str, Any] = {semconv.THREAD_ID: thread} if flags & ELSEWHERE else {}
        if shapes is not None and shapes[number]:
            facts[semconv.INPUT_SHAPES] = [str(list(dimensions)) for _, dimensions in shapes[number]]
            facts[semconv.INPUT_DTYPES] = [dtype for dtype, _ in shapes[number]]
        links = []
        if flags & LINKED:
            linked_trace = int.from_bytes(operators.links[16 * link : 16 * link + 16], "big")
            links.append(Link(SpanContext(linked_trace, link_id, is_remote=False, trace_flags=trace_flags)))
        span = ReadableSpan(
            look.name,
            SpanContext(trace_id, span_id, False, trace_flags, state),
            parent=SpanContext(trace_id, parent_id, False, trace_flags, state),
            resource=resource,
            attributes={**look.attributes, **semconv.emitted(facts)} if facts else look.attributes,
            links=links,
            status=look.status,
            start_time=start + offset_ns,
            end_time=end + offset_ns,
            instrumentation_scope=scope,
        )
        yield span, look.texts


class _HashedResource(Resource):
    """A resource that computes its hash once. OTLP's encoder asks each span's resource for it, which makes JSON each time."""

    def __init__(self, resource: Resource) -> None:
        super().__init__(resource.attributes, resource.schema_url)
        self._hash = super().__hash__()

    def __hash__(self) -> int:
        return self._hash


_hashed = functools.lru_cache(maxsize=4)(_HashedResource)


@functools.lru_cache(maxsize=_MOST_REMEMBERED)
def _look(name_of: Any, capture: str, number: int, flags: int) -> _Look:
    name = name_of(number)
    facts: dict[str, Any] = {semconv.OPERATOR_NAME: name}
    if flags & _SCOPE:
        facts[semconv.OPERATOR_SCOPE] = _SCOPES[flags & _SCOPE]
    reduced = semconv.emitted(facts)
    return _Look(
        # Of the reduced name: a text of the program may be an identifier.
        semconv.span_name(f"{phase.OPERATOR.name} {reduced[semconv.OPERATOR_NAME]}"),
        semconv.emitted(facts, capture_text=True) if capture == "text" else reduced,
        {f"{semconv.LOCAL}{key}": text for key, text in semconv.whole_texts(facts).items() if text}
        if capture == "local"
        else {},
        _ERROR if flags & FAILED else _UNSET,
    )


# --- to an exporter ---------------------------------------------------------------------------------------------------
BATCH = 512
"""Spans that an exporter gets at a time, at most."""

MOST_WAITING = 65_536
"""Operators that wait for the exporter, at most."""

DELAY_S = 1.0
"""Seconds for which operators wait for others, unless there are enough for a batch."""

_SHUTDOWN_S = 30.0

_Waiting: TypeAlias = "tuple[ReadableSpan, RecordedOperators] | threading.Event"
"""The operators below a span, or what is set once all in front of it is exported."""

_logger = Log("torchspan.sdk")


class OperatorSpanProcessor(SpanProcessor):
    """Exports PyTorch's operators that torchspan records below a span, as spans below it.

        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        provider.add_span_processor(OperatorSpanProcessor(OTLPSpanExporter()))

    It ignores all other spans, for which a provider has its other processors. When a sampled span with operators ends, they are
    queued. A thread of this processor makes their spans and exports them, at most 512 at a time and one batch after the other,
    within a second where the exporter is fast enough. No more than 65,536 operators wait. Those beyond are dropped: the first time
    is one warning, and `dropped` counts them.

    Names of operators leave the process as the attribute `torch.operator.name` documents.

    Nothing is raised into the program: the first export that fails is one warning. The shutdown of the provider, which by default
    happens at the exit of the program, exports what waits. A forked child begins with an empty queue.

    Args:
        exporter: Receives the spans, and is shut down with this processor. It should be no other processor's, because exporters need
            not support several exports at once.
    """

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self._background = Background("torchspan operators", self._run)
        self._boundary = ErrorBoundary("Spans of operators are missing.")
        self._said: set[str] = set()
        self._is_shut_down = False
        self._start_process()
        in_each_child(self._start_process)

    def _start_process(self) -> None:
        # What waits belongs to the parent, and another thread of it may have held a lock.
        self._lock, self._exporting = threading.RLock(), threading.RLock()
        self._waiting: deque[_Waiting] = deque()
        self._queued = self._taken = 0
        self._is_due = self._is_urgent = False
        self.dropped = 0
        """The operators of this process that were dropped because too many waited."""

    # --- the SDK's interface ------------------------------------------------------------------------------------------
    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Nothing."""

    def on_end(self, span: ReadableSpan) -> None:
        """Queue the operators below the span, if it is sampled."""
        self._boundary.attempt(self._queue, span)

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Wait until all that is queued is exported. Returns False if that takes longer than `timeout_millis`."""
        return self._is_shut_down or bool(self._boundary.attempt(self._flush, timeout_millis / 1000))

    def shutdown(self) -> None:
        """Export what is queued, for at most 30 seconds, and shut the exporter down. What ends later is ignored."""
        if self._is_shut_down:
            return
        self._is_shut_down = True
        if not self._boundary.attempt(self._flush, _SHUTDOWN_S):
            self._say("spans of operators are lost at the shutdown of an exporter", "it took too long")
            self._waiting.clear()
        self._background.stop()
        self._boundary.attempt(self._exporter.shutdown)

    # --- on the program's threads -------------------------------------------------------------------------------------
    def _queue(self, span: ReadableSpan) -> None:
        context = span.get_span_context()
        operators = None if context is None else withheld.of(context.trace_id, context.span_id).operators
        if context is None or operators is None or not context.trace_flags.sampled:
            return
        operators.is_read = True
        if self._is_shut_down:
            return
        with self._lock:
            is_full = self._queued - self._taken + operators.count > MOST_WAITING
            if is_full:
                self.dropped += operators.count
            else:
                self._queued += operators.count
                self._waiting.append((span, operators))
        if is_full:
            self._say(f"{MOST_WAITING} operators wait for an exporter, and further ones are dropped", "it is too slow")
        elif not self._is_due or self._queued - self._taken >= BATCH:
            self._is_due = True  # before: the thread resets it
            if not self._wake():
                self._is_due = False

    def _flush(self, timeout_s: float) -> bool:
        is_exported = threading.Event()
        self._waiting.append(is_exported)
        self._is_urgent = True  # after that: the thread looks at what waits once it has reset it
        if not self._wake():
            with suppress_instrumentation():
                self._export_waiting()
        return is_exported.wait(timeout_s)

    def _wake(self) -> bool:
        """Wake the thread. Returns False if there is none: the interpreter is ending, or there are too many threads."""
        try:
            return self._background.wake()
        except RuntimeError:
            return False

    # --- on the thread ------------------------------------------------------------------------------------------------
    def _run(self, wake: Wake) -> None:
        with suppress_instrumentation():
            continues = True
            while continues:
                if not self._is_urgent:
                    with contextlib.suppress(queue.Empty):
                        continues = wake.get(timeout=DELAY_S)
                self._is_due = self._is_urgent = False  # before: what is queued from here on wakes the thread again
                self._boundary.end(self._export_waiting)
                continues = continues and wake.get()

    def _export_waiting(self) -> None:
        with self._exporting:
            batch: list[ReadableSpan] = []
            while self._waiting:
                waiting = self._waiting.popleft()
                if isinstance(waiting, threading.Event):
                    self._boundary.attempt(self._export, batch)
                    batch = []
                    waiting.set()
                    continue
                root, operators = waiting
                self._taken += operators.count
                for span in self._boundary.attempt(spans, operators, root) or ():
                    batch.append(span)
                    if len(batch) == BATCH:
                        self._export(batch)
                        batch = []
            self._export(batch)

    def _export(self, batch: Sequence[ReadableSpan]) -> None:
        if not batch:
            return
        try:
            result = self._exporter.export(batch)
        except Exception as error:
            failure = kind_of(error)
        else:
            failure = "" if result is SpanExportResult.SUCCESS else "the exporter returned FAILURE"
        if failure:
            self._say("spans of operators could not be exported", failure)

    def _say(self, consequence: str, cause: str) -> None:
        if consequence not in self._said:
            self._said.add(consequence)
            _logger.warning("torchspan: %s (%s).", consequence, cause)
