# SPDX-License-Identifier: Apache-2.0
"""`base.yaml`: what arrives leaves unchanged, with headers and over TLS; metrics are there for Prometheus."""

import ssl

import pytest
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcSpanExporter
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from support import backends, otlp, scraped
from support.receiver import Receiver

pytestmark = pytest.mark.needs("otelcol-torchspan")


def a_trace(seed=1, **fields):
    made = otlp.Ids(seed)
    trace_id = made.trace()
    root = otlp.make_span(made, "torch_tensorrt.compile", trace_id, duration_ms=1500, **fields)
    return [root, otlp.make_span(made, "tensorrt.build_engine", trace_id, parent=root)]


def through(backend, *layers, **environment):
    return backends.collector("base.yaml", *layers, environment={"TORCHSPAN_OTLP_ENDPOINT": backend.url, **environment})


def test_every_part_of_a_span_arrives_as_it_was_sent():
    sent = otlp.with_every_part()
    with Receiver() as backend, through(backend) as collector:
        assert otlp.post(collector.http, sent) == 200
        backend.wait_for(lambda receiver: len(receiver.spans()) == 2)
        assert otlp.plain(backend.messages()) == otlp.plain([sent])


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_the_sdks_exporters_reach_it_by_grpc_and_by_http(protocol):
    ended = InMemorySpanExporter()
    with Receiver() as backend, through(backend) as collector:
        exporter = (
            GrpcSpanExporter(endpoint=collector.grpc, insecure=True)
            if protocol == "grpc"
            else OTLPSpanExporter(endpoint=f"{collector.http}/v1/traces")
        )
        provider = TracerProvider(shutdown_on_exit=False)
        for each in (exporter, ended):
            provider.add_span_processor(SimpleSpanProcessor(each))
        with provider.get_tracer("app").start_as_current_span("outer"):
            provider.get_tracer("app").start_span("inner").end()
        backend.wait_for(lambda receiver: len(receiver.spans()) == 2)
        provider.shutdown()
        assert {span.span_id: (span.name, span.start_ns, span.end_ns) for span in backend.spans()} == {
            f"{span.context.span_id:016x}": (span.name, span.start_time, span.end_time)
            for span in ended.get_finished_spans()
        }


def headers_of(request):
    lines = [line.partition(": ") for line in request[1].splitlines() if line]
    return {name.lower(): value for name, _, value in lines}


def test_headers_are_sent_as_given():
    given = "{X-Scope-OrgID: research, Authorization: Bearer a:b=}"
    with Receiver() as backend, through(backend, TORCHSPAN_HEADERS=given) as collector:
        otlp.send(collector.http, a_trace())
        backend.wait_for(lambda receiver: receiver.bodies)
        headers = headers_of(backend.bodies[0])
        assert (headers["x-scope-orgid"], headers["authorization"]) == ("research", "Bearer a:b=")
        assert "Bearer" not in "\n".join(collector.log())


def test_without_headers_there_are_none_of_their_names():
    with Receiver() as backend, through(backend) as collector:
        otlp.send(collector.http, a_trace())
        backend.wait_for(lambda receiver: receiver.bodies)
        assert not {"x-scope-orgid", "authorization"} & headers_of(backend.bodies[0]).keys()


def server_context(certificates, *, asks_for_client):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / "server.pem", certificates / "server.key")
    if asks_for_client:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(certificates / "ca.pem")
    return context


def test_a_backend_with_a_certificate_of_an_own_authority_is_trusted(certificates):
    with (
        Receiver(tls=server_context(certificates, asks_for_client=False)) as backend,
        through(backend, TORCHSPAN_CA_FILE=str(certificates / "ca.pem")) as collector,
    ):
        otlp.send(collector.http, a_trace())
        backend.wait_for(lambda receiver: len(receiver.spans()) == 2)
        assert collector.complaints() == []


def test_a_backend_that_asks_for_a_certificate_gets_the_clients(certificates):
    with (
        Receiver(tls=server_context(certificates, asks_for_client=True)) as backend,
        through(
            backend,
            TORCHSPAN_CA_FILE=str(certificates / "ca.pem"),
            TORCHSPAN_CERT_FILE=str(certificates / "client.pem"),
            TORCHSPAN_KEY_FILE=str(certificates / "client.key"),
        ) as collector,
    ):
        otlp.send(collector.http, a_trace())
        backend.wait_for(lambda receiver: len(receiver.spans()) == 2)


def test_a_backend_whose_certificate_is_not_trusted_gets_nothing_and_the_log_says_why(certificates):
    with Receiver(tls=server_context(certificates, asks_for_client=False)) as backend, through(backend) as collector:
        otlp.send(collector.http, a_trace())
        otlp.wait_until(lambda: any("certificate signed by unknown authority" in line for line in collector.log()))
        assert backend.spans() == []


def meters(collector, instance, resource=None):
    exporter = OTLPMetricExporter(endpoint=f"{collector.http}/v1/metrics")
    reader = PeriodicExportingMetricReader(exporter, export_interval_millis=3_600_000)
    attributes = {"service.name": "app", "service.instance.id": instance, **(resource or {})}
    return MeterProvider([reader], resource=Resource(attributes), shutdown_on_exit=False)


def test_metrics_of_programs_are_where_prometheus_reads():
    with backends.collector("base.yaml") as collector:
        for instance, count in (("a", 3), ("b", 4)):
            provider = meters(collector, instance)
            counter = provider.get_meter("torchspan").create_counter(
                "torch_tensorrt.compilations", unit="{compilation}"
            )
            counter.add(count, {"torchspan.while_serving": False})
            provider.shutdown()
        name = "torch_tensorrt_compilations_total"
        samples = scraped.wait_for(
            collector.metrics, lambda found: len([each for each in found if each.name == name]) == 2
        )
        assert {each.labels["instance"]: each.value for each in samples if each.name == name} == {"a": 3, "b": 4}
        assert {each.labels["job"] for each in samples if each.name == name} == {"app"}
        assert {each.labels["torchspan_while_serving"] for each in samples if each.name == name} == {"false"}
        assert collector.complaints() == []


def test_its_own_metrics_count_what_was_accepted_and_sent():
    with Receiver() as backend, through(backend) as collector:
        for seed in range(3):
            otlp.send(collector.http, a_trace(seed))
        backend.wait_for(lambda receiver: len(receiver.spans()) == 6)
        samples = scraped.wait_for(
            collector.own_metrics,
            lambda found: (
                scraped.total(found, "otelcol_exporter_sent_spans") == 6
                and scraped.total(found, "otelcol_exporter_queue_size") == 0
            ),
        )
        assert scraped.total(samples, "otelcol_receiver_accepted_spans") == 6
        assert scraped.total(samples, "otelcol_receiver_refused_spans") == 0
