# SPDX-License-Identifier: Apache-2.0
"""Adding up many durations at once, held against the SDK recording them one by one."""

import random

import pytest
from opentelemetry.sdk.metrics import Histogram, MeterProvider
from opentelemetry.sdk.metrics.export import AggregationTemporality, InMemoryMetricReader
from opentelemetry.sdk.metrics.view import (
    DropAggregation,
    ExplicitBucketHistogramAggregation,
    ExponentialBucketHistogramAggregation,
    View,
)

from torchspan.writer._otel_private import merge_into_histogram

BOUNDS = (0.001, 0.01, 0.1)
VALUES = sorted([0.001, 0.01, 0.1, 0.0, 5.0, *(random.Random(7).expovariate(20) for _ in range(1000))])
SHUFFLED = random.Random(8).sample(VALUES, len(VALUES))


class Meters:
    """A provider with a histogram and its readers."""

    def __init__(self, *views, temporality=AggregationTemporality.CUMULATIVE, readers=1):
        self.readers = [InMemoryMetricReader({Histogram: temporality}) for _ in range(readers)]
        self.provider = MeterProvider(self.readers, views=views, shutdown_on_exit=False)
        self.meter = self.provider.get_meter("test")
        self.histogram = self.meter.create_histogram("runs", explicit_bucket_boundaries_advisory=BOUNDS)

    def points(self):
        """What each reader collects, times left out."""
        found = []
        for reader in self.readers:
            data = reader.get_metrics_data()
            found.append(
                [
                    (point.count, pytest.approx(point.sum), point.min, point.max, point.bucket_counts)
                    for resource in data.resource_metrics
                    for scope in resource.scope_metrics
                    for metric in scope.metrics
                    for point in metric.data.data_points
                ]
                if data
                else []
            )
        return found


def merged(meters, values):
    return merge_into_histogram(meters.meter, meters.histogram, values)


@pytest.mark.parametrize(
    "temporality",
    [AggregationTemporality.DELTA, AggregationTemporality.CUMULATIVE],
    ids=lambda each: each.name.lower(),
)
@pytest.mark.parametrize("values", [VALUES, SHUFFLED, SHUFFLED[::-1]], ids=["sorted", "shuffled", "reversed"])
def test_values_added_at_once_are_those_recorded_one_by_one_over_several_collections(temporality, values):
    at_once, one_by_one = Meters(temporality=temporality, readers=2), Meters(temporality=temporality, readers=2)
    for part in (values[:300], values[300:301], values[301:]):
        assert merged(at_once, part)
        for value in part:
            one_by_one.histogram.record(value)
        assert at_once.points() == one_by_one.points()


@pytest.mark.parametrize("values", [[0.5] * 9, [0.02, 0.05, 0.03], [0.0, 9.0, 0.001, 0.001], [9.0, 0.0]], ids=str)
def test_values_added_to_those_of_the_same_collection_keep_its_extremes(values):
    at_once, one_by_one = Meters(), Meters()
    for part in ([0.01, 0.04], values, [0.04], values[::-1]):
        assert merged(at_once, part)
        for value in part:
            one_by_one.histogram.record(value)
    assert at_once.points() == one_by_one.points()


def test_views_with_other_bounds_or_without_extremes_hold():
    view = View(
        instrument_name="runs", aggregation=ExplicitBucketHistogramAggregation((0.02, 0.2), record_min_max=False)
    )
    at_once, one_by_one = Meters(view), Meters(view)
    assert merged(at_once, VALUES)
    for value in VALUES:
        one_by_one.histogram.record(value)
    assert at_once.points() == one_by_one.points()


@pytest.mark.parametrize("aggregation", [ExponentialBucketHistogramAggregation(), DropAggregation()])
def test_another_aggregation_is_refused_and_nothing_is_added(aggregation):
    meters = Meters(View(instrument_name="runs", aggregation=aggregation))
    assert not merged(meters, VALUES)
    assert meters.points() == [[]]


def test_values_with_attributes_are_left_alone():
    meters = Meters()
    meters.histogram.record(1.0, {"error.type": "ValueError"})
    assert merged(meters, [0.5, 2.0])
    assert sorted(count for count, *_ in meters.points()[0]) == [1, 2]


def test_an_api_without_sdk_is_refused():
    from opentelemetry.metrics import NoOpMeter

    meter = NoOpMeter("test")
    assert not merge_into_histogram(meter, meter.create_histogram("runs"), VALUES)
