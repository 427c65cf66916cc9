# SPDX-License-Identifier: Apache-2.0
"""Measurements carry the trace of a kept span, where there is one."""

import random

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON

from support.engines import extend
from torchspan import phase
from torchspan.engine import Engine
from torchspan.output.writer import MetricWriter, SpanWriter
from torchspan.words import semconv


@pytest.fixture
def measured():
    """Makes an engine, the program's tracer, and what reads the exemplars of a metric as (trace id, span id)."""

    def make(sampler):
        provider, engine, reader = (
            TracerProvider(sampler=sampler, shutdown_on_exit=False),
            Engine(),
            InMemoryMetricReader(),
        )
        extend(engine, SpanWriter(provider))
        meters = MeterProvider([reader], shutdown_on_exit=False)
        extend(engine, MetricWriter(engine, meters, dropped={}))

        def exemplars(name):
            (resource,) = reader.get_metrics_data().resource_metrics
            found = {metric.name: metric for scope in resource.scope_metrics for metric in scope.metrics}
            points = found[name].data.data_points
            return [(each.trace_id, each.span_id) for point in points for each in point.exemplars]

        return engine, provider.get_tracer("app"), exemplars

    return make


DURATIONS = pytest.mark.parametrize(
    ("of", "name"),
    [
        (phase.COMPILE, "torch_tensorrt.compile.duration"),
        (phase.BUILD_ENGINE, "torch_tensorrt.phase.duration"),
        (phase.EXECUTE, "torch_tensorrt.execute.duration"),
    ],
)


@DURATIONS
def test_the_exemplar_of_work_with_a_sampled_span_refers_to_that_span(measured, of, name):
    engine, tracer, exemplars = measured(ALWAYS_ON)
    with tracer.start_as_current_span("request"):
        event = engine.open(of, {})
        engine.close(event)
    assert exemplars(name) == [(event.handle.trace_id, event.handle.span_id)]


@DURATIONS
def test_work_without_a_sampled_span_has_no_exemplar(measured, of, name):
    engine, _, exemplars = measured(ALWAYS_OFF)
    engine.close(engine.open(of, {}))
    assert exemplars(name) == []


def test_a_run_that_is_not_an_event_has_no_exemplar_of_the_span_that_is_current_at_its_sum(measured):
    engine, tracer, exemplars = measured(ALWAYS_ON)
    for _ in range(5):
        engine.run_times[phase.EXECUTE].add(0.01)
    with tracer.start_as_current_span("another request"):
        assert exemplars("torch_tensorrt.execute.duration") == []


@pytest.mark.parametrize(
    ("of", "attributes", "name"),
    [
        (phase.CACHE_LOOKUP, {semconv.CACHE_RESULT: "hit"}, "torch_tensorrt.engine_cache.lookups"),
        (phase.COMPILE, {}, "torch_tensorrt.compile.duration"),
    ],
)
def test_no_measurement_draws_from_the_programs_random_generator(measured, of, attributes, name):
    engine, tracer, exemplars = measured(ALWAYS_ON)
    with tracer.start_as_current_span("request"):
        random.seed(7)
        expected = random.Random(7).random()
        for _ in range(5):  # with a span, a counter's second measurement would draw
            event = engine.open(of, attributes)
            # All of no duration: there is an exemplar for each range of durations that has measurements.
            engine.close(event, at_ns=event.start_ns)
    assert random.random() == expected
    assert len(exemplars(name)) == (1 if of is phase.COMPILE else 0)
