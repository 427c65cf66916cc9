# SPDX-License-Identifier: Apache-2.0
"""`grpc.yaml`, `push-metrics.yaml` and `debug.yaml`: other ways out of the Collector."""

import pytest
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource

from support import backends, otlp, scraped
from support.receiver import GrpcReceiver, Receiver

pytestmark = pytest.mark.needs("otelcol-torchspan")


def a_span():
    made = otlp.Ids(1)
    return otlp.make_span(made, "torch_tensorrt.compile", made.trace(), attributes={"torchspan.keep": True})


def a_measurement(collector):
    exporter = OTLPMetricExporter(endpoint=f"{collector.http}/v1/metrics")
    reader = PeriodicExportingMetricReader(exporter, export_interval_millis=3_600_000)
    resource = Resource({"service.name": "app", "service.instance.id": "i"})
    provider = MeterProvider([reader], resource=resource, shutdown_on_exit=False)
    provider.get_meter("torchspan").create_counter("torch_tensorrt.compilations").add(3)
    provider.shutdown()


def test_traces_go_out_over_grpc():
    with (
        GrpcReceiver() as backend,
        backends.collector(
            "base.yaml",
            "grpc.yaml",
            environment={
                "TORCHSPAN_OTLP_ENDPOINT": backend.url,
                "TORCHSPAN_INSECURE": "true",
                "TORCHSPAN_HEADERS": "{x-scope-orgid: research}",
            },
        ) as collector,
    ):
        otlp.send(collector.http, [a_span()])
        backend.wait_for(lambda receiver: receiver.spans())
        assert otlp.plain(backend.messages()) == otlp.plain([otlp.request([a_span()])])
        assert "x-scope-orgid" in backend.bodies[0][1]
        assert "research" in backend.bodies[0][1]
        assert collector.complaints() == []


def metric_names(backend):
    return {
        metric.name
        for path, _, _ in backend.bodies
        if path.endswith("/v1/metrics")
        for message in backend.messages()
        for of_resource in message.resource_metrics
        for of_scope in of_resource.scope_metrics
        for metric in of_scope.metrics
    }


def test_metrics_go_out_by_otlp_those_of_programs_and_of_spans():
    with (
        Receiver() as backend,
        backends.collector(
            "base.yaml",
            "metrics.yaml",
            "push-metrics.yaml",
            {"service": {"pipelines": {"traces/out": {"exporters": ["debug"]}}}, "exporters": {"debug": {}}},
            environment={
                "TORCHSPAN_METRICS_ENDPOINT": f"{backend.url}/api/v1/otlp",
                "TORCHSPAN_METRICS_HEADERS": "{Authorization: Bearer abc}",
                "TORCHSPAN_METRICS_FLUSH": "200ms",
            },
        ) as collector,
    ):
        otlp.send(collector.http, [a_span()])
        a_measurement(collector)
        wanted = {"torch_tensorrt.compilations", "traces.span.metrics.calls", "traces.span.metrics.duration"}
        backend.wait_for(lambda receiver: metric_names(receiver) == wanted)
        assert {path for path, _, _ in backend.bodies} == {"/api/v1/otlp/v1/metrics"}
        assert all("Authorization: Bearer abc" in headers for _, headers, _ in backend.bodies)
        # Not there a second time, for a Prometheus that reads.
        with pytest.raises(OSError, match="refused"):
            scraped.read(collector.metrics)
        assert collector.complaints() == []


@pytest.mark.needs("prometheus")
def test_prometheus_takes_them_with_the_labels_that_it_would_read():
    options = ("--web.enable-otlp-receiver",)
    config = {"otlp": {"promote_resource_attributes": ["service.name", "service.instance.id"]}}
    with (
        backends.prometheus(config, *options) as prometheus,
        backends.collector(
            "base.yaml", "push-metrics.yaml", environment={"TORCHSPAN_METRICS_ENDPOINT": prometheus.otlp}
        ) as collector,
    ):
        a_measurement(collector)
        found = scraped.query(prometheus.api, "torch_tensorrt_compilations_total")
        assert [(each["metric"]["job"], each["metric"]["instance"], each["value"][1]) for each in found] == [
            ("app", "i", "3")
        ]
        assert collector.complaints() == []


def test_traces_that_are_kept_are_printed():
    with backends.collector("base.yaml", "debug.yaml") as collector:
        otlp.send(collector.http, [a_span()])
        otlp.wait_until(lambda: any("torch_tensorrt.compile" in line for line in collector.log()))
        assert any("torchspan.keep: Bool(true)" in line for line in collector.log())
