# SPDX-License-Identifier: Apache-2.0
"""Metrics of a forked child, which starts with a copy of its parent's sums."""

import os

import pytest
from opentelemetry.sdk.metrics import Counter, Histogram, MeterProvider, ObservableUpDownCounter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    InMemoryMetricReader,
    MetricExporter,
    MetricExportResult,
    PeriodicExportingMetricReader,
)

from support.engines import extend
from support.forked import held_elsewhere, in_forked_child
from support.metrics import Metrics
from torchspan import phase
from torchspan.engine import Engine
from torchspan.output.writer import MetricWriter

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork"),
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),  # from 3.12 on; it is what is tested
]

COMPILE = "torch_tensorrt.compile.duration"


class Exporter(MetricExporter):
    """Keeps what it is given: for each export, the metrics' names with their numbers of measurements, by scope."""

    def __init__(self):
        super().__init__()
        self.exported = []

    def export(self, metrics_data, timeout_millis=10_000, **_):
        self.exported.append(
            {
                (scope.scope.name, metric.name): [
                    getattr(point, "count", getattr(point, "value", None)) for point in metric.data.data_points
                ]
                for of_resource in metrics_data.resource_metrics
                for scope in of_resource.scope_metrics
                for metric in scope.metrics
            }
        )
        return MetricExportResult.SUCCESS

    def force_flush(self, timeout_millis=10_000):
        return True

    def shutdown(self, timeout_millis=30_000, **_):
        pass


class Work:
    """Events that a metric writer of `provider` measures. `dropped` is how many spans were not started."""

    def __init__(self, provider):
        self.dropped = 0
        self.engine = Engine()
        self.writer = MetricWriter(self.engine, provider, dropped={"budget": lambda: self.dropped})
        extend(self.engine, *self.writer.listeners)

    def compile(self, times=1):
        for _ in range(times):
            self.engine.close(self.engine.open(phase.COMPILE, {}))

    def close(self):
        self.engine.stop()
        self.writer.stop()


@pytest.fixture
def worker():
    """`worker(provider)`: work whose writer is closed at the end."""
    made = []

    def make(provider):
        made.append(Work(provider))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def metrics():
    return Metrics()


@pytest.fixture
def work(worker, metrics):
    return worker(metrics.provider)


def count(metrics):
    return sum(point.count for point in metrics.read().get(COMPILE, []))


def test_a_forked_child_counts_its_own_events_alone(work, metrics):
    work.compile(3)

    def child():
        work.compile(2)
        return count(metrics)

    assert in_forked_child(child) == "2"
    assert count(metrics) == 3


def test_a_forked_child_that_does_nothing_has_no_series(work, metrics):
    work.compile(3)
    assert in_forked_child(lambda: metrics.read().get(COMPILE)) == "None"


def test_the_parent_continues_counting_after_a_fork(work, metrics):
    work.compile()
    in_forked_child(lambda: work.compile(5))
    work.compile()
    assert count(metrics) == 2


def test_a_forked_child_of_a_forked_child_begins_at_zero_too(work, metrics):
    work.compile(3)

    def child():
        work.compile(2)

        def grandchild():
            work.compile()
            return count(metrics)

        return in_forked_child(grandchild), count(metrics)

    assert in_forked_child(child) == repr(("1", 2))


def test_with_delta_temporality_what_the_parent_has_not_exported_is_not_the_childs(worker):
    delta = dict.fromkeys((Counter, Histogram, ObservableUpDownCounter), AggregationTemporality.DELTA)
    reader = InMemoryMetricReader(preferred_temporality=delta)
    metrics = Metrics(MeterProvider([reader], shutdown_on_exit=False), reader)
    work = worker(metrics.provider)
    work.compile(3)

    def child():
        work.compile(2)
        return count(metrics), metrics.read().get(COMPILE)

    assert in_forked_child(child) == repr((2, None))
    assert count(metrics) == 3


def test_series_of_a_forked_child_start_after_the_fork(work, metrics):
    def starts():
        (resource,) = metrics.reader.get_metrics_data().resource_metrics
        return {
            point.start_time_unix_nano
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == COMPILE
            for point in metric.data.data_points
        }

    work.compile()
    (before,) = starts()

    def child():
        work.compile()
        (own,) = starts()
        return own > before

    assert in_forked_child(child) == "True"


def test_what_was_dropped_before_the_fork_is_not_counted_in_the_child(work, metrics):
    work.dropped = 5

    def child():
        work.dropped += 2
        return metrics.values("torchspan.span.dropped", "torchspan.dropped.reason")

    assert in_forked_child(child) == repr({"budget": 2})
    assert metrics.values("torchspan.span.dropped", "torchspan.dropped.reason") == {"budget": 5}


def test_work_that_the_parent_is_at_is_not_active_in_the_child(work, metrics):
    event = work.engine.open(phase.COMPILE, {})
    assert in_forked_child(lambda: metrics.values("torch_tensorrt.build.active")) == repr({(): 0})
    assert metrics.values("torch_tensorrt.build.active") == {(): 1}
    work.engine.close(event)


def test_the_programs_own_instruments_are_left_as_they_are(work, metrics):
    counter = metrics.provider.get_meter("user").create_counter("requests")
    counter.add(3)
    work.compile()

    def child():
        counter.add(1)
        (resource,) = metrics.reader.get_metrics_data().resource_metrics
        return [
            point.value
            for scope in resource.scope_metrics
            if scope.scope.name == "user"
            for metric in scope.metrics
            for point in metric.data.data_points
        ]

    assert in_forked_child(child) == "[4]"


def test_a_lock_that_another_thread_held_at_the_fork_holds_up_no_child(work, metrics):
    work.compile()
    ((_, storage),) = metrics.provider._measurement_consumer._reader_storages.items()
    matches = [each for of_one in storage._instrument_view_instrument_matches.values() for each in of_one]
    own = work.writer._lock, *(each._lock for each in matches)

    def child():
        work.compile()
        return count(metrics)

    with held_elsewhere(*own, storage._lock, metrics.provider._measurement_consumer._lock):
        assert in_forked_child(child) == "1"


def test_a_child_exports_though_its_parent_was_exporting_at_the_fork(worker):
    exporter = Exporter()
    reader = PeriodicExportingMetricReader(exporter, 3_600_000)
    work = worker(MeterProvider([reader], shutdown_on_exit=False))
    work.compile(3)
    storage = work.writer._instruments.provider._measurement_consumer._reader_storages[reader]

    def child():
        work.compile(2)
        work.writer.export()
        return exporter.exported

    with held_elsewhere(reader._export_lock, storage._lock):
        assert in_forked_child(child) == repr([{("torchspan", COMPILE): [2]}])
    work.writer._instruments.provider.shutdown()


def test_export_sends_torchspans_metrics_and_not_the_programs(worker):
    exporter = Exporter()
    provider = MeterProvider([PeriodicExportingMetricReader(exporter, 3_600_000)], shutdown_on_exit=False)
    work = worker(provider)
    provider.get_meter("user").create_counter("requests").add(3)
    work.compile(3)
    work.dropped = 2
    work.writer.export()
    (exported,) = exporter.exported
    assert exported == {("torchspan", COMPILE): [3], ("torchspan", "torchspan.span.dropped"): [2]}
    provider.shutdown()


def test_export_after_the_providers_shutdown_sends_nothing(worker):
    exporter = Exporter()
    provider = MeterProvider([PeriodicExportingMetricReader(exporter, 3_600_000)], shutdown_on_exit=False)
    work = worker(provider)
    work.compile()
    provider.shutdown()
    before = len(exporter.exported)
    work.writer.export()
    assert len(exporter.exported) == before
