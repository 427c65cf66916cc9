# SPDX-License-Identifier: Apache-2.0
"""From events to metrics."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from opentelemetry import metrics
from opentelemetry.instrumentation.utils import is_instrumentation_enabled
from opentelemetry.metrics import MeterProvider

from torchspan import phase, semconv
from torchspan._base.scratch import Key
from torchspan.engine import ActiveWork, Callback, Engine, Event
from torchspan.engine.run_times import HELD
from torchspan.semconv import Metric
from torchspan.writer._instruments import Instruments, instruments_of

AT_ONCE = 16
"""Durations that one run records at most, where recording each takes microseconds."""

BATCH = 1024
"""Durations that one run adds up at once, where the provider can take many at a time: about 0.1 µs each."""

_LOOKED_UP: Key[bool] = Key("looked_up")
"""Tally key: the lookup of this conversion has been counted."""


class MetricWriter:
    """A callback of the pipeline: the metrics of the table, whatever becomes of the spans.

    It records when events end, and when a reader collects: durations of the runs that are no events, and counts that
    somebody else keeps. Durations of runs are asked for only while something is read. Users set their
    provider late, so it is looked for at every event; runs before the first event after that, or before the first
    collection, are not in the metrics.

    meter_provider: the provider to use instead of the global one.
    active: the long work that is going on.
    dropped: how many spans were not opened so far.
    """

    def __init__(
        self, engine: Engine, meter_provider: MeterProvider | None, *, active: ActiveWork, dropped: Callable[[], int]
    ) -> None:
        self._engine = engine
        self._fixed = meter_provider
        self._provider: MeterProvider | None = None
        self._instruments: Instruments | None = None
        self._active = active
        self._closed = False
        self._adds_up_at_once = True
        self._lock = threading.Lock()
        self._counters: list[tuple[Metric, dict[str, Any], Callable[[], int]]] = [
            (semconv.METRIC_SPANS_DROPPED, {str(semconv.DROPPED_REASON): semconv.BUDGET}, dropped),
            (semconv.METRIC_CALLBACK_FAILURES, {}, lambda: _failures(engine)),
        ]
        self._counted = [count() for _, _, count in self._counters]  # the user's callbacks may have failed before us
        self.callback = Callback("recording metrics", self._start, self._end)
        engine.guard.call("making instruments", self._look_for_provider)

    def close(self) -> None:
        """Record what is held and leave; events that are open are still recorded when they end."""
        self.collected()
        self._closed = True
        self._engine.run_times.want(None)
        if self._instruments is not None:
            self._instruments.detach(self)

    def collected(self) -> int:
        """See `torchspan.writer._instruments.Source`."""
        self._engine.guard.call("collecting metrics", self._collect)
        return len(self._active)

    # --- where it goes ----------------------------------------------------------------------------------------
    def _look_for_provider(self) -> Instruments | None:
        """The instruments to record with; None while nothing is read."""
        if not self._closed:
            provider = self._fixed or metrics.get_meter_provider()
            if provider is not self._provider:
                self._change_to(instruments_of(provider))
                self._provider = provider
        instruments = self._instruments
        is_read = instruments is not None and instruments.is_read()
        times = self._engine.run_times
        if is_read != times.wanted and not self._closed:
            self._want_runs() if is_read else times.want(None)
        return instruments if is_read else None

    def _change_to(self, instruments: Instruments) -> None:
        if instruments is self._instruments:
            return
        if self._instruments is not None:
            self._collect_runs()
            self._instruments.detach(self)
        self._instruments = instruments
        self._adds_up_at_once = True  # until this provider is seen not to
        instruments.attach(self)

    # --- what is held -----------------------------------------------------------------------------------------
    def _collect(self) -> None:
        if self._look_for_provider() is not None:
            self._collect_runs()
            self._collect_counts()

    def _collect_batch(self) -> None:
        """For a run that finds a batch held: add it up at once, or only a few where each takes microseconds."""
        self._collect_runs(None if self._adds_up_at_once else AT_ONCE)

    def _collect_runs(self, at_most: int | None = None) -> None:
        instruments = self._instruments
        if instruments is None:
            return
        runs = list(self._engine.run_times.take(at_most))
        durations_s = [duration_s for duration_s, error in runs if error is None]
        if durations_s and self._adds_up_at_once:
            self._adds_up_at_once = instruments.record_all(semconv.METRIC_EXECUTE_DURATION, durations_s)
            if self._adds_up_at_once:
                runs = [each for each in runs if each[1] is not None]
            else:
                self._want_runs()
        for duration_s, error in runs:
            attributes = {} if error is None else {str(semconv.ERROR_TYPE): semconv.class_name(error)}
            instruments.record(semconv.METRIC_EXECUTE_DURATION, duration_s, attributes)

    def _want_runs(self) -> None:
        self._engine.run_times.want(self._collect_batch, batch=BATCH if self._adds_up_at_once else HELD)

    def _collect_counts(self) -> None:
        instruments = self._instruments
        if instruments is None:
            return
        with self._lock:  # readers collect on threads of their own
            for index, (metric, attributes, count) in enumerate(self._counters):
                now = count()
                if now > self._counted[index]:
                    instruments.add(metric, now - self._counted[index], attributes)
                    self._counted[index] = now

    # --- events -----------------------------------------------------------------------------------------------
    def _start(self, _event: Event) -> bool:
        self._look_for_provider()
        return is_instrumentation_enabled()

    def _end(self, event: Event, is_wanted: bool | None) -> None:
        instruments = self._look_for_provider()
        if instruments is None or not is_wanted or event.end_ns is None:
            return
        facts = {**event.attributes, **event.additions, semconv.PHASE: event.phase.name}
        if event.error is not None:
            facts[semconv.ERROR_TYPE] = semconv.class_name(type(event.error))
        duration = _DURATIONS.get(event.phase, semconv.METRIC_PHASE_DURATION if event.phase.keep else None)
        if duration is not None:
            instruments.record(duration, (event.end_ns - event.start_ns) / 1e9, _attributes(duration, facts))
        if event.phase in _CONVERSIONS and semconv.ENGINE_SIZE in facts:
            instruments.record(semconv.METRIC_ENGINE_SIZE, facts[semconv.ENGINE_SIZE], {})
        if semconv.CACHE_RESULT in facts:
            _count_lookup(instruments, event, facts)
        if semconv.FALLBACK_TOTAL_REASONS in facts:
            _count_fallback(instruments, event, facts)


def _failures(engine: Engine) -> int:
    """How often callbacks failed: the engine's own, and those of the user in the same registry."""
    return sum(sum(guard.failures.values()) for guard in {engine.guard, engine.registry.guard})


_DURATIONS = {
    phase.COMPILE: semconv.METRIC_COMPILE_DURATION,
    phase.EXECUTE: semconv.METRIC_EXECUTE_DURATION,
}
"""The metric of a phase's durations, where it is not the one of all phases (or none: of frequent work not all is an event)."""

_CONVERSIONS = (phase.CONVERT, phase.CONVERT_TO_ENGINE)
"""What makes one engine each."""


def _attributes(metric: Metric, facts: Mapping[str, Any]) -> dict[str, Any]:
    """The metric's attributes, as far as they are known."""
    return {str(key): facts[key] for key in metric.attributes if key in facts}


def _count_lookup(instruments: Instruments, event: Event, facts: Mapping[str, Any]) -> None:
    """Count a look into the cache once: the conversion around it may tell the result as well."""
    conversion = event.nearest(*_CONVERSIONS)
    if event.phase not in (phase.CACHE_LOOKUP, *_CONVERSIONS):
        return
    if conversion is not None:
        if conversion.scratch.get(_LOOKED_UP):
            return
        conversion.scratch[_LOOKED_UP] = True
    instruments.add(semconv.METRIC_CACHE_LOOKUPS, 1, _attributes(semconv.METRIC_CACHE_LOOKUPS, facts))


def _count_fallback(instruments: Instruments, event: Event, facts: Mapping[str, Any]) -> None:
    """Count what runs in PyTorch on the outermost event that knows: a partition shares it with its compilation."""
    if event.nearest(*phase.LOWERING) not in (event, None):
        return
    rows = zip(
        facts[semconv.FALLBACK_TOTAL_REASONS],
        facts[semconv.FALLBACK_TOTAL_OPERATORS],
        facts[semconv.FALLBACK_TOTAL_SUBGRAPHS],
        strict=True,
    )
    for reason, operators, subgraphs in rows:
        told = {**facts, semconv.FALLBACK_REASON_CLASS: reason}
        for metric, number in (
            (semconv.METRIC_FALLBACK_OPERATORS, operators),
            (semconv.METRIC_FALLBACK_SUBGRAPHS, subgraphs),
        ):
            if number:
                instruments.add(metric, number, _attributes(metric, told))
