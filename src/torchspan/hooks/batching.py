# SPDX-License-Identifier: Apache-2.0
"""Dynamic batching: one run of a model for several requests, and the links between them."""

# `import torchspan` loads this file, and most programs never batch: what a batch needs is imported at the first one.

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from opentelemetry import context as context_api
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanContext

from torchspan.base.boundaries import ErrorBoundary
from torchspan.base.forks import uncut

if TYPE_CHECKING:
    from typing_extensions import Self

    from torchspan.engine import Engine, Event

Request = Span | SpanContext | Context
"""What stands for a request: its span, the context of its span, or OpenTelemetry's context in which it is handled."""


class batch:  # noqa: N801 - it is used as a function is
    """A context manager for work that is done for several requests at once: the span `torchspan.batch`, linked to each.

    A server that batches keeps `opentelemetry.context.get_current()` with each request, and runs the model for several
    requests on another thread:

        with torchspan.batch([each.context for each in requests]):
            outputs = model(torch.cat([each.rows for each in requests]))

    The span is a child of the first request whose span is sampled, and has links to the spans of all that are; runs of
    engines and compilations inside are below it. The spans of the other requests that are still open get a link to it. If
    no request is sampled, the work inside is recorded as below the span of the first one: compilations and metrics.
    Nothing is recorded while torchspan is not instrumented.

    Args:
        requests: The spans, span contexts or contexts of the requests. A request without a span is counted, but gets no link.
            A compilation inside is `torchspan.while_serving` if the first sampled request comes from a SERVER span.

    Raises:
        TypeError: `requests` contains anything else, whether or not torchspan is instrumented.
    """

    __slots__ = ("_engine", "_event", "_requests", "_stack")

    def __init__(self, requests: Iterable[Request]) -> None:
        if isinstance(requests, (Span, SpanContext, Context)) or not isinstance(requests, Iterable):
            hint = ": write batch([request])" if isinstance(requests, (Span, SpanContext, Context)) else ""
            raise TypeError(f"requests must be a list of spans, span contexts or contexts, not {requests!r}{hint}")
        self._requests = [_checked(index, request) for index, request in enumerate(requests)]
        self._engine: Engine | None = None
        self._event: Event | None = None
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        try:
            _BATCHING.attempt(self._enter)
        except BaseException as error:  # of the program, or of a callback whose policy wants it raised
            self.__exit__(type(error), error, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _tb: TracebackType | None
    ) -> None:
        _BATCHING.end(self._leave, error)

    def _enter(self) -> None:
        with uncut():
            from torchspan.engine import RUNNING

        self._engine = RUNNING.engine
        sampled = () if self._engine is None else self._enter_parent()
        if self._engine is not None and sampled:
            self._open(self._engine, sampled)

    def _leave(self, error: BaseException | None) -> None:
        if self._engine is not None and self._event is not None:
            self._engine.close(self._event, error)
        self._event = None
        self._stack.close()

    def _enter_parent(self) -> Sequence[Span]:
        """Make the parent the current span. Returns the spans that are sampled, the parent first."""
        spans = [_span_of(request) for request in self._requests]
        sampled = [span for span in spans if span.get_span_context().trace_flags.sampled]
        parent = next(iter(sampled or (span for span in spans if span.get_span_context().is_valid)), None)
        if parent is not None:
            token = context_api.attach(trace.set_span_in_context(parent))
            self._stack.callback(context_api.detach, token)
        return sampled

    def _open(self, engine: Engine, sampled: Sequence[Span]) -> None:
        from torchspan.words import phase, semconv

        links = tuple(span.get_span_context() for span in sampled)
        self._event = engine.open(phase.BATCH, {semconv.BATCH_REQUESTS: len(self._requests)}, links=links)
        batch = None if self._event is None else self._event.handle
        if isinstance(batch, SpanContext) and batch not in links:  # else the trace was at its limit of spans
            engine.guard.call("linking requests to their batch", _link_to, batch, sampled[1:])


_BATCHING = ErrorBoundary("A batch was not recorded; the work in it was done.")


def _checked(index: int, request: Any) -> Request:
    if isinstance(request, (Span, SpanContext, Context)):
        return request
    raise TypeError(
        f"batch() takes spans, span contexts or contexts; requests[{index}] is a {type(request).__name__}. "
        "Keep opentelemetry.context.get_current() with each request."
    )


def _span_of(request: Request) -> Span:
    if isinstance(request, Span):
        return request
    return trace.NonRecordingSpan(request) if isinstance(request, SpanContext) else trace.get_current_span(request)


def _link_to(batch: SpanContext, spans: Iterable[Span]) -> None:
    for span in spans:
        add_link = getattr(span, "add_link", None)  # spans of an older API, or of another SDK, have none
        if add_link is not None and span.is_recording():
            add_link(batch)
