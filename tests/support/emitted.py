# SPDX-License-Identifier: Apache-2.0
"""Everything that the tests made torchspan emit, for the comparison with the attribute table."""

import pytest
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from torchspan import semconv

COLLECTED = pytest.StashKey[int]()
"""How many tests were collected: whether the whole suite runs."""

_TYPES = {bool: "boolean", int: "int", float: "double", str: "string"}


def type_of(value):
    """The attribute table's name of a value's type."""
    if isinstance(value, (list, tuple)):
        kinds = {_TYPES[type(each)] for each in value}
        return f"{kinds.pop()}[]" if len(kinds) == 1 else "empty" if not kinds else f"mixed {kinds}"
    return _TYPES[type(value)]


class Emitted(SpanExporter):
    """Keeps (span name, event name or None, key, type) of every attribute on spans of torchspan's scope."""

    def __init__(self):
        self.rows = set()
        self.names = set()
        self.user_keys = set()
        self.metrics = set()

    def add_metric(self, metric):
        """Keep (name, instrument, unit, keys and types of the attributes) of each point of an exported metric."""
        kind = type(metric.data).__name__
        for point in metric.data.data_points:
            attributes = frozenset((key, type_of(value)) for key, value in point.attributes.items())
            bounds = tuple(getattr(point, "explicit_bounds", ()))
            self.metrics.add(
                (metric.name, kind, getattr(metric.data, "is_monotonic", None), metric.unit, bounds, attributes)
            )

    def export(self, spans):
        for span in spans:
            if span.instrumentation_scope.name != semconv.SCOPE_NAME:
                self.user_keys |= {(key, type_of(value)) for key, value in span.attributes.items()}
                continue
            self.names.add(span.name)
            self.rows |= {(span.name, None, key, type_of(value)) for key, value in span.attributes.items()}
            for event in span.events:
                self.rows |= {(span.name, event.name, key, type_of(value)) for key, value in event.attributes.items()}
        return SpanExportResult.SUCCESS


EMITTED = Emitted()
