# SPDX-License-Identifier: Apache-2.0
"""What happens outside every event of torchspan: events on the user's current span, or log records with its ids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from time import time_ns  # the real one, also where a test of the program replaces it later
from typing import Any

from opentelemetry import context as context_api
from opentelemetry import trace

from torchspan.base.by_identity import ByIdentity
from torchspan.engine import Attributes, Occurrence
from torchspan.engine.event import NOTES_LIMIT
from torchspan.output import withheld
from torchspan.output.writer._event_signals import EventSignals, LoggedOccurrence
from torchspan.output.writer._parents import is_suppressed
from torchspan.words import semconv


class CurrentSpanNotes:
    """Records events of the user's current span, up to `NOTES_LIMIT` of each name on each.

    Args:
        signals: Records the events. Default: as events of spans.
    """

    def __init__(self, signals: EventSignals | None = None) -> None:
        self._signals = signals or EventSignals()
        self._added: ByIdentity[Counter[str]] = ByIdentity()

    def add(self, name: str, attributes: Attributes) -> None:
        """Record something that happens now, if the current span records and instrumentation is not suppressed."""
        self.add_again(name, {}, attributes)

    def add_again(self, name: str, emitted: Mapping[str, Any], more: Attributes) -> None:
        """As `add`, of something that happens often: with what `semconv.emitted` has returned for most of its attributes."""
        span = trace.get_current_span()
        if not span.is_recording() or is_suppressed():
            return
        added = self._added.get(span)
        if added is None:
            added = self._added.setdefault(span, Counter())
        if added[name] < NOTES_LIMIT:
            added[name] += 1
            noted = Occurrence(name, time_ns(), {**emitted, **more})
            (noted,) = self._signals.of_events([noted], context_api.get_current())
            reduced = withheld.WithheldEvent(
                semconv.event_name(name), {**emitted, **semconv.emitted(more)}, noted.time_ns
            )
            if type(noted) is LoggedOccurrence:
                withheld.note(span, reduced)
            else:
                span.add_event(*reduced)
