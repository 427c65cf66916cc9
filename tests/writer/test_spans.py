# SPDX-License-Identifier: Apache-2.0
"""Events of the engine as spans of the real SDK; no library is observed here."""

import contextvars
import os
import random
import threading

import pytest
from opentelemetry import trace
from opentelemetry.instrumentation.utils import suppress_instrumentation
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import Decision, Sampler, SamplingResult
from opentelemetry.trace import NonRecordingSpan, SpanContext, StatusCode, TraceFlags

from support.engines import extend
from support.fake_time import START_NS, FakeTime
from support.own_failures import consequences
from support.tree import named, outline
from torchspan import phase
from torchspan.engine import Engine, Occurrence
from torchspan.hooks.adapters.machinery.provenance import Provenance
from torchspan.hooks.adapters.machinery.wrap import WrapperFactory
from torchspan.hooks.probes import Function, Record
from torchspan.output.writer import SpanWriter
from torchspan.words import semconv


@pytest.fixture
def writer(provider):
    return SpanWriter(provider)


@pytest.fixture
def engine(writer):
    engine = Engine()
    extend(engine, writer)
    return engine


@pytest.fixture
def observed(engine):
    """Makes a function an event of a phase, as an adapter does."""
    factory = WrapperFactory(engine, Provenance())

    def decorate(of_phase):
        return lambda function: factory.record(Function("x:f"), Record(of_phase), function)

    return decorate


def test_the_current_span_is_the_parent_and_is_current_again_afterwards(engine, exporter, tracer):
    with tracer.start_as_current_span("request") as request:
        event = engine.open(phase.COMPILE, {})
        assert trace.get_current_span() is not request
        engine.close(event)
        assert trace.get_current_span() is request
    assert outline(exporter.get_finished_spans()) == ["request\n  torch_tensorrt.compile"]


def test_a_remote_parent_is_kept(engine, exporter):
    remote = SpanContext(0xA, 0xB, is_remote=True, trace_flags=TraceFlags(1))
    with trace.use_span(NonRecordingSpan(remote)):
        engine.close(engine.open(phase.COMPILE, {}))
    (span,) = exporter.get_finished_spans()
    assert span.parent == remote


def test_a_worker_started_inside_a_span_that_has_ended_begins_a_trace_with_a_link(engine, exporter, tracer):
    with tracer.start_as_current_span("request") as request:
        context = contextvars.copy_context()
    thread = threading.Thread(target=context.run, args=(lambda: engine.close(engine.open(phase.COMPILE, {})),))
    thread.start()
    thread.join()
    span = named(exporter.get_finished_spans(), "torch_tensorrt.compile")
    assert span.parent is None
    assert span.context.trace_id != request.get_span_context().trace_id
    assert [link.context for link in span.links] == [request.get_span_context()]


def test_while_instrumentation_is_suppressed_nothing_is_written_and_the_work_continues(observed, exporter):
    with suppress_instrumentation():
        assert observed(phase.COMPILE)(lambda: "result")() == "result"
    assert exporter.get_finished_spans() == ()


def test_without_an_sdk_nothing_is_written_and_the_work_continues():
    engine = Engine()
    writer = SpanWriter()
    extend(engine, writer)
    engine.close(engine.open(phase.COMPILE, {}))
    assert (writer.recorded, writer.unsampled) == (0, 1)


def test_a_provider_set_late_is_used_from_then_on(monkeypatch):
    engine, exporter = Engine(), InMemorySpanExporter()
    extend(engine, SpanWriter())
    engine.close(engine.open(phase.COMPILE, {}))
    late = TracerProvider(shutdown_on_exit=False)
    late.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: late)
    engine.close(engine.open(phase.COMPILE, {}))
    assert [span.name for span in exporter.get_finished_spans()] == ["torch_tensorrt.compile"]


class Recording(Sampler):
    def __init__(self):
        self.seen = []

    def should_sample(self, parent_context, trace_id, name, kind=None, attributes=None, links=None, trace_state=None):
        self.seen.append((name, dict(attributes)))
        return SamplingResult(Decision.DROP)

    def get_description(self):
        return "recording"


def test_a_sampler_sees_what_is_known_at_the_start_and_its_refusals_are_counted():
    sampler, engine = Recording(), Engine()
    writer = SpanWriter(TracerProvider(sampler=sampler, shutdown_on_exit=False))
    extend(engine, writer)
    engine.close(engine.open(phase.COMPILE, {semconv.IR: "dynamo"}))
    assert sampler.seen == [("torch_tensorrt.compile", {"torch_tensorrt.ir": "dynamo", "torchspan.keep": True})]
    assert (writer.recorded, writer.unsampled) == (0, 1)


def test_a_sampler_that_raises_stops_no_program(observed, caplog):
    class Broken(Recording):
        def should_sample(self, *args, **kwargs):
            raise RuntimeError("sampler")

    engine = Engine()
    extend(engine, SpanWriter(TracerProvider(sampler=Broken(), shutdown_on_exit=False)))
    engine.close(engine.open(phase.COMPILE, {}))
    assert consequences(caplog) == ["writing spans failed; the program continues, with less telemetry."]


# --- exceptions ------------------------------------------------------------------------------------------------


def events(spans):
    return {span.name: [event.name for event in span.events] for span in spans}


def test_an_exception_is_reported_once_on_the_innermost(observed, exporter):
    @observed(phase.COMPILE)
    def outer():
        inner()

    @observed(phase.PARTITION)
    def inner():
        raise ValueError

    with pytest.raises(ValueError):
        outer()
    spans = exporter.get_finished_spans()
    assert events(spans) == {"torch_tensorrt.partition": ["exception"], "torch_tensorrt.compile": []}
    assert all(span.status.status_code is StatusCode.ERROR for span in spans)


def test_a_child_whose_exception_was_swallowed_leaves_its_parent_without_error(observed, exporter):
    @observed(phase.COMPILE)
    def outer():
        with pytest.raises(ValueError):
            inner()

    @observed(phase.PARTITION)
    def inner():
        raise ValueError

    outer()
    assert named(exporter.get_finished_spans(), "torch_tensorrt.compile").status.status_code is StatusCode.UNSET


def test_another_exception_after_a_swallowed_one_is_reported_where_it_was_raised(observed, exporter):
    addresses = set()

    @observed(phase.COMPILE)
    def outer():
        try:
            inner()
        except ValueError as swallowed:
            addresses.add(id(swallowed))
        # The next exception of the class may well have the address of the one just freed.
        error = ValueError()
        addresses.add(id(error))
        raise error

    @observed(phase.PARTITION)
    def inner():
        raise ValueError

    for _ in range(5):
        with pytest.raises(ValueError):
            outer()
    reported = [len(span.events) for span in exporter.get_finished_spans() if span.name == "torch_tensorrt.compile"]
    assert reported == [1] * 5
    assert len(addresses) < 10, "no address was used again: the test proves nothing"


def test_an_exception_made_from_another_is_reported_where_it_was_raised(observed, exporter):
    @observed(phase.COMPILE)
    def outer():
        try:
            inner()
        except ValueError as error:
            raise KeyError from error

    @observed(phase.PARTITION)
    def inner():
        raise ValueError

    with pytest.raises(KeyError):
        outer()
    reported = {span.name: span.events[0].attributes["exception.type"] for span in exporter.get_finished_spans()}
    assert reported == {"torch_tensorrt.partition": "ValueError", "torch_tensorrt.compile": "KeyError"}


def test_the_same_exception_object_raised_twice_is_reported_each_time(observed, exporter):
    error = ValueError()

    @observed(phase.COMPILE)
    def raising():
        raise error

    for _ in range(2):
        with pytest.raises(ValueError) as caught:
            raising()
        assert caught.value is error
    assert [len(span.events) for span in exporter.get_finished_spans()] == [1, 1]


def test_an_exception_whose_text_cannot_be_read_is_reported_without_it(observed, exporter):
    class Unprintable(Exception):
        def __str__(self):
            raise RuntimeError("no text")

    @observed(phase.COMPILE)
    def raising():
        raise Unprintable

    with pytest.raises(Unprintable):
        raising()
    (span,) = exporter.get_finished_spans()
    assert span.attributes["error.type"].endswith("Unprintable")
    assert "exception.message" not in span.events[0].attributes


# --- bounds and ids ---------------------------------------------------------------------------------------------


def test_a_list_is_at_most_two_kibibytes_and_parallel_lists_stay_parallel(engine, exporter):
    lists = {semconv.FALLBACK_OPERATOR_NAMES: ["o" * 500] * 20, semconv.FALLBACK_OPERATOR_COUNTS: [1] * 20}
    engine.close(engine.open(phase.PARTITION, lists))
    (partition,) = exporter.get_finished_spans()
    names = partition.attributes["torch_tensorrt.fallback.operators.names"]
    assert len(names) == len(partition.attributes["torch_tensorrt.fallback.operators.counts"]) == 20
    assert sum(len(each.encode()) for each in names) <= 2048


def test_a_message_that_is_recorded_whole_is_cut_too(provider, exporter):
    engine = Engine()
    extend(engine, SpanWriter(provider, capture="text"))
    engine.close(engine.open(phase.COMPILE, {}), ValueError("é" * 5000))
    (event,) = exporter.get_finished_spans()[0].events
    assert event.attributes["exception.message"] == "é" * 1022 + "…"


def test_a_program_that_seeds_the_global_generator_gets_other_ids_and_its_own_numbers(engine, exporter):
    numbers, ids = [], set()
    for _ in range(3):
        random.seed(42)
        engine.close(engine.open(phase.COMPILE, {}))
        numbers.append(random.random())
    ids = {span.context.span_id for span in exporter.get_finished_spans()}
    random.seed(42)
    assert numbers == [random.random()] * 3
    assert len(ids) == 3


def test_a_forked_child_has_ids_of_its_own(engine, provider):
    reader, writer_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        event = engine.open(phase.COMPILE, {})
        os.write(writer_end, str(event.handle.span_id).encode())
        os._exit(0)
    os.waitpid(pid, 0)
    os.close(writer_end)
    child = int(os.read(reader, 100))
    os.close(reader)
    event = engine.open(phase.COMPILE, {})
    engine.close(event)
    assert event.handle.span_id != child


def test_an_id_generator_of_the_users_choice_stays():
    class Prescribed(IdGenerator):
        def generate_span_id(self):
            return 7

        def generate_trace_id(self):
            return 8

    engine = Engine()
    extend(engine, SpanWriter(TracerProvider(id_generator=Prescribed(), shutdown_on_exit=False)))
    event = engine.open(phase.COMPILE, {})
    engine.close(event)
    assert (event.handle.trace_id, event.handle.span_id) == (8, 7)


def test_what_occurred_inside_an_event_is_an_event_of_its_span(engine, exporter):
    event = engine.open(phase.BUILD_ENGINE, {})
    event.occurrences.append(Occurrence("exception", event.start_ns + 5, {semconv.EXCEPTION_TYPE: "Handled"}))
    engine.close(event)
    (span,) = exporter.get_finished_spans()
    assert [(each.name, each.timestamp, dict(each.attributes)) for each in span.events] == [
        ("exception", event.start_ns + 5, {"exception.type": "Handled"})
    ]


@pytest.mark.parametrize(
    ("capture", "reported"),
    [
        ("none", "Failed to parse ONNX model from file: ?!"),
        ("local", "Failed to parse ONNX model from file: ?!"),
        ("text", "Failed to parse ONNX model from file: /srv/my.onnx with 4711!"),
    ],
)
def test_an_attribute_that_is_somebodys_text_is_redacted_unless_asked_for(provider, exporter, capture, reported):
    engine = Engine()
    extend(engine, SpanWriter(provider, capture=capture))
    text = {semconv.PARSER_ERROR: "Failed to parse ONNX model from file: /srv/my.onnx with 4711!"}
    engine.close(engine.open(phase.PARSE, text))
    event = engine.open(phase.PARSE, {})
    event.additions.update(text)
    engine.close(event)
    assert [span.attributes["tensorrt.parser.error"] for span in exporter.get_finished_spans()] == [reported, reported]


def test_starts_and_ends_are_those_of_the_clock_to_the_nanosecond(engine, exporter, monkeypatch):
    clock = FakeTime(monkeypatch)
    compilation = engine.open(phase.COMPILE, {})
    clock.jump(1.5)
    build = engine.open(phase.BUILD_ENGINE, {})
    clock.jump(0.000_000_007)
    engine.close(build)
    clock.jump(2)
    engine.close(compilation)
    times = {
        span.name: (span.start_time - START_NS, span.end_time - START_NS) for span in exporter.get_finished_spans()
    }
    assert times == {
        "torch_tensorrt.compile": (0, 3_500_000_007),
        "tensorrt.build_engine": (1_500_000_000, 1_500_000_007),
    }
