# SPDX-License-Identifier: Apache-2.0
"""One run of a model for several requests: the span of the batch, and the links between it and the requests."""

import pytest
from opentelemetry import context as context_api
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind

import torchspan
from support.engines import extend
from support.ports import make_ports
from support.tree import named
from torchspan import phase
from torchspan.engine import RUNNING, Engine
from torchspan.hooks.adapters import Provenance
from torchspan.hooks.adapters.engine_runs import wrap_run
from torchspan.hooks.adapters.machinery.wrap import WrapperFactory
from torchspan.hooks.probes import PROBES, Runs
from torchspan.output.server_span import SERVER_SPANS
from torchspan.output.writer import ServingMarks, SpanWriter

REQUESTS = "torchspan.batch.requests"
BATCH, EXECUTE = "torchspan.batch", "torch_tensorrt.execute"


@pytest.fixture
def engine(provider):
    """An engine as the bridge puts it together, at work."""
    engine = Engine()
    extend(engine, ServingMarks(), SpanWriter(provider))
    RUNNING.start(engine)
    stop = SERVER_SPANS.start()
    SERVER_SPANS.watch(provider)
    yield engine
    stop()
    engine.stop()


@pytest.fixture
def unsampled():
    return TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False).get_tracer("app")


def requests_of(tracer, count):
    return [tracer.start_span(f"request {number}") for number in range(count)]


def link_ids(span):
    return [link.context.span_id for link in span.links]


def ids(spans):
    return [span.get_span_context().span_id for span in spans]


def test_a_batch_is_a_child_of_the_first_request_with_links_to_all(engine, tracer, exporter):
    requests = requests_of(tracer, 3)
    with torchspan.batch(requests):
        pass
    for each in requests:
        each.end()
    batch = named(exporter.get_finished_spans(), BATCH)
    assert batch.attributes == {REQUESTS: 3}
    assert batch.parent.span_id == ids(requests)[0]
    assert link_ids(batch) == ids(requests)


def test_the_other_requests_that_are_open_get_a_link_to_the_batch(engine, tracer, exporter):
    requests = requests_of(tracer, 3)
    requests[1].end()
    with torchspan.batch(requests):
        pass
    for each in requests:
        each.end()
    batch = named(exporter.get_finished_spans(), BATCH)
    linked = {span.name: link_ids(span) for span in exporter.get_finished_spans() if span.name != BATCH}
    assert linked == {"request 0": [], "request 1": [], "request 2": [batch.context.span_id]}


def test_the_parent_is_the_first_request_that_is_sampled_and_only_sampled_ones_are_linked(
    engine, tracer, unsampled, exporter
):
    requests = [*requests_of(unsampled, 2), *requests_of(tracer, 2)]
    with torchspan.batch(requests):
        pass
    batch = named(exporter.get_finished_spans(), BATCH)
    assert batch.parent.span_id == ids(requests)[2]
    assert (link_ids(batch), batch.attributes[REQUESTS]) == (ids(requests)[2:], 4)


def test_without_a_sampled_request_there_is_no_span_and_the_first_is_current(engine, unsampled, exporter):
    requests = [trace.INVALID_SPAN, *requests_of(unsampled, 2)]
    with torchspan.batch(requests):
        assert trace.get_current_span() is requests[1]
    assert trace.get_current_span() is trace.INVALID_SPAN
    assert exporter.get_finished_spans() == ()


def test_requests_may_be_span_contexts_and_contexts(engine, tracer, exporter):
    requests = requests_of(tracer, 3)
    given = [requests[0].get_span_context(), trace.set_span_in_context(requests[1]), requests[2]]
    with torchspan.batch(given):
        pass
    batch = named(exporter.get_finished_spans(), BATCH)
    assert (batch.parent.span_id, link_ids(batch)) == (ids(requests)[0], ids(requests))


@pytest.mark.parametrize("count", [1, 200])
def test_a_batch_of_any_size_counts_its_requests(engine, tracer, exporter, count):
    with torchspan.batch(requests_of(tracer, count)):
        pass
    batch = named(exporter.get_finished_spans(), BATCH)
    assert batch.attributes == {REQUESTS: count}
    assert len(batch.links) + batch.dropped_links == count


def test_a_batch_of_no_request_is_nothing(engine, tracer, exporter):
    with tracer.start_as_current_span("worker") as worker, torchspan.batch([]):
        assert trace.get_current_span() is worker
    assert [span.name for span in exporter.get_finished_spans()] == ["worker"]


def test_runs_inside_are_below_the_batch_and_what_exceeds_the_limits_is_counted_on_it(engine, tracer, exporter):
    ports = make_ports()
    probe = next(each for each in PROBES if isinstance(each.action, Runs))
    factory = WrapperFactory(engine, Provenance())
    run = wrap_run(factory, ports, probe.target, probe.action, lambda tensors, _engine: tensors)
    with torchspan.batch(requests_of(tracer, 2)):
        trt_engine = type("TrtEngine", (), {})()
        for _ in range(15):
            run([], trt_engine)
    batch = named(exporter.get_finished_spans(), BATCH)
    runs = [span for span in exporter.get_finished_spans() if span.name == EXECUTE]
    assert {span.parent.span_id for span in runs} == {batch.context.span_id}
    assert (len(runs), batch.attributes["torch_tensorrt.execute.folded.count"]) == (10, 5)


def test_a_compilation_inside_is_while_serving_if_the_first_request_is_below_a_server_span(engine, tracer, exporter):
    contexts = [trace.set_span_in_context(each) for each in requests_of(tracer, 2)]
    with (
        tracer.start_as_current_span("GET /", kind=SpanKind.SERVER),
        tracer.start_as_current_span("waiting for a batch"),
    ):
        contexts[0] = context_api.get_current()
        other = context_api.attach(context_api.Context())  # the worker's
        with torchspan.batch(contexts):
            engine.close(engine.open(phase.COMPILE, {}))
        context_api.detach(other)
    compilation = named(exporter.get_finished_spans(), "torch_tensorrt.compile")
    assert compilation.attributes["torchspan.while_serving"] is True


def test_the_baggage_of_a_request_does_not_become_the_batchs(engine, tracer):
    with tracer.start_as_current_span("request"):
        context = context_api.set_value("of one request", "alice")
    with torchspan.batch([context]):
        assert context_api.get_value("of one request") is None


def test_an_exception_passes_and_is_on_the_span(engine, tracer, exporter):
    error = ValueError("secret")
    with pytest.raises(ValueError) as caught, torchspan.batch(requests_of(tracer, 2)):
        raise error
    assert caught.value is error
    batch = named(exporter.get_finished_spans(), BATCH)
    assert batch.attributes["error.type"] == "ValueError"
    assert trace.get_current_span() is trace.INVALID_SPAN


def test_a_batch_inside_a_span_of_the_worker_leaves_that_one_current_afterwards(engine, tracer, exporter):
    (request,) = requests_of(tracer, 1)
    with tracer.start_as_current_span("worker") as worker:
        with torchspan.batch([request]):
            pass
        assert trace.get_current_span() is worker
    request.end()
    assert named(exporter.get_finished_spans(), BATCH).parent.span_id == request.get_span_context().span_id


def test_while_torchspan_is_not_instrumented_nothing_happens(tracer, exporter):
    assert RUNNING.engine is None
    with torchspan.batch(requests_of(tracer, 2)):
        assert trace.get_current_span() is trace.INVALID_SPAN
    assert exporter.get_finished_spans() == ()


def test_after_the_engine_has_stopped_nothing_happens(engine, tracer, exporter):
    engine.stop()
    with torchspan.batch(requests_of(tracer, 2)):
        assert trace.get_current_span() is trace.INVALID_SPAN
    assert exporter.get_finished_spans() == ()


@pytest.mark.parametrize(("wrong", "kind"), [(None, "NoneType"), ("00-0af7-01", "str"), ({}, "dict")])
def test_what_is_not_a_request_is_a_type_error_that_says_where(tracer, wrong, kind):
    with pytest.raises(TypeError) as caught:
        torchspan.batch([*requests_of(tracer, 2), wrong])
    assert str(caught.value) == (
        f"batch() takes spans, span contexts or contexts; requests[2] is a {kind}. Keep "
        "opentelemetry.context.get_current() with each request."
    )
