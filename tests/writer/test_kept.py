# SPDX-License-Identifier: Apache-2.0
"""Spans of torchspan under its own sampler: what it has decided to keep arrives, and lies where it can be found."""

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, TraceState

from support.emitted import EMITTED
from support.engines import extend
from torchspan import phase
from torchspan.engine import Engine
from torchspan.output.writer import SpanWriter
from torchspan.sdk import ParentBasedTorchspanSampler, TorchspanIdGenerator, TorchspanSampler

UNSAMPLED = SpanContext(0xA, 0xB, is_remote=True, trace_flags=TraceFlags(0), trace_state=TraceState([("vendor", "1")]))
RANDOM = 2


@pytest.fixture
def work(exporter):
    """Makes an engine and the program's tracer, on a provider with this sampler."""

    def make(sampler, **options):
        provider = TracerProvider(sampler=sampler, shutdown_on_exit=False, **options)
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        provider.add_span_processor(SimpleSpanProcessor(EMITTED))
        engine = Engine()
        extend(engine, SpanWriter(provider))
        return engine, provider.get_tracer("app")

    return make


def run(engine, *phases):
    """Work of these phases, each inside the one before."""
    if phases:
        event = engine.open(phases[0], {})
        run(engine, *phases[1:])
        engine.close(event)


BOTH = pytest.mark.parametrize("kind", [TorchspanSampler, ParentBasedTorchspanSampler])


@BOTH
@pytest.mark.parametrize("ids", [None, TorchspanIdGenerator()], ids=["the SDK's ids", "torchspan's ids"])
def test_a_compilation_below_an_unsampled_span_is_a_root_in_its_trace(work, exporter, kind, ids):
    engine, tracer = work(kind("other=0"), id_generator=ids)
    with tracer.start_as_current_span("request") as request:
        run(engine, phase.COMPILE, phase.BUILD_ENGINE)
    build, compilation = exporter.get_finished_spans()
    assert compilation.parent is None
    assert compilation.context.trace_id == request.get_span_context().trace_id
    assert build.parent == compilation.context
    assert [each.attributes.get("torchspan.parent_sampled") for each in (compilation, build)] == [False, None]


def test_it_is_one_too_below_a_span_of_another_process(work, exporter):
    engine, _ = work(ParentBasedTorchspanSampler())
    with trace.use_span(NonRecordingSpan(UNSAMPLED)):
        run(engine, phase.COMPILE)
    (compilation,) = exporter.get_finished_spans()
    assert (compilation.context.trace_id, compilation.parent) == (0xA, None)
    assert dict(compilation.context.trace_state) == {"vendor": "1"}


@pytest.mark.parametrize("flags", [0, RANDOM])
def test_a_trace_id_of_another_process_is_as_random_as_that_process_says(work, exporter, flags):
    engine, _ = work(TorchspanSampler())
    around = SpanContext(0xA, 0xB, is_remote=True, trace_flags=TraceFlags(flags))
    with trace.use_span(NonRecordingSpan(around)):
        run(engine, phase.COMPILE)
    (compilation,) = exporter.get_finished_spans()
    if hasattr(TraceFlags, "RANDOM_TRACE_ID"):
        assert compilation.context.trace_flags & RANDOM == flags


def test_with_ids_that_a_backend_prescribes_it_stays_a_child(work, exporter):
    class Prescribed(IdGenerator):
        def generate_span_id(self):
            return 7

        def generate_trace_id(self):
            return 8

    engine, _ = work(TorchspanSampler(), id_generator=Prescribed())
    with trace.use_span(NonRecordingSpan(UNSAMPLED)):
        run(engine, phase.COMPILE)
    (compilation,) = exporter.get_finished_spans()
    assert compilation.parent == UNSAMPLED
    assert compilation.attributes["torchspan.parent_sampled"] is False


@BOTH
def test_a_compilation_below_a_sampled_span_is_its_child(work, exporter, kind):
    engine, tracer = work(kind("other=1"))
    with tracer.start_as_current_span("request") as request:
        run(engine, phase.COMPILE)
    compilation, _ = exporter.get_finished_spans()
    assert compilation.parent == request.get_span_context()
    assert "torchspan.parent_sampled" not in compilation.attributes


@BOTH
def test_what_lies_inside_a_kept_compilation_is_kept_whatever_the_trace_id(work, exporter, kind):
    engine, _ = work(kind("other=0"))
    run(engine, phase.COMPILE, phase.OBSERVED, phase.EXECUTE)
    assert [span.name for span in exporter.get_finished_spans()] == [
        "torch_tensorrt.execute",
        "torchspan.observed",
        "torch_tensorrt.compile",
    ]


@BOTH
def test_an_observed_call_outside_is_decided_as_the_programs_own_spans_are(work, exporter, kind):
    engine, tracer = work(kind("other=0"))
    run(engine, phase.OBSERVED)
    with tracer.start_as_current_span("request"):
        run(engine, phase.OBSERVED)
    assert exporter.get_finished_spans() == ()


def test_the_programs_context_is_as_it_was(work):
    engine, tracer = work(TorchspanSampler("other=0"))
    with tracer.start_as_current_span("request") as request:
        run(engine, phase.COMPILE)
        assert trace.get_current_span() is request
        with tracer.start_as_current_span("its own") as own:
            assert not own.is_recording()


def test_another_sampler_decides_alone(work, exporter):
    engine, _ = work(ALWAYS_OFF)
    run(engine, phase.COMPILE)
    assert exporter.get_finished_spans() == ()
