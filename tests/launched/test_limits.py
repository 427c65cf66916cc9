# SPDX-License-Identifier: Apache-2.0
"""Below `torchspan run` all roots share the run's trace: limits count for each of them, as for a trace of its own."""

from collections import Counter

import pytest
from opentelemetry import context as context_api
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.trace import SpanKind

from support.engines import extend
from torchspan import phase
from torchspan.engine import Engine, Placement, RateLimits, RunSampling, Verdict
from torchspan.output.writer import SpanParents, SpanWriter
from torchspan.start.launched.provider import OwnTracers
from torchspan.start.launched.run_settings import RunSettings

RUN = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
SETTINGS = RunSettings("1" * 16, "/x.jsonl", "/reports", RUN, 0, 2.0)
RUN_TRACE, RUN_SPAN = (int(RUN.split("-")[index], 16) for index in (1, 2))


@pytest.fixture
def own(exporter, monkeypatch):
    """The tracers of `run`'s own provider, whose spans arrive in `exporter`."""
    for name in ("TRACEPARENT", "OTEL_TRACES_SAMPLER"):
        monkeypatch.delenv(name, raising=False)
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return OwnTracers(SETTINGS, provider)


@pytest.fixture
def users(own):
    """The program's tracer."""
    return own.get("user", None, None, None)


@pytest.fixture
def engine(own):
    """An engine whose spans go to `run`'s own provider, three for each trace."""
    engine = Engine()
    writer = SpanWriter(spans_per_trace=3, tracer_of=lambda _provider, *named: own.get(*named, None))
    extend(engine, writer)
    return engine


def work(engine, pieces):
    for _ in range(pieces):
        engine.close(engine.open(phase.COMPILE, {}))


def below(exporter):
    """user's outermost span -> number of torchspan's spans at or below it."""
    spans = {span.context.span_id: span for span in exporter.get_finished_spans()}

    def outermost(span):
        return span if span.parent.span_id not in spans else outermost(spans[span.parent.span_id])

    assert {span.context.trace_id for span in spans.values()} == {RUN_TRACE}
    return Counter(outermost(span).name for span in spans.values() if span.instrumentation_scope.name == "torchspan")


def test_each_request_of_a_run_has_the_spans_that_the_first_one_had(engine, users, exporter):
    for number in range(100):
        with users.start_as_current_span(f"request {number}"):
            work(engine, 5)
    assert below(exporter) == {f"request {number}": 3 for number in range(100)}


def test_spans_of_others_in_between_do_not_begin_again(engine, users, exporter):
    with users.start_as_current_span("request"):
        for _ in range(4):
            with users.start_as_current_span("middleware"), users.start_as_current_span("predict"):
                work(engine, 1)
    assert below(exporter) == {"request": 3}


def test_torchspans_own_roots_count_for_themselves(engine, exporter):
    for _ in range(5):
        compilation = engine.open(phase.COMPILE, {})
        for _ in range(3):
            engine.close(engine.open(phase.CONVERT, {}, placement=Placement(compilation)))
        engine.close(compilation)
    assert Counter(span.name for span in exporter.get_finished_spans()) == {
        "torch_tensorrt.compile": 5,
        "torch_tensorrt.convert": 10,
    }


def test_work_in_another_thread_counts_for_the_request_that_it_belongs_to(engine, users, exporter):
    with users.start_as_current_span("request"):
        context = context_api.get_current()
    for _ in range(2):
        token = context_api.attach(context)
        with users.start_as_current_span("later"):
            work(engine, 2)
        context_api.detach(token)
    assert below(exporter) == {"request": 3}


def test_a_request_of_a_server_is_a_trace_of_its_own_as_without_run(engine, users, exporter):
    for _ in range(2):
        with users.start_as_current_span("request", kind=SpanKind.SERVER):
            work(engine, 5)
    spans = exporter.get_finished_spans()
    assert len({span.context.trace_id for span in spans} - {RUN_TRACE}) == 2
    assert Counter(span.instrumentation_scope.name for span in spans) == {"user": 2, "torchspan": 6}


def test_which_runs_are_spans_does_not_depend_on_the_runs_span(users):
    policy, parents = RunSampling(RateLimits()), SpanParents()
    recorded = []
    for _ in range(3):
        with users.start_as_current_span("request"):
            around = parents.look(parents.context())
            # Each has a second of its own, so that the limit of a trace alone counts.
            engines = [type("Engine", (), {})() for _ in range(60)]
            verdicts = [policy.decide(engine, around).verdict for engine in engines]
            recorded.append(verdicts.count(Verdict.RECORD))
    parents.close()
    assert recorded == [50, 50, 50]


def test_roots_lie_below_the_runs_span(users, exporter):
    users.start_span("request").end()
    (span,) = exporter.get_finished_spans()
    assert (span.context.trace_id, span.parent.span_id) == (RUN_TRACE, RUN_SPAN)
    assert trace.get_current_span() is trace.INVALID_SPAN
