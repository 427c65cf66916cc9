# SPDX-License-Identifier: Apache-2.0
"""Reads the measurements of metrics from events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from torchspan.engine import Event
from torchspan.phase import Phase
from torchspan.semconv import METRICS, Metric
from torchspan.semconv.measures import Count, Duration, Measure, Rows, RunDuration, Size

Facts = Mapping[str, Any]


def metrics_of(phase: Phase) -> tuple[Metric, ...]:
    """The metrics that read events of `phase`."""
    return _BY_PHASE.get(phase, ())


def measurements(measure: Measure, event: Event, facts: Facts) -> Iterator[tuple[float, Facts]]:
    """The measurements of an event that has ended: numbers, each with the facts that describe it.

    facts: all facts about the event.
    """
    if isinstance(measure, (Duration, RunDuration)):
        if event.end_ns is not None:
            yield (event.end_ns - event.start_ns) / 1e9, facts
    elif _is_inside(event, measure.of):
        return
    elif isinstance(measure, Rows):
        classes, numbers = next((pair for pair in measure.lists if facts.get(pair[0]) is not None), measure.lists[0])
        for name, number in zip(facts.get(classes, ()), facts.get(numbers, ()), strict=True):
            if number:
                yield number, {**facts, measure.by: name}
    elif isinstance(measure, (Size, Count)) and measure.key in facts:
        yield facts[measure.key] if isinstance(measure, Size) else 1, facts


def _is_inside(event: Event, phases: tuple[Phase, ...]) -> bool:
    """Whether an event of one of `phases` is around this one."""
    return event.parent is not None and event.parent.nearest(*phases) is not None


_BY_PHASE: dict[Phase, tuple[Metric, ...]] = {
    phase: tuple(metric for metric in METRICS if phase in metric.measure.of)
    for phase in dict.fromkeys(phase for metric in METRICS for phase in metric.measure.of)
}
