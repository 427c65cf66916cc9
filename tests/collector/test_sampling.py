# SPDX-License-Identifier: Apache-2.0
"""`sampling.yaml`: which traces are kept, and that they are kept whole."""

from collections import Counter

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from support import backends, bridge, otlp, scraped
from support.receiver import Receiver
from torchspan import TorchspanInstrumentor

pytestmark = [pytest.mark.needs("otelcol-torchspan"), pytest.mark.slow]

RUN, KEEP = "torch_tensorrt.execute", {"torchspan.keep": True}
QUEUED = "otelcol_exporter_queue_size"
DECISIONS = "otelcol_processor_tail_sampling_global_count_traces_sampled"


@pytest.fixture
def backend():
    with Receiver() as receiver:
        yield receiver


@pytest.fixture
def start(backend):
    """A Collector that decides after a second; environment: variables."""

    def start(*layers, data=None, **environment):
        variables = {"TORCHSPAN_OTLP_ENDPOINT": backend.url, "TORCHSPAN_DECISION_WAIT": "1s", **environment}
        return backends.collector("base.yaml", "sampling.yaml", *layers, environment=variables, data=data)

    return start


def decided(collector, count):
    """Its own metrics, once so many traces are decided."""
    return scraped.wait_for(collector.own_metrics, lambda found: scraped.total(found, DECISIONS) == count)


def kept_of(own):
    """How many traces it decided to keep."""
    return scraped.total(own, DECISIONS, sampled="true")


# --- a thousand traces --------------------------------------------------------------------------------------------


def request_around(made, *children, **fields):
    """A trace of one request. children: (name, duration in ms, attributes, other fields) of each."""
    trace_id = made.trace()
    root = otlp.make_span(made, "POST /predict", trace_id, duration_ms=20, **fields)
    return [
        root,
        *(
            otlp.make_span(made, name, trace_id, parent=root, duration_ms=duration_ms, attributes=attributes, **more)
            for name, duration_ms, attributes, more in children
        ),
    ]


def with_event(name):
    event = Span.Event(name=name, time_unix_nano=otlp.START_NS)
    return {"events": [event]}


FALLBACK = {"torch_tensorrt.fallback.reason_classes": ["no_converter"]}
KINDS = {
    # kind: (how many, what each consists of, how many of them are kept)
    "compilation": (40, [("torch_tensorrt.compile", 9000, KEEP, {}), ("tensorrt.build_engine", 5000, KEEP, {})], 40),
    "progress of a compilation": (10, [("torchspan.progress", 0, KEEP, {})], 10),
    "error": (30, [(RUN, 2, {}, {"status": otlp.ERROR})], 30),
    "exception that was handled": (20, [(RUN, 2, {}, with_event("exception"))], 20),
    "fallback": (20, [("torch_tensorrt.partition", 2, FALLBACK, {})], 20),
    "slow run": (40, [(RUN, 2, {}, {}), (RUN, 251, {}, {})], 40),
    "slow run of a context": (20, [("tensorrt.execute", 251, {}, {})], 20),
    "slow run without a span": (20, [("model", 900, {f"{RUN}.folded.duration.max": 0.251}, {})], 20),
    # The rest, of which one in a hundred is kept; these trace ids decide which.
    "run below the threshold": (300, [(RUN, 249, {}, {}), (RUN, 250, {}, {})], 1),
    "runs below the threshold without spans": (100, [("model", 900, {f"{RUN}.folded.duration.max": 0.25}, {})], 1),
    "slow work of the program": (200, [("SELECT", 30_000, {}, {})], 0),
    "another event": (100, [(RUN, 2, {}, with_event("message"))], 1),
    "not to be kept by name": (50, [("torch_tensorrt.execute_later", 900, {}, {})], 1),
    "keep that is false": (50, [(RUN, 2, {"torchspan.keep": False}, {})], 1),
}


def test_of_a_thousand_mixed_traces_those_are_kept_that_it_names_and_a_hundredth_of_the_rest(start, backend):
    made = otlp.Ids(14)
    kind_of, sent = {}, []
    for kind, (count, children, _) in KINDS.items():
        for _ in range(count):
            spans = request_around(made, *children)
            kind_of[spans[0].trace_id.hex()] = kind
            sent.append(spans)
    assert len(sent) == 1000
    kept = sum(count for _, _, count in KINDS.values())
    with start(TORCHSPAN_KEEP_PERCENT="1") as collector:
        for first in range(0, 1000, 100):
            otlp.send(collector.http, [span for spans in sent[first : first + 100] for span in spans])
        own = decided(collector, 1000)
        assert (kept_of(own), scraped.total(own, DECISIONS, sampled="false")) == (kept, 1000 - kept)
        spans = sum(1 + len(children) for _, children, count in KINDS.values() for _ in range(count))
        backend.wait_for(lambda receiver: len(receiver.spans()) >= spans)
        assert collector.complaints() == []
    arrived = otlp.plain(backend.messages())
    by_trace = Counter(kind_of[trace_id] for trace_id in {span.trace_id for span in backend.spans()})
    assert by_trace == Counter({kind: count for kind, (_, _, count) in KINDS.items() if count})
    # Whole, unchanged, and each span once.
    of_kept = {span.trace_id for span in backend.spans()}
    assert arrived == otlp.plain(
        [otlp.request([span for spans in sent for span in spans if span.trace_id.hex() in of_kept])]
    )
    assert len(backend.spans()) == len(arrived)


def test_the_threshold_of_slow_runs_is_set_by_a_variable(start, backend):
    made = otlp.Ids(1)
    traces = [request_around(made, (RUN, duration_ms, {}, {})) for duration_ms in (4, 6)]
    with start(TORCHSPAN_SLOW_RUN="5ms", TORCHSPAN_KEEP_PERCENT="0") as collector:
        otlp.send(collector.http, [span for spans in traces for span in spans])
        assert kept_of(decided(collector, 2)) == 1
        backend.wait_for(lambda receiver: receiver.spans())
    assert {span.trace_id for span in backend.spans()} == {traces[1][0].trace_id.hex()}


@pytest.mark.parametrize(("percent", "kept"), [("0", 0), ("100", 50), ("50", 22)])
def test_the_share_of_the_rest_is_set_by_a_variable(start, backend, percent, kept):
    made = otlp.Ids(2)
    with start(TORCHSPAN_KEEP_PERCENT=percent) as collector:
        otlp.send(collector.http, [request_around(made)[0] for _ in range(50)])
        assert kept_of(decided(collector, 50)) == kept
        backend.wait_for(lambda receiver: len(receiver.spans()) == kept)


# --- traces that arrive in pieces ---------------------------------------------------------------------------------


def test_spans_that_arrive_after_a_trace_was_kept_are_kept(start, backend):
    made = otlp.Ids(3)
    trace_id = made.trace()
    request = otlp.make_span(made, "POST /predict", trace_id)
    compilation = otlp.make_span(made, "torch_tensorrt.compile", trace_id, parent=request, attributes=KEEP)
    progress = otlp.make_span(made, "torchspan.progress", trace_id, parent=compilation, attributes=KEEP)
    with start(TORCHSPAN_KEEP_PERCENT="0") as collector:
        for spans, count in (([progress], 1), ([compilation], 2), ([request], 3)):
            otlp.send(collector.http, spans)
            backend.wait_for(lambda receiver, count=count: len(receiver.spans()) == count)
    assert otlp.plain(backend.messages()) == otlp.plain([otlp.request([request, compilation, progress])])


def test_an_error_that_arrives_after_its_trace_and_another_were_dropped_is_kept(start, backend):
    made = otlp.Ids(4)
    trace_id = made.trace()
    first = otlp.make_span(made, "SELECT", trace_id)
    failed = otlp.make_span(made, "POST /predict", trace_id, status=otlp.ERROR)
    with start(TORCHSPAN_KEEP_PERCENT="0") as collector:
        otlp.send(collector.http, [first])
        decided(collector, 1)
        otlp.send(collector.http, [otlp.make_span(made, "SELECT", made.trace())])
        decided(collector, 2)
        otlp.send(collector.http, [failed])
        backend.wait_for(lambda receiver: receiver.spans())
        decided(collector, 3)
    assert [span.name for span in backend.spans()] == ["POST /predict"]


def test_spans_of_a_dropped_trace_are_lost_until_another_is_dropped_and_kept_from_then_on(start, backend):
    """The loss of a Collector that drops nothing else meanwhile; one that keeps all (100 %) has none."""
    made = otlp.Ids(9)
    trace_id = made.trace()
    compilation = otlp.make_span(made, "torch_tensorrt.compile", trace_id, attributes=KEEP)
    progress = otlp.make_span(made, "torchspan.progress", trace_id, parent=compilation, attributes=KEEP)
    with start(TORCHSPAN_KEEP_PERCENT="0") as collector:
        otlp.send(collector.http, [otlp.make_span(made, "SELECT", trace_id)])
        decided(collector, 1)
        otlp.send(collector.http, [progress])
        otlp.send(collector.http, [otlp.make_span(made, "SELECT", made.trace())])
        decided(collector, 2)
        otlp.send(collector.http, [compilation])
        decided(collector, 3)
        backend.wait_for(lambda receiver: receiver.spans())
    assert [span.name for span in backend.spans()] == ["torch_tensorrt.compile"]


def test_a_request_whose_compilation_outlasts_the_decision_arrives_whole(start, backend):
    """The real bridge: its progress spans are there when the trace is decided, long before any other span of it."""
    with start(TORCHSPAN_KEEP_PERCENT="0") as collector:
        provider = TracerProvider(shutdown_on_exit=False)
        exporter = OTLPSpanExporter(endpoint=f"{collector.http}/v1/traces")
        provider.add_span_processor(BatchSpanProcessor(exporter))
        TorchspanInstrumentor().instrument(tracer_provider=provider, heartbeat="0.2")
        try:
            tracer = provider.get_tracer("app")
            with tracer.start_as_current_span("POST /predict"), bridge.compiling("Net"):
                decided(collector, 1)
                backend.wait_for(lambda receiver: receiver.spans())
                assert {span.name for span in backend.spans()} == {"torchspan.progress"}
        finally:
            TorchspanInstrumentor().uninstrument()
        provider.shutdown()
        backend.wait_for(lambda receiver: any(span.name == "POST /predict" for span in receiver.spans()))
        assert scraped.total(scraped.read(collector.own_metrics), DECISIONS, sampled="false") == 0
        assert collector.complaints() == []
    spans = backend.spans()
    (request,) = [span for span in spans if span.name == "POST /predict"]
    (work,) = [span for span in spans if span.name == "torch_tensorrt.compile"]
    assert (request.parent_id, work.parent_id) == ("", request.span_id)
    assert {span.parent_id for span in spans if span.name == "torchspan.progress"} == {work.span_id}
    assert len({span.trace_id for span in spans}) == 1


def test_more_traces_than_can_wait_are_dropped_without_a_decision_and_counted(start, backend):
    too_early = "otelcol_processor_tail_sampling_sampling_trace_dropped_too_early"
    made = otlp.Ids(8)
    with start(TORCHSPAN_TRACES="20") as collector:
        otlp.send(collector.http, [span for _ in range(30) for span in request_around(made, (RUN, 2, KEEP, {}))])
        scraped.wait_for(collector.own_metrics, lambda found: scraped.total(found, too_early) == 10)
        backend.wait_for(lambda receiver: len(receiver.spans()) == 40)
        assert kept_of(decided(collector, 20)) == 20
    assert len({span.trace_id for span in backend.spans()}) == 20


# --- the end of the Collector -------------------------------------------------------------------------------------


def test_a_collector_that_is_asked_to_end_decides_what_it_holds(start, backend, tmp_path):
    made = otlp.Ids(5)
    kept, dropped = request_around(made, (RUN, 2, KEEP, {})), request_around(made, (RUN, 2, {}, {}))
    waiting = {"TORCHSPAN_KEEP_PERCENT": "0", "TORCHSPAN_DECISION_WAIT": "1h"}
    with start(data=tmp_path, **waiting) as collector:
        otlp.send(collector.http, [*kept, *dropped])
        assert collector.stop() == 0
        assert collector.complaints() == []
    with start(data=tmp_path, **waiting):  # what it did not send any more is in the queue
        backend.wait_for(lambda receiver: len(receiver.spans()) >= 2)
    assert otlp.plain(backend.messages()) == otlp.plain([otlp.request(kept)])


def test_a_collector_that_is_killed_loses_the_traces_that_were_not_decided_and_no_others(start, backend, tmp_path):
    made = otlp.Ids(6)
    decided_ones = [request_around(made, (RUN, 2, KEEP, {})) for _ in range(20)]
    undecided = [request_around(made, (RUN, 2, KEEP, {})) for _ in range(7)]
    backend.status = 503
    with start(data=tmp_path) as collector:
        otlp.send(collector.http, [span for spans in decided_ones for span in spans])
        decided(collector, 20)
        scraped.wait_for(collector.own_metrics, lambda found: scraped.total(found, QUEUED) > 0)
        otlp.send(collector.http, [span for spans in undecided for span in spans])
        collector.kill()
    backend.status = 200
    with start(data=tmp_path) as collector:
        backend.wait_for(lambda receiver: len(receiver.spans()) == 40)
        collector.stop()
    arrived = {span.trace_id for span in backend.spans()}
    assert arrived == {spans[0].trace_id.hex() for spans in decided_ones}
    assert len(backend.spans()) == 40
