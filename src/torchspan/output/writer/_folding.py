# SPDX-License-Identifier: Apache-2.0
"""Folds events without a span, because their trace had reached its limit, into the event around them."""

from __future__ import annotations

from opentelemetry.trace import get_current_span

from torchspan.base.by_identity import ByIdentity
from torchspan.engine import Event, Occurrence, Surroundings
from torchspan.output.writer._parents import SpanParents
from torchspan.words import semconv

OCCURRENCES = 128
"""Maximum number of occurrences on an event that others are folded into: the SDK keeps as many on a span."""


class Folding:
    """Folds each event into the event around it, outwards until an event has a span."""

    def __init__(self, parents: SpanParents) -> None:
        self._parents = parents
        self._outside: ByIdentity[int] = ByIdentity()

    def fold(self, event: Event, raised: Occurrence | None) -> None:
        """Fold an event that has ended.

        Args:
            raised: The exception that began in it, if one did.
        """
        if event.parent is not None:
            self._fold_into(event.parent, event, raised)
        elif event.phase.folded is not None:
            self._count(event)
        else:
            self._count_on_the_users_span()

    def _fold_into(self, outer: Event, event: Event, raised: Occurrence | None) -> None:
        """Add the event's own time as a step, and its steps alongside, so that the steps add up to no more than the span."""
        outer.steps.merge(event.steps)
        outer.steps.add(event.name, max(_seconds(event) - event.steps.seconds(), 0.0))
        outer.additions[semconv.FOLDED] = (
            outer.additions.get(semconv.FOLDED, 0) + event.additions.get(semconv.FOLDED, 0) + 1
        )
        taken_over = [occurrence for occurrence in event.occurrences if occurrence.name != semconv.OBSERVER_EVENT]
        fired = sum(
            occurrence.attributes[semconv.OBSERVER_COUNT]
            for occurrence in event.occurrences
            if occurrence not in taken_over
        )
        omitted = event.additions.get(semconv.OBSERVERS_OMITTED, 0) + fired
        if omitted:  # an official observer fires for each run of an engine: as events these would displace all others
            outer.additions[semconv.OBSERVERS_OMITTED] = outer.additions.get(semconv.OBSERVERS_OMITTED, 0) + omitted
        if raised is not None:
            taken_over.append(raised)
        elif event.error is None and semconv.ERROR_TYPE in event.additions:  # a failure without an exception
            outer.additions.setdefault(semconv.ERROR_TYPE, event.additions[semconv.ERROR_TYPE])
        outer.occurrences += taken_over
        del outer.occurrences[: max(len(outer.occurrences) - OCCURRENCES, 0)]

    def _count(self, event: Event) -> None:
        surroundings = self._parents.look(self._parents.context())
        if not isinstance(surroundings, Surroundings):
            surroundings.tally(event.phase).add(_seconds(event))

    def _count_on_the_users_span(self) -> None:
        """Count the event on the user's span, because no event is around it."""
        span = get_current_span()
        if span.is_recording():
            self._outside[span] = folded = (self._outside.get(span) or 0) + 1
            span.set_attributes(semconv.emitted({semconv.FOLDED: folded}))


def _seconds(event: Event) -> float:
    return 0.0 if event.end_ns is None else (event.end_ns - event.start_ns) / 1e9
