# SPDX-License-Identifier: Apache-2.0
"""Spans that were not started are counted by the reason; no library is observed here."""

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import (
    SimpleSpanProcessor,
)
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, Decision, Sampler, SamplingResult

from support.engines import extend
from torchspan import phase
from torchspan.engine import Engine
from torchspan.output.writer import MetricWriter, SpanWriter
from torchspan.sdk import TorchspanSampler
from torchspan.words import semconv

REASONS = {"budget", "rank", "sampler", "paused", "inside", "ring", "late"}


@pytest.fixture
def writing():
    """`writing(provider)`: a writer to it, and what makes an event of a phase."""

    def make(provider):
        engine, writer = Engine(), SpanWriter(provider)
        extend(engine, writer)
        return writer, lambda of_phase=phase.COMPILE: engine.close(engine.open(of_phase, {}))

    return make


def provider_with(*processors, **options):
    provider = TracerProvider(shutdown_on_exit=False, **options)
    for each in processors:
        provider.add_span_processor(each)
    return provider


class RecordedOnly(Sampler):
    """Every span is recorded, and none is sampled."""

    def should_sample(self, *_args, **_kwargs):
        return SamplingResult(Decision.RECORD_ONLY)

    def get_description(self):
        return "RecordedOnly"


@pytest.mark.fault(
    "the SDK", "a sampler refuses everything", lost="the spans", counted="torchspan.span.dropped, reason sampler"
)
@pytest.mark.parametrize("sampler", [ALWAYS_OFF, RecordedOnly()], ids=["dropped", "recorded only"])
def test_a_compilation_that_a_foreign_sampler_refused_is_counted(writing, sampler):
    writer, emit = writing(provider_with(sampler=sampler))
    emit()
    assert writer.refused == 1


def test_runs_that_a_foreign_sampler_refused_are_its_decision_and_are_not_counted(writing):
    writer, emit = writing(provider_with(sampler=ALWAYS_OFF))
    emit(phase.EXECUTE)
    assert (writer.refused, writer.unsampled) == (0, 1)


@pytest.mark.parametrize("sampler", [ALWAYS_ON, TorchspanSampler("other=0")], ids=["always_on", "torchspan"])
def test_a_compilation_that_is_sampled_is_not_counted(writing, sampler):
    writer, emit = writing(provider_with(sampler=sampler))
    emit()
    assert (writer.refused, writer.recorded) == (0, 1)


@pytest.mark.parametrize("around", [trace.INVALID_SPAN_CONTEXT, trace.SpanContext(1, 2, is_remote=True)])
def test_without_an_sdk_no_sampler_has_refused_anything(writing, around):
    writer, emit = writing(trace.NoOpTracerProvider())
    with trace.use_span(trace.NonRecordingSpan(around)):
        emit()
    assert (writer.refused, writer.unsampled) == (0, 1)


# --- the metric ---------------------------------------------------------------------------------------------------
def test_the_metric_has_each_reason_with_its_number(metrics):
    engine, counts = Engine(), dict.fromkeys(REASONS, 0)
    dropped = {reason: lambda reason=reason: counts[reason] for reason in REASONS}
    writer = MetricWriter(engine, metrics.provider, dropped=dropped)
    counts |= {"budget": 1, "rank": 2, "sampler": 3, "paused": 4, "inside": 5, "ring": 6, "late": 7}
    assert metrics.values("torchspan.span.dropped", "torchspan.dropped.reason") == counts
    writer.stop()


def test_the_reasons_are_those_of_the_table():
    assert {value for name, value in vars(semconv.DroppedReason).items() if name.isupper()} == REASONS
    assert all(semconv.DROPPED_REASON.kind.accepts(each) for each in REASONS)


def test_spans_that_were_not_started_because_writing_them_was_paused_are_counted(instrument, metrics, monkeypatch):
    from torchspan.observers import observable

    class Hiccups(SpanProcessor):
        is_broken = True

        def on_start(self, span, parent_context=None):
            if self.is_broken:
                raise ConnectionError("a hiccup")

    now = [100.0]
    monkeypatch.setattr("torchspan.base.errors.monotonic", lambda: now[0])
    hiccups = Hiccups()
    provider = provider_with(SimpleSpanProcessor(InMemorySpanExporter()), hiccups)
    names = [f"call {number}" for number in range(10)]  # of each function, the rate of spans is limited
    instrument(tracer_provider=provider)

    def call(name):
        def function(): ...

        function.__name__ = function.__qualname__ = name
        observable(function)()

    for name in names[:8]:
        call(name)
    assert metrics.values("torchspan.span.dropped", "torchspan.dropped.reason") == {"paused": 5}
    hiccups.is_broken = False
    now[0] += 1
    call(names[8])
    assert metrics.values("torchspan.span.dropped", "torchspan.dropped.reason") == {"paused": 5}
    assert metrics.values("torchspan.span.emitted", "torchspan.phase") == {"torchspan.observed": 1}
