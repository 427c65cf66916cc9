# SPDX-License-Identifier: Apache-2.0
"""Every use that the writer makes of private names of OpenTelemetry's SDK: its span processors, and the metrics of a forked child.

No public name does the same. Where a private one is missing (another SDK, or another version), nothing happens, and a feature is
missing: the docstrings say which.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator
from typing import Any


def span_processors(provider: Any) -> list[tuple[Any, Any]] | None:
    """The span processors of a provider of the SDK, each with its exporter or None. Returns None for another provider.

    Without it, torchspan's own file is not flushed when a compilation ends, and spans are started although no processor
    receives them. The SDK's `force_flush` also flushes exporters that may wait for a collector.
    """
    processors = getattr(getattr(provider, "_active_span_processor", None), "_span_processors", None)
    if not isinstance(processors, (tuple, list)):
        return None
    batches = ((processor, getattr(processor, "_batch_processor", processor)) for processor in processors)
    return [
        (processor, getattr(batch, "_exporter", None) or getattr(batch, "span_exporter", None))
        for processor, batch in batches
    ]


def forget_measurements(provider: Any, scope: str) -> None:
    """In a forked child: what the instruments of `scope` have measured so far is the parent's.

    A fork copies the sums of the SDK, which would be exported a second time, as the child's. Each series begins at zero
    with its next measurement, and has the start time of that. Instruments of other scopes are left alone. Locks of the
    SDK are renewed: a thread that the child does not have may have held one at the fork, while it exported, and the child would
    wait for it at every collection. Without it, a child's metrics contain its parent's.
    """
    _renew(getattr(provider, "_measurement_consumer", None), "_lock", threading.Lock)
    for reader, storage in _storages(provider):
        _renew(reader, "_export_lock", threading.Lock)
        _renew(storage, "_lock", threading.RLock)
        for matches in _matches_by_instrument(storage, scope).values():
            for match in matches:
                match._lock = threading.Lock()
                match._attributes_aggregation = {}


def export_measurements(provider: Any, scope: str) -> None:
    """Export what the instruments of `scope` have measured, through each reader of the SDK that exports by itself.

    Other instruments are the program's: what they hold in a forked child may be the parent's, which the SDK's `force_flush`
    would export. Observable instruments are not called. Without it, a child that ends without running exit handlers loses the
    metrics of its last interval.
    """
    for reader, storage in _storages(provider):
        receive = getattr(reader, "_receive_metrics", None)
        if receive is None or not hasattr(reader, "_exporter") or getattr(reader, "_shutdown", False):
            continue
        of_scope = copy.copy(storage)
        of_scope._lock = threading.RLock()  # of its own: the storage's may be held by a thread that a fork left behind
        of_scope._instrument_view_instrument_matches = _matches_by_instrument(storage, scope)
        metrics = of_scope.collect()
        if metrics is not None:
            receive(metrics)


def _renew(holder: Any, name: str, make: Callable[[], Any]) -> None:
    if hasattr(holder, name):
        setattr(holder, name, make())


def _storages(provider: Any) -> Iterator[tuple[Any, Any]]:
    """The readers of a provider of the SDK, each with what it stores."""
    consumer = getattr(provider, "_measurement_consumer", None)
    yield from list(getattr(consumer, "_reader_storages", {}).items())


def _matches_by_instrument(storage: Any, scope: str) -> dict[Any, list[Any]]:
    """What a reader stores for each instrument of `scope`, which has one match for each view."""
    instruments = list(getattr(storage, "_instrument_view_instrument_matches", {}).items())
    return {
        instrument: matches
        for instrument, matches in instruments
        if getattr(instrument.instrumentation_scope, "name", None) == scope
    }
