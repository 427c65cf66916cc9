# SPDX-License-Identifier: Apache-2.0
"""What a thread or a process sees of the context in which it was started."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from opentelemetry import context as context_api
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanContext
from opentelemetry.trace.propagation import _SPAN_KEY  # what the API itself asks a context for

from torchspan._base.keys import STARTED_BY


class StartContext(Context):
    """The context in which something was started that may outlive it.

    Its span is there while it is open and gone once it is over, so that a worker's later work gets no stale parent, and
    no worker keeps a span alive. What the span was stays under `STARTED_BY`: torchspan's spans link to it then.

    entries: the other entries. started_by: what the span is known by. find: the span while it is open, else None.
    """

    def __init__(self, entries: dict[str, object], started_by: SpanContext, find: Callable[[], Span | None]) -> None:
        super().__init__({**entries, STARTED_BY: started_by})
        self._find = find

    def get(self, key: str, default: Any = None) -> Any:
        """The span while it is open; other entries as they are."""
        if key == _SPAN_KEY:
            return self._find() or default
        return super().get(key, default)

    def copy(self) -> dict[str, object]:
        """The entries as they are now, for a context that is derived from this one."""
        entries, span = dict(self), self._find()
        if span is not None:
            entries[_SPAN_KEY] = span
        return entries

    def end(self) -> None:
        """The span is over, whatever it says itself."""
        self._find = _no_span

    def forget(self) -> None:
        """As if it had never been: over, and nothing to link to."""
        self.end()
        dict.pop(self, STARTED_BY, None)  # a context refuses changes; nothing was derived from this entry


def at_start() -> Context | None:
    """The current context as a thread or process started now sees it; None when there is nothing."""
    context = context_api.get_current()
    if not context or isinstance(context, StartContext):
        return context or None
    span = trace.get_current_span(context)
    started_by = span.get_span_context()
    if not started_by.is_valid or started_by.is_remote:  # a remote span is two ids, and cannot be seen to end
        return context
    entries = {key: value for key, value in context.items() if key != _SPAN_KEY}
    return StartContext(entries, started_by, _while_open(span))


def from_elsewhere(context: Context, is_over: Callable[[], bool]) -> Context | None:
    """What a process sees of the context it was started with; None when there is nothing.

    is_over: whether the span is not a parent any more.
    """
    span = trace.get_current_span(context)
    if not span.get_span_context().is_valid:
        return context or None
    entries = {key: value for key, value in context.items() if key != _SPAN_KEY}
    return StartContext(entries, span.get_span_context(), lambda: None if is_over() else span)


def _while_open(span: Span) -> Callable[[], Span | None]:
    """A span that is not recorded does not say when it ends; it is over when nothing refers to it any more."""
    reference = weakref.ref(span)

    def find() -> Span | None:
        span = reference()
        return None if span is None or getattr(span, "end_time", None) is not None else span

    return find


def _no_span() -> None:
    pass
