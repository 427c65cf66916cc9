# SPDX-License-Identifier: Apache-2.0
"""Writes events as metrics."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from opentelemetry import metrics, trace
from opentelemetry.context import Context
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import NonRecordingSpan, SpanContext

from torchspan.base.boundaries import Failures
from torchspan.base.errors import PROCESS_GUARD, UserCallback
from torchspan.base.forks import renewed
from torchspan.engine import ActiveWork, Engine, Event, Listener
from torchspan.engine.run_times import RunTimes
from torchspan.output.writer._instruments import OUTSIDE, Instruments, instruments_of
from torchspan.output.writer._parents import is_inside_output
from torchspan.words import semconv
from torchspan.words.phase import COMPILE, Phase
from torchspan.words.semconv import METRICS, Metric
from torchspan.words.semconv.measures import (
    Count,
    Duration,
    LongestRunning,
    Measure,
    Rows,
    RunDuration,
    RunningWork,
    Size,
)

# --- measurements of events -----------------------------------------------------------------------------------------
Facts = Mapping[str, Any]


def metrics_of(phase: Phase) -> tuple[Metric, ...]:
    """The metrics that read events of `phase`."""
    return _BY_PHASE.get(phase, ())


def measurements(measure: Measure, event: Event, facts: Facts) -> Iterator[tuple[float, Facts]]:
    """The measurements of an event that has ended: numbers, each with the facts that describe it.

    Args:
        facts: All facts about the event.
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


# ------------------------------------------------------------------------------------------------------------------
Counted = tuple[Metric, Mapping[str, Any], Callable[[], int]]
"""A metric with its attributes, and a function that returns a number which only increases."""

Gathered = tuple[Metric, float, Mapping[str, Any]]
"""A measurement of a metric, with its attributes."""

_NOTHING: Mapping[str, Callable[[], int]] = MappingProxyType({})

AT_ONCE = 16
"""Maximum number of durations that are recorded without a pause, and by one run, because recording each takes microseconds."""


class MetricWriter(Listener):
    """Records the metrics of the table, whatever happens to the spans.

    It records events when they end. When a reader collects, it records the durations of runs that are not events, and numbers
    that other parts of torchspan keep. Runs are timed only while there is a meter provider, which `OTEL_METRICS_EXPORTER=none`
    rules out. Programs set their provider late, so the writer checks for it at every event. Runs before the first event after
    that are not in the metrics.

    Args:
        meter_provider: The provider to use instead of the global one.
        dropped: Reason (`semconv.DroppedReason`) -> function that returns the number of spans not started so far.
        emitted: Name of a phase -> function that returns the number of its spans that were sampled and have ended so
            far.
        gathered: Returns the measurements that other parts of torchspan have gathered since the last call.
        default: Returns the provider to use if none is passed.
    """

    name = "recording metrics"

    def __init__(
        self,
        engine: Engine,
        meter_provider: MeterProvider | None,
        *,
        dropped: Mapping[str, Callable[[], int]],
        emitted: Mapping[str, Callable[[], int]] = _NOTHING,
        gathered: Callable[[], Iterable[Gathered]] = tuple,
        default: Callable[[], MeterProvider] | None = None,
    ) -> None:
        self._engine = engine
        self._runs = [
            (metric, engine.run_times[metric.measure.of[0]])
            for metric in semconv.METRICS
            if isinstance(metric.measure, RunDuration)
        ]
        self._fixed = meter_provider
        self._default = default
        self._provider: MeterProvider | None = None
        self._instruments: Instruments | None = None
        self._active = {
            phases: ActiveWork(phases, phases[0].name)
            for phases in dict.fromkeys(
                metric.measure.of for metric in METRICS if isinstance(metric.measure, (RunningWork, LongestRunning))
            )
        }
        self._closed = False
        self._lock = renewed(threading.Lock())
        self._counters: list[Counted] = []
        self._counters += [
            (semconv.METRIC_SPAN_DROPPED, {semconv.DROPPED_REASON: key}, count) for key, count in dropped.items()
        ]
        self._counters += [
            (semconv.METRIC_SPAN_EMITTED, {semconv.PHASE: name}, count) for name, count in emitted.items()
        ]
        self._counters += [
            (semconv.METRIC_CALLBACK_FAILURES, {}, lambda: _failures(engine)),
            (semconv.METRIC_CALLBACK_FAILURES, {}, lambda: Failures.total),
        ]
        self._gathered = gathered
        self._counted = [count() for _, _, count in self._counters]  # user callbacks may have failed earlier
        self._counted[-1] = Failures.before
        engine.guard.call("making instruments", self._look_for_provider)

    def stop(self) -> None:
        """Record the held values and stop reading. Open events are still recorded when they end."""
        self.collect()
        if self._instruments is not None:
            Failures.before = Failures.total
        self._closed = True
        for times in self._engine.run_times.values():
            times.want(None)
        if self._instruments is not None:
            self._instruments.detach(self)

    def collect(self) -> None:
        """Called when a reader collects: record the values that are still held."""
        self._engine.guard.call("collecting metrics", self._collect)

    def running(self, phases: tuple[Phase, ...]) -> list[float] | None:
        """The seconds for which each piece of work of the phases has been running; None before the first of the process."""
        active = self._active[phases]
        return [event.elapsed_ns() / 1e9 for event in active.events()] if active.has_begun else None

    def start_process(self) -> None:
        """Called in a forked child: the counts so far belong to the parent."""
        self._counted = [count() for _, _, count in self._counters]
        tuple(self._gathered())

    def is_read(self) -> bool:
        """Whether metrics are ever collected."""
        return self._look_for_provider() is not None

    def export(self) -> None:
        """Export torchspan's measurements, without those of the program."""
        if self._look_for_provider() is not None and self._instruments is not None:
            self._instruments.export()

    # --- the provider ----------------------------------------------------------------------------------------
    def _look_for_provider(self) -> Instruments | None:
        """The instruments to record with; None while no reader collects."""
        if not self._closed:
            provider = self._fixed or (self._default or metrics.get_meter_provider)()
            if provider is not self._provider:
                self._change_to(None if self._is_read_by_none(provider) else instruments_of(provider))
                self._provider = provider
        instruments = self._instruments
        is_read = instruments is not None
        for metric, times in self._runs:
            if is_read != times.is_collected and not self._closed:
                times.want(partial(self._collect_due, metric, times) if is_read else None)
        return instruments

    def _is_read_by_none(self, provider: MeterProvider) -> bool:
        """Whether it is known that nothing is collected: a provider of the API alone, or no exporter by the variable."""
        if type(provider).__module__.startswith("opentelemetry.metrics"):
            return True
        return self._fixed is None and os.environ.get("OTEL_METRICS_EXPORTER", "").strip() == "none"

    def _change_to(self, instruments: Instruments | None) -> None:
        if self._instruments is not None:
            self._collect_runs()
            self._instruments.detach(self)
        self._instruments = instruments
        if instruments is not None:
            instruments.attach(self)

    # --- held values ------------------------------------------------------------------------------------------
    def _collect(self) -> None:
        if self._look_for_provider() is not None:
            self._collect_runs()
            self._collect_counts()

    def _collect_runs(self) -> None:
        for metric, times in self._runs:
            self._collect_runs_of(metric, times)

    def _collect_runs_of(self, metric: Metric, times: RunTimes, at_most: int | None = None) -> None:
        instruments = self._instruments
        if instruments is None:
            return
        for duration_s, error in times.take_failed(at_most):
            facts: dict[str, Any] = {semconv.ERROR_TYPE: semconv.class_name(error)}
            instruments.write(metric, duration_s, facts)
        record = instruments.writes(metric, {})
        durations_s = times.take(at_most)
        for start in range(0, len(durations_s), AT_ONCE):
            for duration_s in durations_s[start : start + AT_ONCE]:
                record(duration_s)
            time.sleep(0)  # releases the interpreter's lock, for which a run would otherwise wait 5 ms

    def _collect_due(self, metric: Metric, times: RunTimes) -> None:
        """Called by a run, which may be in a finalizer or a signal handler: the next run tries again."""
        if not is_inside_output(2):
            self._collect_runs_of(metric, times, AT_ONCE)

    def _collect_counts(self) -> None:
        instruments = self._instruments
        if instruments is None:
            return
        if not self._lock.acquire(blocking=False):  # another reader is collecting them, or this has interrupted it
            return
        try:
            for index, (metric, facts, count) in enumerate(self._counters):
                now = count()
                if now > self._counted[index]:
                    instruments.write(metric, now - self._counted[index], facts)
                    self._counted[index] = now
            for metric, number, facts in self._gathered():
                instruments.write(metric, number, facts)
        finally:
            self._lock.release()

    # --- events -----------------------------------------------------------------------------------------------
    @property
    def listeners(self) -> tuple[Listener, ...]:
        """What keeps track of the work that is running, and this object."""
        return (*self._active.values(), self)

    def open(self, event: Event) -> None:
        """See `Listener`. Runs inside the event are timed once the program has set a provider."""
        if event.parent is None:
            self._look_for_provider()

    def close(self, event: Event, token: None) -> None:  # noqa: ARG002 - see `Listener`
        """See `Listener`."""
        instruments = self._look_for_provider()
        if instruments is None or event.end_ns is None:
            return
        facts = {**event.attributes, **event.additions, semconv.PHASE: event.phase.name}
        if event.error is not None:
            facts[semconv.ERROR_TYPE] = semconv.class_name(type(event.error))
        if event.phase is COMPILE:
            facts[semconv.COMPILE_OUTCOME] = compile_outcome(facts)
        context = _inside(event)
        for metric in metrics_of(event.phase):
            for number, described in measurements(metric.measure, event, facts):
                instruments.write(metric, number, described, context)


def compile_outcome(facts: Mapping[str, Any]) -> str:
    """How a compilation ended, by the attributes of its span."""
    if semconv.ERROR_TYPE in facts:
        return semconv.Outcome.FAILED
    return semconv.Outcome.FALLBACK if semconv.FALLBACK_REASON_CLASSES in facts else semconv.Outcome.COMPLETE


def _inside(event: Event) -> Context:
    """The context of a measurement of the event. An exemplar refers to the event's span if the span is sampled."""
    handle = event.handle
    if not isinstance(handle, SpanContext) or not handle.trace_flags.sampled:
        return OUTSIDE
    return trace.set_span_in_context(NonRecordingSpan(handle), Context())


def _failures(engine: Engine) -> int:
    """Number of failures: of the engine, of torchspan's other code in this process, and of user callbacks in the same registry."""
    return engine.guard.total + UserCallback.total + PROCESS_GUARD.total
