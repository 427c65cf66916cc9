# SPDX-License-Identifier: Apache-2.0
"""Metrics as a test reads them."""

from dataclasses import dataclass

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from support.emitted import EMITTED
from torchspan.words import semconv


@dataclass
class Point:
    """One row of a metric: what a histogram or a counter says for one set of attributes."""

    attributes: dict
    value: float | None = None
    count: int | None = None
    sum: float | None = None


class Metrics:
    """A real meter provider, read when a test asks."""

    def __init__(self, provider=None, reader=None):
        self.reader = reader or InMemoryMetricReader()
        self.provider = provider or MeterProvider([self.reader], shutdown_on_exit=False)

    def read(self):
        """name -> its points, of torchspan's scope."""
        data = self.reader.get_metrics_data()
        found = {}
        for resource in data.resource_metrics if data else []:
            for scope in resource.scope_metrics:
                if scope.scope.name != semconv.SCOPE_NAME:
                    continue
                for metric in scope.metrics:
                    EMITTED.add_metric(metric)
                    found[metric.name] = [
                        Point(
                            dict(point.attributes),
                            getattr(point, "value", None),
                            getattr(point, "count", None),
                            getattr(point, "sum", None),
                        )
                        for point in metric.data.data_points
                    ]
        return found

    def values(self, name, *keys):
        """Of a counter: the values of those attributes -> the number. One key alone stands for itself."""
        return self._added_up(name, keys, "value")

    def counts(self, name, *keys):
        """Of a histogram: the values of those attributes -> how many."""
        return self._added_up(name, keys, "count")

    def sums(self, name, *keys):
        """Of a histogram: the values of those attributes -> the sum."""
        return self._added_up(name, keys, "sum")

    def _added_up(self, name, keys, what):
        """Points that differ in other attributes are one."""
        rows = {}
        for point in self.read().get(name, []):
            key = tuple(point.attributes.get(each) for each in keys)
            key = key[0] if len(key) == 1 else key
            rows[key] = rows.get(key, 0) + getattr(point, what)
        return rows
