# SPDX-License-Identifier: Apache-2.0
"""The instruments of the table of metrics, made once for each meter provider."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation

from torchspan.base.boundaries import ErrorBoundary
from torchspan.base.forks import in_each_child, renewed
from torchspan.base.version import __version__
from torchspan.output.writer._private_sdk import export_measurements, forget_measurements
from torchspan.words import semconv
from torchspan.words.semconv import METRICS, Metric

if TYPE_CHECKING:
    from torchspan.output.writer._metric_writer import MetricWriter
    from torchspan.words.phase import Phase

VALUES_LIMIT = 50
"""Maximum number of values of a metric attribute whose values the program can choose: mainly classes of exceptions."""

OUTSIDE = trace.set_span_in_context(trace.INVALID_SPAN, Context())
"""A context in which no span is current. The SDK takes an empty one for the current one."""

_METHODS = {"histogram": "record", "counter": "add"}


class Instruments:
    """The instruments of one provider.

    A provider keeps the first callback of an observable instrument, accepts no other callback for the same name, and cannot
    remove one. So the instruments are made once per process and provider, and read the attached writers. After `detach` they
    observe nothing, and instrumenting a second time does not count anything twice.
    """

    def __init__(self, provider: MeterProvider) -> None:
        self.provider = provider
        self._meter: Any = provider.get_meter(semconv.SCOPE_NAME, __version__, semconv.SCHEMA_URL)
        self._writers: dict[MetricWriter, None] = {}
        """A set in the order of attachment. Threads that attach one writer at once leave it here once."""
        self._values: dict[tuple[Metric, str], tuple[set[str], Iterator[int]]] = {}
        """The values of an attribute, and the room that is left for others."""
        self._instruments = {metric: self._make(metric) for metric in METRICS}
        in_each_child(self.start_process)

    def _make(self, metric: Metric) -> Any:
        described = {"unit": metric.unit, "description": metric.brief}
        if metric.instrument == "histogram":
            return self._meter.create_histogram(
                str(metric), **described, explicit_bucket_boundaries_advisory=metric.bounds
            )
        if metric.instrument == "counter":
            return self._meter.create_counter(str(metric), **described)
        if metric.instrument == "observable_gauge":
            observe = _guarded(partial(self._observe_longest, metric.measure.of))
            return self._meter.create_observable_gauge(str(metric), [observe], **described)
        observe = _guarded(partial(self._observe_running, metric.measure.of))
        return self._meter.create_observable_up_down_counter(str(metric), [observe], **described)

    def write(self, metric: Metric, number: float, facts: Mapping[str, Any], context: Context = OUTSIDE) -> None:
        """Record a value of a histogram, or add `number` to a counter, with the metric's attributes from `facts`.

        Args:
            context: Contains the span that an exemplar of a histogram refers to, if the span is sampled. For other
                instruments the SDK would choose exemplars with Python's global random generator, which belongs to
                the program.
        """
        write = self.writes(metric, facts, context)
        write(number)

    def writes(self, metric: Metric, facts: Mapping[str, Any], context: Context = OUTSIDE) -> Callable[[float], None]:
        """A function that does what `write` does, for many numbers with the same attributes."""
        attributes = self._bounded(
            metric, semconv.emitted({key: facts[key] for key in metric.attributes if key in facts})
        )
        method = getattr(self._instruments[metric], _METHODS[metric.instrument])
        return partial(method, attributes=attributes, context=context if metric.instrument == "histogram" else OUTSIDE)

    def _bounded(self, metric: Metric, attributes: dict[str, Any]) -> dict[str, Any]:
        """The attributes. If the program can choose an attribute's values, the first `VALUES_LIMIT` are kept; others are `other`.

        A backend keeps a series for each value.
        """
        for key in metric.open_attributes:
            if key in attributes and not self._is_kept(metric, key, attributes[key]):
                attributes[key] = semconv.OTHER_VALUE
        return attributes

    def _is_kept(self, metric: Metric, key: str, value: str) -> bool:
        values, room = self._values.setdefault((metric, key), (set(), iter(range(VALUES_LIMIT))))
        if value not in values and next(room, None) is not None:  # one step: threads do not exceed the limit together
            values.add(value)
        return value in values

    def export(self) -> None:
        """Export torchspan's measurements now, without those of the program."""
        for writer in list(self._writers):
            writer.collect()
        export_measurements(self.provider, semconv.SCOPE_NAME)

    def start_process(self) -> None:
        """Called in a forked child: start from zero."""
        forget_measurements(self.provider, semconv.SCOPE_NAME)
        for writer in list(self._writers):
            writer.start_process()

    def attach(self, writer: MetricWriter) -> None:
        """Read `writer` when a reader collects."""
        self._writers[writer] = None

    def detach(self, writer: MetricWriter) -> None:
        """Stop reading `writer`."""
        self._writers.pop(writer, None)

    def _observe_running(self, phases: tuple[Phase, ...], _options: CallbackOptions) -> Iterable[Observation]:
        # The SDK calls observable instruments first and collects the others afterwards, so this is early enough.
        for writer in list(self._writers):
            writer.collect()
        running = self._running(phases)
        return [] if running is None else [Observation(len(running))]

    def _observe_longest(self, phases: tuple[Phase, ...], _options: CallbackOptions) -> Iterable[Observation]:
        running = self._running(phases)
        return [] if running is None else [Observation(max(running, default=0.0))]

    def _running(self, phases: tuple[Phase, ...]) -> list[float] | None:
        """The seconds for which each piece of work has been running; None if no writer has seen such work."""
        by_writer = [running for writer in list(self._writers) if (running := writer.running(phases)) is not None]
        return [elapsed_s for running in by_writer for elapsed_s in running] if by_writer else None


_READING = ErrorBoundary("Reading what is running failed; the metrics of it are missing.")


def _guarded(observe: Callable[[CallbackOptions], Iterable[Observation]]) -> Callable[..., Iterable[Observation]]:
    """`observe`, which raises nothing: the SDK would print its traceback."""
    return lambda options: _READING.attempt(observe, options) or ()


_ALL: weakref.WeakSet[Instruments] = weakref.WeakSet()
"""Weak references: a provider keeps its instruments alive through their callback, and they are freed with it."""


_LOCK = renewed(threading.RLock())


def instruments_of(provider: MeterProvider) -> Instruments:
    """The instruments of `provider`, made at the first call."""
    with _LOCK:
        instruments = next((instruments for instruments in _ALL if instruments.provider is provider), None)
        if instruments is None:
            instruments = Instruments(provider)
            _ALL.add(instruments)
        return instruments
