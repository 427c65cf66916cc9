# SPDX-License-Identifier: Apache-2.0
"""What happens outside every event of torchspan: events on the user's current span."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from opentelemetry.trace import Span

from torchspan import semconv
from torchspan.engine import Attributes
from torchspan.engine.event import NOTES_LIMIT
from torchspan.writer._otel_private import SPAN_KEY, SUPPRESS_KEYS, add_emitted_event, context_reader


class CurrentSpanNotes:
    """Adds events to the user's current span, up to `NOTES_LIMIT` of each name on each."""

    def __init__(self) -> None:
        self._context: Callable[[], Any] = context_reader()
        self._added: weakref.WeakKeyDictionary[Span, Counter[str]] = weakref.WeakKeyDictionary()

    def add(self, name: str, attributes: Attributes) -> None:
        """Record something that happens now, if the current span records and instrumentation is not suppressed."""
        self.add_again(name, {}, attributes)

    def add_again(self, name: str, emitted: Mapping[str, Any], more: Attributes) -> None:
        """As `add`, of something that happens often: with what `semconv.emitted` has returned for most of its attributes."""
        context = self._context()
        span = context.get(SPAN_KEY)
        if not isinstance(span, Span) or not span.is_recording():
            return
        for key in SUPPRESS_KEYS:
            if context.get(key):
                return
        added = self._added.get(span)
        if added is None:
            added = self._added.setdefault(span, Counter())
        if added[name] < NOTES_LIMIT:
            added[name] += 1
            add_emitted_event(span, semconv.event_name(name), {**emitted, **semconv.emitted(more)})
