# SPDX-License-Identifier: Apache-2.0
"""PromQL over torchspan's metrics, by the names that they have in Prometheus.

`where` is a dict of attributes and values: a string the label must be equal to, or a `Matches`; "" matches series without the
label. `by` names the attributes to sum by.
"""

import re
from dataclasses import dataclass

RANGE = "$__range"
"""The time range of the dashboard: for one figure about all of it."""
INTERVAL = "$__rate_interval"
"""The time between two points, long enough for a rate: for figures over time."""
SERVICE = 'job=~"(.+/)?$service"'
"""The chosen services. `job` is `service.name`, or `service.namespace/service.name`."""

_SUFFIXES = {"s": "_seconds", "By": "_bytes"}


@dataclass(frozen=True)
class Matches:
    """A regular expression that a label must match."""

    pattern: str


def label(attribute):
    """The name of the label for an attribute."""
    return re.sub(r"[^a-zA-Z0-9_]", "_", attribute)


def series(metric, part=""):
    """The name of a metric's series. part: of a histogram, `bucket`, `sum` or `count`.

    Raises ValueError where a histogram has no part, or another metric has one.
    """
    if (metric.instrument == "histogram") != bool(part):
        raise ValueError(f"{metric} is a {metric.instrument}: name a part of histograms, and of nothing else")
    ending = "_total" if metric.instrument == "counter" else f"_{part}" if part else ""
    return label(metric) + _SUFFIXES.get(metric.unit, "") + ending


def now(metric, *, where=None):
    """The sum of a level, as it is."""
    return f"sum({_selected(series(metric), where)})"


def counted(metric, window, *, by=(), where=None, part=""):
    """How much a counter, or a part of a histogram, rose within a window."""
    return _sum(by, _risen(_selected(series(metric, part), where), window))


def quantile(share, metric, window, *, by=(), where=None):
    """A quantile of what a histogram took up within a window. share: 0 to 1, or a variable."""
    buckets = _sum(("le", *by), _risen(_selected(series(metric, "bucket"), where), window))
    return f"histogram_quantile({share}, {buckets})"


def _risen(selector, window):
    return f"increase({selector}[{window}])"


def _sum(by, inner):
    return f"sum by ({', '.join(map(label, by))}) ({inner})" if by else f"sum({inner})"


def _selected(name, where):
    matchers = [SERVICE]
    for attribute, value in (where or {}).items():
        text = f'=~"{value.pattern}"' if isinstance(value, Matches) else f'="{value}"'
        matchers.append(label(attribute) + text)
    return f"{name}{{{', '.join(matchers)}}}"
