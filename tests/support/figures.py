# SPDX-License-Identifier: Apache-2.0
"""Figures computed from emitted spans, for comparison with what a backend computes."""

import bisect
import itertools
from collections import Counter, defaultdict
from dataclasses import dataclass

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from support.receiver import mapping
from torchspan.words import phase

_WITH_TARGET = [each.name for each in phase.SPANS if each.has_target]


@dataclass(frozen=True)
class Span:
    """An emitted span. has_exception: whether it has an event `exception`."""

    name: str
    trace_id: str
    span_id: str
    start_s: float
    duration_s: float
    attributes: dict
    is_error: bool
    has_exception: bool
    is_torchspan: bool

    @property
    def end_s(self):
        return self.start_s + self.duration_s

    @property
    def phase(self):
        """Its name without a target."""
        return next((each for each in _WITH_TARGET if self.name.startswith(f"{each} ")), self.name)


def spans_of(emitted):
    """Spans that processes emitted. emitted: `known_compiles.Emitted` objects."""
    return [
        Span(
            span.name,
            span.trace_id.hex(),
            span.span_id.hex(),
            span.start_time_unix_nano / 1e9,
            (span.end_time_unix_nano - span.start_time_unix_nano) / 1e9,
            mapping(span.attributes),
            span.status.code == Status.STATUS_CODE_ERROR,
            any(event.name == "exception" for event in span.events),
            of_scope.scope.name == "torchspan",
        )
        for each in emitted
        for message in each.trace_messages()
        for of_resource in message.resource_spans
        for of_scope in of_resource.scope_spans
        for span in of_scope.spans
    ]


def named(spans, *names):
    return [span for span in spans if span.name in names and span.is_torchspan]


def by_trace(spans):
    """The spans of each trace."""
    traces = defaultdict(list)
    for span in spans:
        traces[span.trace_id].append(span)
    return list(traces.values())


def labels(**pairs):
    """Labels as `support.panels` gives them; one that is None is missing."""
    return frozenset((key, str(value)) for key, value in pairs.items() if value is not None)


class Exactly:
    """Labels -> a number. A series that is 0 is the same as none."""

    def __init__(self, numbers, rel=1e-9):
        self._numbers, self._rel = dict(numbers), rel

    def check(self, answer):
        expected = {key: value for key, value in self._numbers.items() if value}
        assert {key: value for key, value in answer.items() if value} == pytest.approx(expected, rel=self._rel)

    def check_added_up(self, answer):
        """The values of windows side by side add up to the number."""
        self.check({key: sum(values) for key, values in answer.items()})


class Levels(Exactly):
    """Numbers that windows side by side do not add up to: ratios, and what rises and falls."""

    def check_added_up(self, answer):
        assert answer.keys() >= {key for key, value in self._numbers.items() if value}


class InBucket:
    """Labels -> a quantile that lies in the same bucket as that of the values.

    share: which quantile, 0 to 1. values: labels -> all values. bounds: the upper bounds of the buckets. others: labels -> counts
    of each bucket, the last one unbounded, of values that are not known one by one.
    """

    def __init__(self, share, values, bounds, others=None):
        self._share, self._values, self._bounds = share, values, list(bounds)
        self._others = others or {}

    def check(self, answer):
        self.check_added_up(answer)
        for key, found in answer.items():
            lower, upper = self._bucket(key)
            assert lower <= found <= upper, (sorted(self._values.get(key, ())), self._others.get(key))

    def check_added_up(self, answer):
        assert answer.keys() == {key for key, values in self._values.items() if values} | self._others.keys()

    def _bucket(self, key):
        counts = list(self._others.get(key, [0] * (len(self._bounds) + 1)))
        for value in self._values.get(key, ()):
            counts[bisect.bisect_left(self._bounds, value)] += 1
        return bucket_of(self._share, counts, self._bounds)


def bucket_of(share, counts, bounds):
    """(lower, upper) of the bucket with the quantile. The last one has none above, where Prometheus answers its lower bound."""
    rank = share * sum(counts)
    index = next(number for number, below in enumerate(itertools.accumulate(counts)) if below >= rank and below)
    lower = 0.0 if index == 0 else bounds[index - 1]
    return lower, bounds[index] if index < len(bounds) else lower


class PowersOfTwo(InBucket):
    """The same for Tempo, whose buckets end at powers of two of a nanosecond."""

    def __init__(self, share, values):
        super().__init__(share, values, [2**exponent / 1e9 for exponent in range(64)])


def counted(spans, key):
    """key of a span -> how many."""
    return Counter(map(key, spans))


def added_up(spans, key, value):
    """key of a span -> the sum of a value of the span, which may be None."""
    sums = defaultdict(float)
    for span in spans:
        sums[key(span)] += value(span) or 0
    return sums


def grouped(spans, key, value=lambda span: span.duration_s):
    """key of a span -> the values."""
    groups = defaultdict(list)
    for span in spans:
        groups[key(span)].append(value(span))
    return groups


def points(emitted, name):
    """Points of a metric in the last export of each process."""
    for each in emitted:
        for of_resource in each.metric_messages()[-1].resource_metrics:
            for of_scope in of_resource.scope_metrics:
                for metric in of_scope.metrics:
                    if metric.name == name:
                        yield from getattr(metric, metric.WhichOneof("data")).data_points


def bucket_counts(emitted, name):
    """How many values each bucket of a histogram has, over all attributes and processes."""
    return [sum(column) for column in zip(*(point.bucket_counts for point in points(emitted, name)), strict=True)]
