# SPDX-License-Identifier: Apache-2.0
"""Which spans are open, and which of them lie around another."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable
from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Span
from opentelemetry.trace import SpanContext

MOST_OPEN = 10_000
"""Open spans that are remembered. A program that never ends its spans forgets the oldest."""

MOST_ANCESTORS = 64
"""Ancestors that a span names, the innermost ones."""

_Key = tuple[int, int]


class OpenSpan:
    """An open span, as long as it or a span below it is open. It does not keep the span alive.

    Args:
        parent: The nearest span around it that was open when it started.
    """

    __slots__ = ("_is_open", "_name", "_span", "parent", "span_id", "start_ns")

    def __init__(self, span: Any, context: SpanContext, parent: OpenSpan | None, *, is_open: bool) -> None:
        self.span_id = context.span_id
        self.start_ns: int = span.start_time or 0
        self.parent = parent
        self._name: str = span.name
        self._is_open = is_open
        self._span = _weak(span)

    @property
    def name(self) -> str:
        """As it is now: frameworks name the span of a request when they know its route."""
        span = self._span()
        return self._name if span is None else str(span.name)

    def end(self) -> None:
        """It is open no longer."""
        self._is_open = False

    def nearest_open(self) -> OpenSpan | None:
        """The span itself, or the first one around it that is open."""
        span: OpenSpan | None = self
        while span is not None and not span.is_open:
            span = span.parent
        return span

    @property
    def is_open(self) -> bool:
        """Also False for a span that was open before anything was remembered, and has ended since."""
        if self._is_open and getattr(self._span(), "end_time", None) is not None:
            self._is_open = False
        return self._is_open

    def and_around(self) -> list[OpenSpan]:
        """The span itself and those around it that are open, innermost first, at most `MOST_ANCESTORS`."""
        open_spans: list[OpenSpan] = []
        span = self.nearest_open()
        while span is not None and len(open_spans) < MOST_ANCESTORS:
            open_spans.append(span)
            span = span.parent.nearest_open() if span.parent is not None else None
        return open_spans


class OpenSpans:
    """The open spans of one process, those of a forked child's parent included: they are ancestors in the child."""

    def __init__(self) -> None:
        # Each step on it is atomic. A lock might be held by another thread during a fork.
        self._open: dict[_Key, OpenSpan] = {}

    def start(self, span: Span, context: Context | None) -> OpenSpan:
        """Remember a span that starts in `context` (None: the current one)."""
        own = span.get_span_context()
        parent = self._around(span, context)
        if parent is not None:
            parent = parent.nearest_open()
        if parent is not None and parent.parent is not None:
            # A chain in which each span starts the next and then ends would hold all of them.
            parent.parent = parent.parent.nearest_open()
        opened = OpenSpan(span, own, parent, is_open=own.trace_flags.sampled)
        if len(self._open) >= MOST_OPEN:
            self._forget_oldest()
        self._open[own.trace_id, own.span_id] = opened
        return opened

    def end(self, span: ReadableSpan) -> list[OpenSpan]:
        """Forget the span. Returns the open spans around it, innermost first."""
        context = span.get_span_context()
        if context is None:
            return []
        opened = self._open.pop((context.trace_id, context.span_id), None)
        if opened is None:  # it began before anything was remembered
            around = self._open.get(_key(span.parent)) if span.parent is not None else None
        else:
            opened.end()
            around = opened.parent
        return [] if around is None else around.and_around()

    def __len__(self) -> int:
        return len(self._open)

    def _around(self, span: Span, context: Context | None) -> OpenSpan | None:
        """The span in which `span` starts; None where it is a root, or nothing is known of its parent."""
        parent = span.parent
        if parent is None:
            return None
        state = self._open.get(_key(parent))
        if state is not None or parent.is_remote:
            return state
        above: Any = trace.get_current_span(context)
        if not _has_same_processors(above, span):
            return None
        # It began before anything was remembered.
        grandparent = above.parent
        around = self._open.get(_key(grandparent)) if grandparent is not None else None
        return OpenSpan(above, parent, around, is_open=parent.trace_flags.sampled)

    def _forget_oldest(self) -> None:
        with contextlib.suppress(RuntimeError, StopIteration):  # another thread has changed it meanwhile
            self._open.pop(next(iter(self._open)), None)


def _key(context: SpanContext) -> _Key:
    return context.trace_id, context.span_id


def _has_same_processors(span: Any, other: Any) -> bool:
    """Whether both are recording spans of one provider of the SDK, so that the end of both will be seen."""
    resource = getattr(span, "resource", None)
    return resource is not None and resource is getattr(other, "resource", None)


def _weak(span: Any) -> Callable[[], Any]:
    try:
        return weakref.ref(span)
    except TypeError:  # a span of another SDK, without weak references
        return lambda: None
