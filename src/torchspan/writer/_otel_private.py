# SPDX-License-Identifier: Apache-2.0
"""Every use that the writer makes of OpenTelemetry's private names."""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import sys
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterator
from math import inf
from types import FunctionType
from typing import Any, NamedTuple

from opentelemetry import context as context_api
from opentelemetry import trace
from opentelemetry.attributes import BoundedAttributes
from opentelemetry.metrics import NoOpMeter
from opentelemetry.trace.propagation import _SPAN_KEY

SPAN_KEY = _SPAN_KEY
"""The context key of the current span. The public getter costs more than the budget of a hot path."""

OUTSIDE = trace.set_span_in_context(trace.INVALID_SPAN, context_api.Context())
"""A context in which no span is current. The SDK takes an empty one for the current one."""

_SUPPRESS_KEY = getattr(context_api, "_SUPPRESS_INSTRUMENTATION_KEY", "suppress_instrumentation")
SUPPRESS_KEYS: tuple[str, ...] = tuple({_SUPPRESS_KEY, "suppress_instrumentation"})
"""The context keys that `opentelemetry.instrumentation.utils.suppress_instrumentation` sets."""


def is_suppressed() -> bool:
    """Whether nothing may be emitted here (`opentelemetry.instrumentation.utils.suppress_instrumentation`)."""
    return any(context_api.get_value(key) for key in SUPPRESS_KEYS)


def add_emitted_event(span: Any, name: str, attributes: dict[str, Any]) -> None:
    """Add an event to `span`, as its `add_event` does, with attributes that `semconv.emitted` has returned.

    `attributes` belongs to the event from now on. The SDK's `add_event` checks and copies each value
    (opentelemetry/attributes/__init__.py), which takes longer than everything else that torchspan does at a sampled call.
    Values from torchspan's gate have been checked and cannot be changed, so they become the SDK's event as they are. The
    method itself is called for a span of another class, and where the span's limits would change an attribute.
    """
    kind: Any = type(span)
    make_event = _event_maker(kind, kind.add_event)
    if make_event is not None:
        limits = span._limits
        most = limits.max_event_attributes
        if limits.max_attribute_length is None and (most is None or most >= len(attributes)):
            bounded = BoundedAttributes(most, immutable=True)
            bounded._dict = attributes
            span._add_event(make_event(name, bounded))
            return
    span.add_event(name, attributes)


@functools.lru_cache(maxsize=8)
def _event_maker(kind: Any, add_event: Any) -> Callable[..., Any] | None:
    """The SDK's class of events, where spans of the class `kind` add events as the SDK's own code does; else None.

    add_event: the method of the class. A program or a tool may replace it at any time, and then receives every event.
    """
    sdk = sys.modules.get("opentelemetry.sdk.trace")
    span_class, event_class = getattr(sdk, "Span", None), getattr(sdk, "Event", None)
    if event_class is None or getattr(kind, "_add_event", None) is not getattr(span_class, "_add_event", kind):
        return None
    if type(add_event) is not FunctionType or add_event.__code__.co_filename != getattr(sdk, "__file__", None):
        return None
    example = BoundedAttributes(None, {"key": (1,)}, immutable=True)
    is_known = vars(example).get("_dict") == {"key": (1,)}
    return event_class if is_known else None


def is_provider_set() -> bool:
    """Whether there is a global tracer provider. The public getter would load the one that a variable names."""
    return getattr(trace, "_TRACER_PROVIDER", None) is not None


def has_processors(provider: Any) -> bool:
    """Whether spans of `provider` go anywhere: not from one of the SDK without processors, as OTEL_TRACES_EXPORTER=none makes.

    Providers of other SDKs are taken to have some.
    """
    return bool(getattr(getattr(provider, "_active_span_processor", None), "_span_processors", True))


def processors(tracer: Any) -> tuple[Any, ...]:
    """The span processors of a tracer of the SDK: the same object until one is added. Empty for another tracer."""
    found: tuple[Any, ...] = getattr(getattr(tracer, "span_processor", None), "_span_processors", ())
    return found


class Exporting(NamedTuple):
    """A processor of the SDK that exports.

    exporter: what it exports to. queue: what waits in it, newest first; None where it does not wait. drops: has a method
    `drop_items`, which is called before a span is dropped; None where there is none.
    """

    exporter: Any
    queue: Any = None
    drops: Any = None

    def oldest(self) -> Any:
        """What is dropped next from a queue that is full; None where it has been exported meanwhile."""
        try:
            return self.queue[-1]
        except IndexError:
            return None


def exporting(processors: tuple[Any, ...]) -> Iterator[Exporting]:
    """Those of the SDK's batch and simple processors, and of `torchspan run`'s, which hold one each."""
    for each in processors:
        processor = getattr(each, "_batches", each)
        batch = getattr(processor, "_batch_processor", None)
        if batch is not None:
            metrics = getattr(batch, "_metrics", None)
            has_drops = callable(getattr(metrics, "drop_items", None))  # since 1.41
            yield Exporting(batch._exporter, batch._queue, metrics if has_drops else None)
        elif hasattr(processor, "span_exporter"):
            yield Exporting(processor.span_exporter)


class LogsApi(NamedTuple):
    """What the writer needs of the API for log records, which has no public name yet.

    error: the severity ERROR. get: returns the global logger provider, or what stands for none.
    """

    error: Any
    get: Callable[[], Any]

    def global_provider(self) -> Any:
        """The global logger provider; None while none is set, or one that takes nothing."""
        provider = self.get()
        return None if type(provider).__name__ in {"ProxyLoggerProvider", "NoOpLoggerProvider"} else provider


def logs_api() -> LogsApi | None:
    """The API for log records; None where it cannot be used: its `emit` takes what a record holds since 1.38."""
    try:
        from opentelemetry._logs import Logger, SeverityNumber, get_logger_provider
    except ImportError:  # not there, or elsewhere
        return None
    if "event_name" not in inspect.signature(Logger.emit).parameters:
        return None
    return LogsApi(SeverityNumber.ERROR, get_logger_provider)


def has_log_processors(logger: Any) -> bool:
    """Whether log records of `logger` go anywhere: not from a provider of the SDK without processors.

    Loggers of other SDKs are taken to have some. From 1.45 on a logger answers this itself (`enabled`).
    """
    processor = getattr(logger, "_multi_log_record_processor", None)
    return bool(getattr(processor, "_log_record_processors", True))


def context_reader() -> Callable[[], Any]:
    """The cheapest way to the current context: the context variable itself where the API has one."""
    variable = getattr(getattr(context_api, "_RUNTIME_CONTEXT", None), "_current_context", None)
    return getattr(variable, "get", None) or context_api.get_current


def flush_files(provider: Any) -> None:
    """Have each processor of the SDK that exports to a `torchspan.sdk.FileSpanExporter` write what it holds.

    Processors of other exporters are left alone: they may wait for a collector. Where the provider is not the SDK's, or
    of another version, nothing happens.
    """
    for processor, _ in _to_files(provider):
        with contextlib.suppress(Exception):
            processor.force_flush()


def has_files(provider: Any) -> bool:
    """Whether `flush_files` has anything to do."""
    return bool(_to_files(provider))


def file_exporters(provider: Any) -> list[Any]:
    """The `torchspan.sdk.FileSpanExporter`s of the provider; empty where it is not the SDK's, or of another version."""
    return [exporter for _, exporter in _to_files(provider)]


def span_limits(provider: Any) -> Any:
    """The limits of the provider's spans; None if it does not name any."""
    return getattr(provider, "_span_limits", None)


def _to_files(provider: Any) -> list[tuple[Any, Any]]:
    processors = getattr(getattr(provider, "_active_span_processor", None), "_span_processors", None)
    if not isinstance(processors, (tuple, list)):
        return []
    found = ((each, _exporter_of(each)) for each in processors)
    return [(each, exporter) for each, exporter in found if getattr(exporter, "is_torchspan_file", False) is True]


def _exporter_of(processor: Any) -> Any:
    batches = getattr(processor, "_batch_processor", None)
    return getattr(processor, "span_exporter", None) if batches is None else getattr(batches, "_exporter", None)


def behind_proxy(provider: Any) -> Any:
    """The meter provider that has taken the place of the API's proxy; None while there is none, or for another provider."""
    return getattr(provider, "_real_meter_provider", None)


def is_read(meter: Any) -> bool:
    """Whether anything is ever collected from `meter`: not through the API's proxy, nor from a provider without readers.

    Meters of other SDKs are taken to be read.
    """
    meter = getattr(meter, "_real_meter", meter)
    if meter is None or isinstance(meter, NoOpMeter):
        return False
    consumer = getattr(meter, "_measurement_consumer", None)
    return bool(getattr(consumer, "_reader_storages", True))


def start_process(provider: Any, scope: str) -> None:
    """In a forked child: what the instruments of `scope` have measured so far is the parent's.

    A fork copies the sums of the SDK, which would be exported a second time, as the child's. Each series begins at zero
    with its next measurement, and has the start time of that. Instruments of other scopes are left alone. Locks of the
    SDK that a thread held at the fork, while it exported, are renewed: the child does not have that thread, and would
    wait for it at every collection. Where the provider is not the SDK's, or of another version, nothing happens.
    """
    consumer = getattr(_behind(provider), "_measurement_consumer", None)
    _free(consumer, "_lock", threading.Lock)
    for reader, storage in _storages(provider):
        _free(reader, "_export_lock", threading.Lock)
        _free(storage, "_lock", threading.RLock)
        for match in _matches(storage, scope):
            match._lock = threading.Lock()
            match._attributes_aggregation = {}


def export_scope(provider: Any, scope: str) -> None:
    """Export what the instruments of `scope` have measured, through each reader of the SDK that exports by itself.

    Other instruments are the program's: what they hold in a forked child may be the parent's. Observable instruments are
    not asked. Where the provider is not the SDK's, or of another version, nothing happens.
    """
    for reader, storage in _storages(provider):
        receive = getattr(reader, "_receive_metrics", None)
        if receive is None or not hasattr(reader, "_exporter") or getattr(reader, "_shutdown", False):
            continue
        of_scope = copy.copy(storage)
        of_scope._lock = threading.RLock()  # of its own: the storage's may be held by a thread that a fork left behind
        of_scope._instrument_view_instrument_matches = {
            matches[0]._instrument: matches for matches in _matches_by_instrument(storage, scope)
        }
        data = of_scope.collect()
        if data is not None:
            receive(data)


def _free(holder: Any, name: str, make: Callable[[], Any]) -> None:
    lock = getattr(holder, name, None)
    if lock is None:
        return
    if lock.acquire(blocking=False):
        lock.release()
    else:
        setattr(holder, name, make())


def _behind(provider: Any) -> Any:
    return behind_proxy(provider) or provider


def _storages(provider: Any) -> list[tuple[Any, Any]]:
    """The readers of a provider of the SDK, each with what it stores."""
    consumer = getattr(_behind(provider), "_measurement_consumer", None)
    return list(getattr(consumer, "_reader_storages", {}).items())


def _matches_by_instrument(storage: Any, scope: str) -> Iterator[list[Any]]:
    for instrument, matches in list(getattr(storage, "_instrument_view_instrument_matches", {}).items()):
        if matches and getattr(instrument.instrumentation_scope, "name", None) == scope:
            yield matches


def _matches(storage: Any, scope: str) -> Iterator[Any]:
    for matches in _matches_by_instrument(storage, scope):
        yield from matches


def merge_into_histogram(meter: Any, instrument: Any, values: list[float]) -> bool:
    """Add all `values`, of which there is one at least, to a histogram of the SDK at once, without attributes.

    The API takes one value at a time, at some microseconds each. Returns False where that cannot be done, with nothing added:
    another SDK, or a view with an aggregation other than explicit buckets. The result is what `record` gives for each value
    (opentelemetry/sdk/metrics/_internal/aggregation.py), exemplars apart.
    """
    meter = getattr(meter, "_real_meter", None) or meter  # they may have been made through the API's proxy
    instrument = getattr(instrument, "_real_instrument", None) or instrument
    try:
        storages = meter._measurement_consumer._reader_storages.values()
        matches = [each for storage in storages for each in storage._get_or_init_view_instrument_match(instrument)]
        if any(not _is_explicit(each._aggregation) for each in matches) or not matches:
            return False
    except Exception:  # another version of the SDK, or no SDK
        return False
    aggregations = _without_attributes(matches)
    if len(aggregations) < len(matches):
        instrument.record(values[0], {}, OUTSIDE)  # makes them
        values = values[1:]
        aggregations = _without_attributes(matches)
    for aggregation in aggregations if values else ():
        _add(aggregation, values)
    return True


def _without_attributes(matches: list[Any]) -> list[Any]:
    return [
        aggregation
        for match in matches
        for aggregation in list(match._attributes_aggregation.values())
        if not aggregation._attributes
    ]


_EXPLICIT_NAMES = (
    "_boundaries",
    "_get_empty_bucket_counts",
    "_lock",
    "_max",
    "_min",
    "_record_min_max",
    "_sum",
    "_value",
)


def _is_explicit(aggregation: Any) -> bool:
    is_class = type(aggregation).__name__ == "_ExplicitBucketHistogramAggregation"
    return is_class and all(hasattr(aggregation, name) for name in _EXPLICIT_NAMES)


def _add(aggregation: Any, values: list[float]) -> None:
    """Add to one aggregation. Most values are in one bucket and set no extreme, and one comparison for each finds these."""
    bounds = aggregation._boundaries
    with aggregation._lock:
        if aggregation._value is None:
            aggregation._value = aggregation._get_empty_bucket_counts()
            if aggregation._record_min_max:
                aggregation._min, aggregation._max = min(values), max(values)
        bucket = bisect_left(bounds, values[0])
        above = bounds[bucket - 1] if bucket else -inf
        up_to = bounds[bucket] if bucket < len(bounds) else inf
        if aggregation._record_min_max:
            above, up_to = max(above, aggregation._min), min(up_to, aggregation._max)
        others = [each for each in values if not above < each <= up_to]
        aggregation._value[bucket] += len(values) - len(others)
        for each in others:
            aggregation._value[bisect_left(bounds, each)] += 1
        aggregation._sum += sum(values)
        if others and aggregation._record_min_max:
            aggregation._min = min(aggregation._min, *others)
            aggregation._max = max(aggregation._max, *others)
