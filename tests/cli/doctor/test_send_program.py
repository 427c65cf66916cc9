# SPDX-License-Identifier: Apache-2.0
"""What the process of `torchspan doctor --send` reports, with set-ups that a test makes in this process."""

from importlib.metadata import version

import grpc
import pytest
import requests
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.grpc import exporter as grpc_exporter
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.instrumentation import auto_instrumentation
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider, export
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, TraceIdRatioBased

from support import hostile_endpoints as hostile
from support.hostile_endpoints import Endpoint, GrpcEndpoint, http
from support.receiver import GrpcReceiver, Receiver
from torchspan.cli.doctor import _send_program as program
from torchspan.sdk import FileSpanExporter

EXPORTER = tuple(map(int, version("opentelemetry-exporter-otlp-proto-http").split(".")[:2]))


@pytest.fixture
def sent(monkeypatch):
    """The report where OpenTelemetry's own start makes a provider with these exporters, each made by a call."""
    for holder, name in (
        (export.BatchSpanProcessor, "__init__"),
        (export.SimpleSpanProcessor, "__init__"),
        (requests.Session, "send"),
        (grpc, "insecure_channel"),
        (grpc, "secure_channel"),
    ):
        monkeypatch.setattr(holder, name, getattr(holder, name))  # restore at the end

    def send(*exporters, processor=export.SimpleSpanProcessor, **options):
        made = []

        def initialize(*, swallow_exceptions):
            assert not swallow_exceptions
            monkeypatch.setattr(grpc_exporter, "insecure_channel", grpc.insecure_channel)  # it may be imported already
            provider = TracerProvider(shutdown_on_exit=False, **options)
            for exporter in exporters:
                provider.add_span_processor(processor(exporter()))
            monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
            made.append(provider)

        monkeypatch.setattr(auto_instrumentation, "initialize", initialize)
        report = program._send()
        made[0].shutdown()
        return report

    return send


def exported(report):
    (found,) = report["exports"]
    return found["answer"], found["is_delivered"]


def to_http(port):
    return lambda: HttpExporter(endpoint=f"http://127.0.0.1:{port}/v1/traces", timeout=1)


def to_grpc(port):
    return lambda: GrpcExporter(endpoint=f"http://127.0.0.1:{port}", timeout=1)


def test_a_delivered_span_is_one_root_and_its_answer_is_reported(sent):
    with Receiver() as receiver:
        report = sent(
            lambda: HttpExporter(endpoint=f"{receiver.url}/v1/traces"), resource=Resource({"service.name": "checkout"})
        )
        (span,) = receiver.spans()

    assert exported(report) == ("HTTP 200 OK", True)
    assert {name: value for name, value in report.items() if name != "exports"} == {
        "trace_id": span.trace_id,
        "service": "checkout",
        "provider": "opentelemetry.sdk.trace.TracerProvider",
        "is_set": True,
        "is_sdk": True,
        "is_enabled": True,
        "is_sampled": True,
        "attempts": 1,
        "failure": "",
    }


def test_a_batch_over_grpc_is_flushed_and_its_answer_is_reported(sent):
    with GrpcReceiver() as receiver:
        report = sent(lambda: GrpcExporter(endpoint=receiver.url), processor=export.BatchSpanProcessor)

        assert len(receiver.spans()) == 1
    assert exported(report) == ("gRPC OK", True)


@pytest.mark.parametrize(
    ("endpoint", "answer"),
    [
        (
            lambda: http("401 Unauthorized", b"no key", content_type="text/plain"),
            "HTTP 401 Unauthorized, 'no key'",
        ),
        (lambda: http("404 Not Found", b"<html>", content_type="text/html"), "HTTP 404 Not Found"),
        (
            lambda: http("302 Found", location="http://login.invalid"),
            "HTTP 302 Found, which the exporter counts as delivered"
            if EXPORTER >= (1, 45)
            else "no answer: Name or service not known (8 attempts)",  # it followed redirects
        ),
        (
            lambda: http("200 OK", b"<html>", content_type="text/html"),
            "HTTP 200 OK with text/html, no answer of an OTLP endpoint, which the exporter counts as delivered",
        ),
        (lambda: GrpcEndpoint("UNAUTHENTICATED", "no key"), "gRPC UNAUTHENTICATED, 'no key'"),
        (lambda: GrpcEndpoint("INTERNAL"), "gRPC INTERNAL"),
    ],
)
def test_an_answer_that_is_not_a_delivery_is_reported_as_none(sent, endpoint, answer):
    with endpoint() as made:
        report = sent((to_grpc if isinstance(made, GrpcEndpoint) else to_http)(made.port))

    assert exported(report) == (answer, False)


def rejecting():
    answer = ExportTraceServiceResponse()
    answer.partial_success.rejected_spans, answer.partial_success.error_message = 1, "over quota"
    return answer.SerializeToString()


def test_a_span_that_is_rejected_of_an_accepted_request_is_not_a_delivery(sent):
    with http("200 OK", rejecting(), content_type="application/x-protobuf") as endpoint:
        over_http = sent(to_http(endpoint.port))
    with GrpcEndpoint(answer=rejecting()) as endpoint:
        over_grpc = sent(to_grpc(endpoint.port))

    counted = "which the exporter counts as delivered"
    assert exported(over_http) == (f"HTTP 200 OK, with 1 span rejected: 'over quota', {counted}", False)
    assert exported(over_grpc) == (f"gRPC OK, with 1 span rejected: 'over quota', {counted}", False)


def test_no_answer_is_reported_with_its_reason_and_the_number_of_attempts(sent):
    answer, is_delivered = exported(sent(to_http(hostile.closed_port())))

    assert not is_delivered
    assert answer.startswith("no answer: Connection refused (")
    assert answer.endswith(" attempts)")


def test_what_is_not_a_http_at_all_is_not_an_answer(sent):
    with Endpoint(b"\x00\xffgarbage\r\n\r\n") as endpoint:
        answer, is_delivered = exported(sent(to_http(endpoint.port)))

    assert (answer.startswith("no answer: "), is_delivered) == (True, False)


def test_credentials_that_the_endpoint_repeats_are_not_in_the_report(sent, monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20t0ken-89")
    with http("403 Forbidden", b"not t0ken-89", content_type="text/plain") as endpoint:
        over_http = sent(to_http(endpoint.port))
    with GrpcEndpoint("PERMISSION_DENIED", "not t0ken-89") as endpoint:
        over_grpc = sent(to_grpc(endpoint.port))

    assert exported(over_http)[0] == "HTTP 403 Forbidden, 'not ***'"
    assert exported(over_grpc)[0] == "gRPC PERMISSION_DENIED, 'not ***'"


def test_several_exporters_are_reported_each(sent, tmp_path):
    class Silent(SpanExporter):
        def export(self, spans):
            return SpanExportResult.SUCCESS

    class Failing(SpanExporter):
        def export(self, spans):
            return SpanExportResult.FAILURE

    class Raising(SpanExporter):
        def export(self, spans):
            raise KeyError("t0ken-89")

    report = sent(lambda: FileSpanExporter(tmp_path / "trace.jsonl"), Silent, Failing, Raising)

    assert [(each["answer"], each["is_delivered"]) for each in report["exports"]] == [
        (f"written to {tmp_path}/trace.jsonl", True),
        ("taken", True),
        ("FAILURE, without an answer", False),
        ("KeyError, without an answer", False),
    ]


def test_other_spans_that_are_exported_meanwhile_are_not_reported(sent):
    class Silent(SpanExporter):
        def export(self, spans):
            return SpanExportResult.SUCCESS

    watching = program._Exports()
    watching.watch()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(export.SimpleSpanProcessor(Silent()))
    provider.get_tracer("other").start_span("other").end()

    assert watching.seen == []


def test_a_sampler_is_asked_until_it_lets_one_pass(sent):
    report = sent(export.ConsoleSpanExporter, sampler=TraceIdRatioBased(0.05))

    assert (report["is_sampled"], len(report["exports"])) == (True, 1)
    assert sent(sampler=ALWAYS_OFF)["attempts"] == 10_000


def test_without_a_provider_the_report_names_it(monkeypatch, sent):
    def failing(*, swallow_exceptions):
        raise RuntimeError("Requested component 'otpl' not found")

    proxy = trace.ProxyTracerProvider()
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: proxy)
    monkeypatch.setattr(auto_instrumentation, "initialize", failing)
    report = program._send()

    assert (report["is_set"], report["is_sdk"], report["is_enabled"]) == (False, False, False)
    assert report["failure"] == "RuntimeError: Requested component 'otpl' not found"
