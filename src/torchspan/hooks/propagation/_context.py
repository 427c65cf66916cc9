# SPDX-License-Identifier: Apache-2.0
"""The context in which a thread or a process was started, as that thread or process sees it, and its way into threads."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextvars import Token
from typing import Any

from opentelemetry import context as context_api
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanContext

from torchspan.base.context.threads import ContextCarrier
from torchspan.base.patching import Function
from torchspan.words.sampling import STARTED_BY

# --- OpenTelemetry's current context in threads and pools -----------------------------------------------------------
CONSEQUENCE = "Propagating the context failed; the work continues, in traces of its own."

MakeItem = Callable[[Function, Context], "Function | None"]


class CurrentContext(ContextCarrier):
    """OpenTelemetry's current context.

    Args:
        carries: Whether it may be propagated now.
        make_item: Makes the work item that a pool pickles, of a function and its context. Default: there is none.
    """

    outside = Context()

    def __init__(self, carries: Callable[[], bool] = lambda: True, make_item: MakeItem = lambda *_: None) -> None:
        super().__init__(CONSEQUENCE)
        self._carries = carries
        self._make_item = make_item

    def for_thread(self) -> Context | None:
        """The context with a weak reference to its span, which may end before the thread does."""
        if not context_api.get_current() or not self._carries():
            return None
        return at_start()

    def for_item(self) -> Context | None:
        """The context with its span: work items are bounded."""
        return (context_api.get_current() or None) if self._carries() else None

    def for_process(self, function: Function) -> Function | None:
        """The function with the context as text."""
        context = self.for_item()
        return None if context is None else self._make_item(function, context)

    def enter(self, value: Context) -> Token[Context]:
        """Attach it."""
        return context_api.attach(value)

    def leave(self, before: Token[Context]) -> None:
        """Detach it."""
        context_api.detach(before)


# ------------------------------------------------------------------------------------------------------------------
(_SPAN_KEY,) = trace.set_span_in_context(trace.INVALID_SPAN, Context())
"""The key of the current span in a context, for which the API has no public name."""


class StartContext(Context):
    """The context in which a thread or process was started that may outlive it.

    It contains the span while the span is open, and not afterwards. So a worker's later work gets no stale parent, and
    no worker keeps a span alive. The ids of the span stay under `STARTED_BY`, and torchspan's spans then link to them.

    Args:
        context: The other entries, and perhaps the span.
        started_by: The ids of the span.
        find: Returns the span while it is open, otherwise None.
    """

    def __init__(self, context: Context, started_by: SpanContext, find: Callable[[], Span | None]) -> None:
        super().__init__({**context, STARTED_BY: started_by})
        dict.pop(self, _SPAN_KEY, None)  # a context refuses changes; nothing has been derived from this one
        self._find = find

    def get(self, key: str, default: Any = None) -> Any:
        """The span while it is open. Other entries are unchanged."""
        if key == _SPAN_KEY:
            return self._find() or default
        return super().get(key, default)

    def copy(self) -> dict[str, object]:
        """The current entries, for a context that is derived from this one."""
        entries, span = dict(self), self._find()
        if span is not None:
            entries[_SPAN_KEY] = span
        return entries

    def end(self) -> None:
        """Treat the span as ended, whether or not it has."""
        self._find = lambda: None

    def forget(self) -> None:
        """Treat the span as ended, and link to nothing."""
        self.end()
        dict.pop(self, STARTED_BY, None)  # a context refuses changes; nothing was derived from this entry


def at_start() -> Context | None:
    """The current context as a thread or process that is started now sees it; None if it is empty."""
    context = context_api.get_current()
    if not context or isinstance(context, StartContext):
        return context or None
    span = trace.get_current_span(context)
    started_by = span.get_span_context()
    if not started_by.is_valid or started_by.is_remote:  # a remote span is two ids, and cannot be seen to end
        return context
    return StartContext(context, started_by, _while_open(span))


def from_elsewhere(context: Context, is_over: Callable[[], bool]) -> Context | None:
    """The context that a process was started with, as the process sees it; None if it is empty.

    Args:
        is_over: Returns whether the span is not a parent any more.
    """
    span = trace.get_current_span(context)
    if not span.get_span_context().is_valid:
        return context or None
    return StartContext(context, span.get_span_context(), lambda: None if is_over() else span)


def _while_open(span: Span) -> Callable[[], Span | None]:
    """Finds the span while it is open. A span that is not recorded has no end, and counts as open while it is referenced."""
    reference = weakref.ref(span)

    def find() -> Span | None:
        span = reference()
        return None if span is None or getattr(span, "end_time", None) is not None else span

    return find
