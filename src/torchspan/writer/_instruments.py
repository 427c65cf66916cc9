# SPDX-License-Identifier: Apache-2.0
"""The instruments of the table of metrics, made once for each meter provider."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable
from typing import Any, Protocol

from opentelemetry.metrics import CallbackOptions, MeterProvider, NoOpMeter, Observation

from torchspan import semconv
from torchspan._version import __version__
from torchspan.semconv import METRICS, Metric
from torchspan.writer._otel_private import merge_into_histogram


class Source(Protocol):
    """Somebody who records."""

    def collected(self) -> int:
        """Called when a reader collects: records what is still held, and says how much long work is going on."""


class Instruments:
    """The instruments of one provider.

    A provider keeps the callback that an observable instrument had first and takes no other for the same name, and it
    cannot be told to forget one. So they are made once a process and provider and ask whoever is attached: after
    `detach` they observe nothing, and switching the bridge on again doubles nothing.
    """

    def __init__(self, provider: MeterProvider) -> None:
        self._provider = provider
        self._meter: Any = provider.get_meter(semconv.SCOPE_NAME, __version__, semconv.SCHEMA_URL)
        self._sources: list[Source] = []
        self._made = {metric: self._make(metric) for metric in METRICS}

    def _make(self, metric: Metric) -> Any:
        described = {"unit": metric.unit, "description": metric.brief}
        if metric.instrument == "histogram":
            return self._meter.create_histogram(
                str(metric), **described, explicit_bucket_boundaries_advisory=metric.bounds
            )
        if metric.instrument == "counter":
            return self._meter.create_counter(str(metric), **described)
        return self._meter.create_observable_up_down_counter(str(metric), [self._observe], **described)

    def serves(self, provider: MeterProvider) -> bool:
        """Whether this is `provider`, or the stand-in that the API had in its place before it was set."""
        return provider is self._provider or provider is getattr(self._provider, "_real_meter_provider", None)

    def is_read(self) -> bool:
        """Whether anything is ever collected from here: not before a provider is set, nor from one without readers."""
        meter = getattr(self._meter, "_real_meter", self._meter)
        if meter is None or isinstance(meter, NoOpMeter):
            return False
        consumer = getattr(meter, "_measurement_consumer", None)  # of the SDK; others may always be read
        return bool(getattr(consumer, "_reader_storages", True))

    def record(self, metric: Metric, value: float, attributes: dict[str, Any]) -> None:
        """One value of a histogram."""
        self._made[metric].record(value, attributes)

    def record_all(self, metric: Metric, values: list[float]) -> bool:
        """Many values of a histogram, without attributes, at once; False where the provider cannot, and none is recorded."""
        meter = getattr(self._meter, "_real_meter", None) or self._meter
        instrument = getattr(self._made[metric], "_real_instrument", None) or self._made[metric]
        return merge_into_histogram(meter, instrument, sorted(values))

    def add(self, metric: Metric, number: int, attributes: dict[str, Any]) -> None:
        """`number` more of a counter."""
        self._made[metric].add(number, attributes)

    def attach(self, source: Source) -> None:
        """Ask `source` when a reader collects."""
        self._sources.append(source)

    def detach(self, source: Source) -> None:
        """Ask it no more."""
        self._sources = [each for each in self._sources if each is not source]

    def _observe(self, _options: CallbackOptions) -> Iterable[Observation]:
        # The SDK asks observable instruments first and collects the others then: what is recorded here is in time.
        return [Observation(sum([each.collected() for each in self._sources]))] if self._sources else []


_MADE: weakref.WeakSet[Instruments] = weakref.WeakSet()
"""Weak: a provider keeps its own through the callback it was given, and takes them along when it goes."""
_LOCK = threading.Lock()


def instruments_of(provider: MeterProvider) -> Instruments:
    """Those of `provider`, made at the first call."""
    with _LOCK:
        found = next((each for each in _MADE if each.serves(provider)), None)
        if found is None:
            found = Instruments(provider)
            _MADE.add(found)
        return found
