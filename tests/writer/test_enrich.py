# SPDX-License-Identifier: Apache-2.0
"""What is known of an event where it starts: for metrics and samplers too, whatever is written of it."""

import contextvars
import gc
import threading
import weakref

import pytest
from opentelemetry import context as context_api
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import SpanKind

import torchspan
from support.engines import extend
from torchspan import phase
from torchspan.engine import Engine
from torchspan.hooks import propagation
from torchspan.output.server_span import REMEMBERED, SERVER_SPANS
from torchspan.output.writer import MetricWriter, ServingMarks


@pytest.fixture(autouse=True)
def _watching(provider):
    stop = SERVER_SPANS.start()
    SERVER_SPANS.watch(provider)
    yield
    stop()


@pytest.fixture
def carried():
    """The context follows the work into threads and pools."""
    undo = propagation.install(resume=lambda: None, exports=list, as_parent=True)
    yield
    undo()


def is_marked(of_phase=phase.COMPILE):
    """Whether an event that starts here is one while serving. No span writer is there."""
    engine = Engine()
    extend(engine, ServingMarks())
    event = engine.open(of_phase, {})
    engine.close(event)
    return event.attributes.get("torchspan.while_serving")


def server(tracer):
    return tracer.start_as_current_span("GET /", kind=SpanKind.SERVER)


# --- below a SERVER span --------------------------------------------------------------------------------------
@pytest.mark.parametrize("depth", [0, 1, 2, 7])
def test_a_compilation_anywhere_below_a_server_span_is_marked(tracer, depth):
    def nested(left):
        if not left:
            return is_marked()
        with tracer.start_as_current_span("middleware"):
            return nested(left - 1)

    with server(tracer):
        assert nested(depth) is True


def test_a_compilation_below_spans_of_other_kinds_is_not_marked(tracer):
    with tracer.start_as_current_span("job", kind=SpanKind.CONSUMER), tracer.start_as_current_span("step"):
        assert is_marked() is None


def test_a_compilation_alongside_or_after_a_server_span_is_not_marked(tracer):
    with server(tracer), tracer.start_as_current_span("middleware"):
        other = contextvars.Context()
    assert is_marked() is None
    assert other.run(is_marked) is None


@pytest.mark.parametrize("compilation", [phase.COMPILE_FRAME, phase.COMPILE_BACKWARD], ids=lambda each: each.short)
def test_a_compilation_by_torch_compile_below_a_server_span_is_marked(tracer, compilation):
    assert is_marked(compilation) is None
    with server(tracer):
        assert is_marked(compilation) is True


def test_other_work_below_a_server_span_is_not_marked(tracer):
    with server(tracer):
        assert is_marked(phase.BUILD_ENGINE) is None


def test_the_metrics_have_it_without_the_span_writer(tracer, metrics):
    engine = Engine()
    recorder = MetricWriter(engine, metrics.provider, dropped={})
    extend(engine, ServingMarks(), recorder)
    with server(tracer), tracer.start_as_current_span("middleware"):
        engine.close(engine.open(phase.COMPILE, {}))
    assert metrics.counts("torch_tensorrt.compile.duration", "torchspan.while_serving") == {True: 1}
    engine.stop()
    recorder.stop()


@pytest.mark.parametrize("attach", ["use_span", "set_span_in_context"])
def test_it_does_not_matter_how_the_span_becomes_current(tracer, attach):
    span = tracer.start_span("GET /", kind=SpanKind.SERVER)
    inner = tracer.start_span("middleware", trace.set_span_in_context(span))
    if attach == "use_span":
        with trace.use_span(span), trace.use_span(inner):
            assert is_marked() is True
    else:
        outer = context_api.attach(trace.set_span_in_context(span))
        token = context_api.attach(trace.set_span_in_context(inner))
        assert is_marked() is True
        context_api.detach(token)
        context_api.detach(outer)
    assert is_marked() is None


def test_a_span_of_another_trace_that_is_current_during_a_request_is_not_marked(tracer):
    with server(tracer):
        token = context_api.attach(trace.set_span_in_context(tracer.start_span("of its own", Context()), Context()))
        assert is_marked() is None
        context_api.detach(token)


# --- elsewhere ------------------------------------------------------------------------------------------------
def in_thread(function):
    found = []
    thread = threading.Thread(target=lambda: found.append(function()))
    thread.start()
    thread.join()
    return found[0]


@pytest.mark.usefixtures("carried")
def test_work_of_an_open_request_in_another_thread_is_marked(tracer):
    remote = trace.SpanContext(1, 2, is_remote=True, trace_flags=trace.TraceFlags(1))
    caller = trace.set_span_in_context(trace.NonRecordingSpan(remote), Context())
    with tracer.start_as_current_span("GET /", caller, kind=SpanKind.SERVER) as request:
        assert request.parent.is_remote
        assert in_thread(is_marked) is True
        with tracer.start_as_current_span("middleware"):
            assert in_thread(is_marked) is True


@pytest.mark.usefixtures("carried")
def test_work_that_outlives_its_request_is_marked_no_longer(tracer):
    found, over = [], threading.Event()

    def outlives():
        over.wait(60)
        found.append(is_marked())

    with server(tracer), tracer.start_as_current_span("middleware"):
        thread = threading.Thread(target=outlives)
        thread.start()
    over.set()
    thread.join()
    assert found == [None]


def test_a_context_that_is_kept_keeps_no_span_alive():
    tracer = TracerProvider(shutdown_on_exit=False).get_tracer("user")
    span = tracer.start_span("GET /", kind=SpanKind.SERVER)
    token = context_api.attach(trace.set_span_in_context(span))
    kept = context_api.get_current()
    inner = context_api.attach(trace.set_span_in_context(trace.INVALID_SPAN))
    copied = contextvars.copy_context()
    context_api.detach(inner)
    context_api.detach(token)
    span.end()
    alive = weakref.ref(span)
    del span, kept, token, inner
    gc.collect()
    assert alive() is None
    assert copied.run(is_marked) is None


# --- otherwise ------------------------------------------------------------------------------------------------
def test_a_program_that_is_ready_marks_every_compilation():
    torchspan.mark_ready()
    try:
        assert is_marked() is True
    finally:
        torchspan.mark_not_ready()
    assert is_marked() is None


def test_of_a_span_from_before_its_provider_was_watched_the_current_span_alone_is_known(exporter):
    late = TracerProvider(shutdown_on_exit=False)
    tracer = late.get_tracer("user")
    with server(tracer):
        SERVER_SPANS.watch(late)
        assert is_marked() is True
        with tracer.start_as_current_span("middleware"):
            assert is_marked() is None


def test_a_provider_gets_one_processor_however_often_it_is_watched(monkeypatch):
    added = []
    provider = TracerProvider(shutdown_on_exit=False)
    monkeypatch.setattr(provider, "add_span_processor", added.append)
    for _ in range(3):
        stop = SERVER_SPANS.start()
        SERVER_SPANS.watch(provider)
        stop()
    assert added == [SERVER_SPANS.processor]


def test_after_the_stop_nothing_is_remembered(tracer):
    with server(tracer), tracer.start_as_current_span("middleware"):
        SERVER_SPANS.stop()
        assert is_marked() is None
    with server(tracer), tracer.start_as_current_span("middleware"):
        assert is_marked() is None


def test_the_number_of_remembered_open_spans_is_bounded(tracer):
    with server(tracer):
        spans = [tracer.start_span("step") for _ in range(REMEMBERED + 10)]
        with trace.use_span(spans[REMEMBERED // 2]):
            assert is_marked() is True
        with trace.use_span(spans[-1]):
            assert is_marked() is None
        for span in spans:
            span.end()
        with tracer.start_as_current_span("step"):
            assert is_marked() is True


def test_a_provider_of_another_sdk_is_left_alone():
    SERVER_SPANS.watch(trace.NoOpTracerProvider())
    assert is_marked() is None


def test_a_span_that_raises_where_it_is_looked_at_becomes_current_all_the_same():
    class Hostile(trace.NonRecordingSpan):
        @property
        def kind(self):
            raise RuntimeError("the span's own")

    span = Hostile(trace.INVALID_SPAN_CONTEXT)
    with trace.use_span(span):
        assert trace.get_current_span() is span
        assert is_marked() is None


@pytest.mark.parametrize("kind", [None, "SERVER", object()], ids=["None", "text", "object"])
def test_a_span_of_a_strange_kind_is_none_of_a_server(kind):
    class Strange(trace.NonRecordingSpan):
        pass

    span = Strange(trace.INVALID_SPAN_CONTEXT)
    span.kind = kind
    with trace.use_span(span):
        assert is_marked() is None
