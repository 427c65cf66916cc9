# SPDX-License-Identifier: Apache-2.0
"""PromQL over series of Prometheus: torchspan's metrics by their rows, and those of the Collector by their names.

`where` is a dict of labels and values: a string that the label is equal to, or a `Matches`; "" selects series without the label.
`by` names the labels to sum by. A label may be given as a row of `torchspan.words.semconv`.
"""

import re
from dataclasses import dataclass

RANGE = "$__range"
"""The time range of the dashboard: for one figure about all of it."""
INTERVAL = "$__rate_interval"
"""The time between two points, long enough for two readings: for figures over time."""
BEFORE = "1h"
"""How far before a window the value at its beginning is looked for. A series without one there was born in the window."""
SERVICES = 'job=~"(.+/)?$service"'
"""The chosen services. `job` is `service.name`, or `service.namespace/service.name`."""

_UNITS = {"s": "_seconds", "By": "_bytes"}


@dataclass(frozen=True)
class Matches:
    """A regular expression that a label must match."""

    pattern: str


@dataclass(frozen=True)
class Counter:
    """What only rises."""

    name: str
    chosen: str
    """The matcher for what is chosen at the top of the dashboard."""

    def counted(self, window, *, by=(), where=None):
        """How much it rose within the window."""
        return _sum(by, _risen(_selected(self.name, self.chosen, where), window))


@dataclass(frozen=True)
class Level:
    """What rises and falls."""

    name: str
    chosen: str

    def now(self, *, by=(), where=None, function="sum"):
        """The sum, or the `max`, of what it is."""
        return _aggregated(function, by, _selected(self.name, self.chosen, where))


@dataclass(frozen=True)
class Histogram:
    """How often something was measured, and how large it was."""

    name: str
    chosen: str

    def counted(self, window, *, by=(), where=None):
        """How often it was measured within the window."""
        return Counter(f"{self.name}_count", self.chosen).counted(window, by=by, where=where)

    def added_up(self, window, *, by=(), where=None):
        """The sum of what was measured within the window."""
        return Counter(f"{self.name}_sum", self.chosen).counted(window, by=by, where=where)

    def quantile(self, share, window, *, by=(), where=None):
        """A quantile of what was measured within the window. share: 0 to 1, or a variable."""
        buckets = Counter(f"{self.name}_bucket", self.chosen).counted(window, by=("le", *by), where=where)
        return f"histogram_quantile({share}, {buckets})"


def measured(metric):
    """The series of a row of the table of metrics."""
    name = label(metric) + _UNITS.get(metric.unit, "")
    if metric.instrument == "histogram":
        return Histogram(name, SERVICES)
    return Counter(f"{name}_total", SERVICES) if metric.instrument == "counter" else Level(name, SERVICES)


def label(key):
    """The name of the label for an attribute."""
    return re.sub(r"[^a-zA-Z0-9_]", "_", key)


def _risen(selector, window):
    """How much each series rose within a window.

    Other than `increase`, it counts a series that is born with its value whole, and it does not extrapolate. After a restart, at
    which the value fell, it counts what came since.
    """
    at_end = f"last_over_time({selector}[{window}])"
    return f"({at_end} - last_over_time({selector}[{BEFORE}] offset {window})) >= 0 or {at_end}"


def _sum(by, inner):
    return _aggregated("sum", by, inner)


def _aggregated(function, by, inner):
    return f"{function} by ({', '.join(map(label, by))}) ({inner})" if by else f"{function}({inner})"


def _selected(name, chosen, where):
    return f"{name}{{{', '.join((chosen, *(label(key) + _matcher(value) for key, value in (where or {}).items())))}}}"


def _matcher(value):
    return f'=~"{value.pattern}"' if isinstance(value, Matches) else f'="{value}"'
