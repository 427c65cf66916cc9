# SPDX-License-Identifier: Apache-2.0
"""The instruments of the table of metrics, made once for each meter provider."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from opentelemetry.context import Context
from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation

from torchspan import semconv
from torchspan._base.boundaries import ErrorBoundary
from torchspan._base.forks import renewed
from torchspan._version import __version__
from torchspan.semconv import METRICS, Metric
from torchspan.writer._exemplars import OWN_RANDOM_NUMBERS
from torchspan.writer._otel_private import (
    OUTSIDE,
    behind_proxy,
    export_scope,
    is_read,
    merge_into_histogram,
    start_process,
)

VALUES_LIMIT = 50
"""Maximum number of values of a metric attribute whose values the program can choose: mainly classes of exceptions."""


class Source(Protocol):
    """An object that records measurements."""

    def collect(self) -> None:
        """Called when a reader collects: record the values that are still held."""

    def running(self) -> list[float]:
        """The seconds for which each piece of long work has been running."""

    def start_process(self) -> None:
        """Called in a forked child: the counts so far belong to the parent."""


class Instruments:
    """The instruments of one provider.

    A provider keeps the first callback of an observable instrument, accepts no other callback for the same name, and cannot
    remove one. So the instruments are made once per process and provider, and read the attached sources. After `detach` they
    observe nothing, and instrumenting a second time does not count anything twice.
    """

    def __init__(self, provider: MeterProvider) -> None:
        self._provider = provider
        self._meter: Any = provider.get_meter(semconv.SCOPE_NAME, __version__, semconv.SCHEMA_URL)
        self._sources: dict[Source, None] = {}
        """A set in the order of attachment. Threads that attach one source at once leave it here once."""
        self._values: dict[tuple[Metric, str], set[str]] = {}
        self._lock = renewed(self, "_lock", threading.Lock)
        self._made = {metric: self._make(metric) for metric in METRICS}

    def _make(self, metric: Metric) -> Any:
        described = {"unit": metric.unit, "description": metric.brief}
        if metric.instrument == "histogram":
            return self._meter.create_histogram(
                str(metric), **described, explicit_bucket_boundaries_advisory=metric.bounds
            )
        if metric.instrument == "counter":
            return self._meter.create_counter(str(metric), **described)
        if metric.instrument == "gauge":
            return self._meter.create_gauge(str(metric), **described)
        if metric.instrument == "observable_gauge":
            return self._meter.create_observable_gauge(str(metric), [self._observe_longest], **described)
        return self._meter.create_observable_up_down_counter(str(metric), [self._observe_running], **described)

    def serves(self, provider: MeterProvider) -> bool:
        """Whether the instruments are those of `provider`, or of the API's proxy from before `provider` was set."""
        return provider is self._provider or provider is behind_proxy(self._provider)

    def is_read(self) -> bool:
        """Whether anything is ever collected: not before a provider is set, nor from a provider without readers."""
        return is_read(self._meter)

    def write(self, metric: Metric, number: float, facts: Mapping[str, Any], context: Context = OUTSIDE) -> None:
        """Record a value of a histogram or a gauge, or add `number` to a counter, with the metric's attributes from `facts`.

        context: contains the span that an exemplar refers to, if the span is sampled.
        """
        made = self._made[metric]
        attributes = self._bounded(
            metric, semconv.emitted({key: facts[key] for key in metric.attributes if key in facts})
        )
        record = {"histogram": "record", "gauge": "set"}.get(metric.instrument, "add")
        with OWN_RANDOM_NUMBERS:
            getattr(made, record)(number, attributes, context)

    def _bounded(self, metric: Metric, attributes: dict[str, Any]) -> dict[str, Any]:
        """The attributes. If the program can choose an attribute's values, the first `VALUES_LIMIT` are kept; others are `other`.

        A backend keeps a series for each value.
        """
        for key in metric.open_attributes:
            if key in attributes and not self._is_kept(metric, key, attributes[key]):
                attributes[key] = semconv.OTHER_VALUE
        return attributes

    def _is_kept(self, metric: Metric, key: str, value: str) -> bool:
        values = self._values.setdefault((metric, key), set())
        if value in values:
            return True
        with self._lock:  # several threads together must not exceed the limit
            if len(values) < VALUES_LIMIT:
                values.add(value)
            return value in values

    def record_all(self, metric: Metric, values: list[float]) -> bool:
        """Record many values of a histogram at once, without attributes. Returns False, and records none, if the provider cannot."""
        return merge_into_histogram(self._meter, self._made[metric], values)

    def export(self) -> None:
        """Export torchspan's measurements now, without those of the program."""
        for each in list(self._sources):
            each.collect()
        export_scope(self._provider, semconv.SCOPE_NAME)

    def start_process(self) -> None:
        """Called in a forked child: start from zero."""
        start_process(self._provider, semconv.SCOPE_NAME)
        for each in list(self._sources):
            each.start_process()

    def attach(self, source: Source) -> None:
        """Read `source` when a reader collects."""
        self._sources[source] = None

    def detach(self, source: Source) -> None:
        """Stop reading `source`."""
        self._sources.pop(source, None)
        if not self._sources:
            OWN_RANDOM_NUMBERS.give_back()

    def _observe_running(self, _options: CallbackOptions) -> Iterable[Observation]:
        # The SDK calls observable instruments first and collects the others afterwards, so this is early enough.
        for each in list(self._sources):
            each.collect()
        return [Observation(len(self._running()))] if self._sources else []

    def _observe_longest(self, _options: CallbackOptions) -> Iterable[Observation]:
        return [Observation(max(self._running(), default=0.0))] if self._sources else []

    def _running(self) -> list[float]:
        return [elapsed_s for each in list(self._sources) for elapsed_s in each.running()]


_MADE: weakref.WeakSet[Instruments] = weakref.WeakSet()
"""Weak references: a provider keeps its instruments alive through their callback, and they are freed with it."""


class _Locks:
    """One lock per process. A forked child gets a new one, because the thread that held it may not exist there."""

    one = threading.Lock()


def instruments_of(provider: MeterProvider) -> Instruments:
    """The instruments of `provider`, made at the first call."""
    with _Locks.one:
        found = next((each for each in _MADE if each.serves(provider)), None)
        if found is None:
            found = Instruments(provider)
            _MADE.add(found)
        return found


_FORKED = ErrorBoundary(
    "Resetting the metrics of a forked process failed; they count again what its parent had measured."
)


def _start_process() -> None:
    _Locks.one = threading.Lock()
    for each in list(_MADE):
        _FORKED.attempt(each.start_process)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_process)
