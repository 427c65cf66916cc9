# SPDX-License-Identifier: Apache-2.0
"""`file.yaml`: what torchspan's file exporter wrote arrives as if the program had sent it."""

import pytest
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Link, SpanContext, Status, StatusCode, TraceFlags, TraceState

from support import backends, otlp, scraped
from support.engines import extend
from support.receiver import Receiver
from torchspan import phase
from torchspan.engine import Engine
from torchspan.output.writer import SpanWriter
from torchspan.sdk import FileSpanExporter, RunFileProcessor
from torchspan.words import semconv
from torchspan.words.redaction import messages

REFUSED, ACCEPTED = (f"otelcol_receiver_{name}_spans" for name in ("refused", "accepted"))

pytestmark = pytest.mark.needs("otelcol-torchspan")


@pytest.fixture
def live():
    """What programs send."""
    with Receiver() as receiver:
        yield receiver


@pytest.fixture
def backend():
    """What the Collector sends."""
    with Receiver() as receiver:
        yield receiver


@pytest.fixture
def start(backend, tmp_path):
    def start(*layers, data=None):
        return backends.collector(
            "base.yaml",
            "file.yaml",
            *layers,
            environment={"TORCHSPAN_OTLP_ENDPOINT": backend.url, "TORCHSPAN_FILES": f"{tmp_path}/*.jsonl"},
            data=data,
        )

    return start


def program(path, live=None, *, resource=None):
    """A tracer whose spans go to a file and, where `live` is given, to it as well; and the provider to shut down."""
    provider = TracerProvider(resource=Resource(resource or {"service.name": "app"}), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(FileSpanExporter(path)))
    if live is not None:
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=f"{live.url}/v1/traces")))
    return provider.get_tracer("torchspan", "1.2", "https://example.org/schema"), provider


def work(tracer):
    """Spans with each part that the SDK's spans may have."""
    attributes = {
        "text": 'Krol ☃ \u2028 "quoted" \\',
        "empty": "",
        "yes": True,
        "large": 2**62,
        "negative": -1,
        "double": 0.1,
        "small": 5e-324,
        "whole": 3.0,
        "not a number": float("nan"),
        "infinite": float("-inf"),
        "texts": ["a", "b"],
        "none": [],
        "numbers": [1, 2],
    }
    elsewhere = SpanContext(0xA, 0xB, is_remote=True, trace_flags=TraceFlags(1), trace_state=TraceState([("a", "b")]))
    with tracer.start_as_current_span(
        "torch_tensorrt.compile", attributes=attributes, links=[Link(elsewhere, {"c": 1})]
    ):
        with tracer.start_as_current_span("tensorrt.build_engine") as build:
            build.add_event("exception", {"exception.type": "RuntimeError"})
            build.set_status(Status(StatusCode.ERROR, "no engine"))
        with tracer.start_as_current_span("request", kind=trace.SpanKind.SERVER) as request:
            request.set_status(Status(StatusCode.OK))


def test_a_file_that_is_replayed_equals_what_was_sent_live(start, backend, live, tmp_path):
    tracer, provider = program(tmp_path / "traces.jsonl", live)
    work(tracer)
    provider.shutdown()
    live.wait_for(lambda receiver: len(receiver.spans()) == 3)
    with start() as collector:
        backend.wait_for(lambda receiver: len(receiver.spans()) == 3)
        assert collector.complaints() == []
    assert otlp.plain(backend.messages()) == otlp.plain(live.messages())


SENTENCE = "the patient has pain in the left hand"


def test_whole_texts_in_the_file_of_a_run_do_not_arrive(start, backend, tmp_path):
    path = tmp_path / "run.jsonl"
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(RunFileProcessor(path, "0123456789abcdef"))
    engine = Engine()
    extend(engine, SpanWriter(provider, capture="local"))
    event = engine.open(phase.PARSE, {semconv.MODEL_SIZE: 4711})
    event.additions[semconv.PARSER_ERROR] = messages.of_text(f"Failed to parse ONNX model from file: {SENTENCE}!")
    engine.close(event, ValueError(SENTENCE))
    provider.shutdown()
    assert path.read_text().count(SENTENCE) == 2
    with start() as collector:
        backend.wait_for(lambda receiver: len(receiver.spans()) == 2)
        assert collector.complaints() == []
    (span,) = [span for span in backend.spans() if span.name == "tensorrt.parse"]
    attributes = {key: value for key, value in span.attributes.items() if key != semconv.CPU_THREAD_TIME}
    assert attributes == {
        "tensorrt.parser.model.size": 4711,
        "tensorrt.parser.error": "Failed to parse ONNX model from file: ?!",
        "torchspan.keep": True,
        "error.type": "ValueError",
    }
    assert SENTENCE.encode() not in b"".join(message.SerializeToString() for message in backend.messages())


def test_files_that_are_written_while_it_runs_are_read_on(start, backend, tmp_path):
    with start():
        tracer, provider = program(tmp_path / "traces.jsonl")
        for number in range(1, 4):
            tracer.start_span(f"span {number}").end()
            provider.force_flush()
            backend.wait_for(lambda receiver, number=number: len(receiver.spans()) == number)
        provider.shutdown()
    assert [span.name for span in backend.spans()] == ["span 1", "span 2", "span 3"]


def test_files_of_processes_that_have_much_in_common_are_all_read(start, backend, tmp_path):
    for number in range(3):
        same = {"service.name": "app", **{f"torch.version.{each}": "2.13.0+cu130" * 5 for each in range(40)}}
        tracer, provider = program(tmp_path / f"{number}.jsonl", resource=same)
        tracer.start_span(f"of {number}").end()
        provider.shutdown()
    with start():
        backend.wait_for(lambda receiver: len(receiver.spans()) == 3)
    assert sorted(span.name for span in backend.spans()) == ["of 0", "of 1", "of 2"]


def test_a_line_longer_than_a_mebibyte_is_read_whole(start, backend, tmp_path):
    tracer, provider = program(tmp_path / "traces.jsonl")
    for number in range(40):
        tracer.start_span(f"span {number}", attributes={"text": "x" * 60_000}).end()
    provider.shutdown()
    assert max(map(len, (tmp_path / "traces.jsonl").read_bytes().splitlines())) > 2**20
    with start() as collector:
        backend.wait_for(lambda receiver: len(receiver.spans()) == 40)
        assert collector.complaints() == []


def test_a_collector_that_starts_again_reads_nothing_twice(start, backend, tmp_path):
    tracer, provider = program(tmp_path / "traces.jsonl")
    tracer.start_span("before").end()
    provider.force_flush()
    with start(data=tmp_path / "data") as collector:
        backend.wait_for(lambda receiver: len(receiver.spans()) == 1)
        collector.stop()
    tracer.start_span("after").end()
    provider.shutdown()
    with start(data=tmp_path / "data"):
        backend.wait_for(lambda receiver: len(receiver.spans()) >= 2)
    assert [span.name for span in backend.spans()] == ["before", "after"]


def test_a_line_that_is_not_json_is_left_out_and_the_others_arrive(start, backend, tmp_path):
    tracer, provider = program(tmp_path / "a.jsonl")
    tracer.start_span("whole").end()
    provider.shutdown()
    with (tmp_path / "a.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"resourceSpans": [\n')
    tracer, provider = program(tmp_path / "a.jsonl")
    tracer.start_span("next").end()
    provider.shutdown()
    with start():
        backend.wait_for(lambda receiver: len(receiver.spans()) >= 2)
    assert sorted(span.name for span in backend.spans()) == ["next", "whole"]


def test_what_the_queue_has_no_room_for_is_counted(start, backend, tmp_path):
    queue = {"sizer": "requests", "queue_size": 1, "batch": {"sizer": "items"}}
    small = {"exporters": {"otlp_http/backend": {"sending_queue": queue}}}
    tracer, provider = program(tmp_path / "traces.jsonl")
    for number in range(20):
        tracer.start_span(f"span {number}").end()
        provider.force_flush()
    provider.shutdown()
    backend.status = 503
    with start(small) as collector:
        own = scraped.wait_for(
            collector.own_metrics,
            lambda found: scraped.total(found, REFUSED) + scraped.total(found, ACCEPTED) == 20,
        )
        lost = scraped.total(own, REFUSED)
        assert lost > 0
        backend.status = 200
        backend.wait_for(lambda receiver: len(receiver.spans()) == 20 - lost)
