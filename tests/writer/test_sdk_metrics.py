# SPDX-License-Identifier: Apache-2.0
"""The SDK's own metrics of spans: those it loses, on which an alert and a panel are built, and those the page compares."""

import re
import threading
from pathlib import Path

import pytest

pytest.importorskip("opentelemetry.exporter.otlp", reason="no exporter is installed")
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from support.engines import extend
from support.hostile_endpoints import closed_port
from torchspan import phase
from torchspan.engine import Engine
from torchspan.output.writer import SpanWriter

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "metrics.md"


class Blocked(SpanExporter):
    """An exporter that is in `export` until a test lets it continue."""

    def __init__(self):
        self.entered, self.released = threading.Event(), threading.Event()

    def export(self, spans):
        self.entered.set()
        assert self.released.wait(60)
        return SpanExportResult.SUCCESS


@pytest.fixture
def lost(monkeypatch):
    """The meter provider of an SDK that measures itself, and what reads (error type, count) of a metric."""
    monkeypatch.setenv("OTEL_PYTHON_SDK_INTERNAL_METRICS_ENABLED", "true")
    reader = InMemoryMetricReader()
    meters = MeterProvider([reader], shutdown_on_exit=False)

    def read(name):
        points = [
            point
            for of_resource in reader.get_metrics_data().resource_metrics
            for scope in of_resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        ]
        return {point.attributes["error.type"]: point.value for point in points if "error.type" in point.attributes}

    return meters, read


def compilations(provider, count):
    engine = Engine()
    extend(engine, SpanWriter(provider))
    for _ in range(count):
        engine.close(engine.open(phase.COMPILE, {}))


@pytest.mark.fault(
    "exporters", "is slower than the program", lost="3 spans", counted="otel.sdk.processor.span.processed"
)
def test_a_queue_that_overflows_is_counted(lost):
    meters, read = lost
    exporter = Blocked()
    processor = BatchSpanProcessor(exporter, max_queue_size=2, max_export_batch_size=1, meter_provider=meters)
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(processor)
    compilations(provider, 1)
    assert exporter.entered.wait(60)
    compilations(provider, 5)
    assert read("otel.sdk.processor.span.processed") == {"queue_full": 3}
    exporter.released.set()
    provider.shutdown()


def test_an_endpoint_that_is_dead_is_counted(lost):
    meters, read = lost
    exporter = OTLPSpanExporter(f"http://127.0.0.1:{closed_port()}/v1/traces", timeout=1, meter_provider=meters)
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=600_000, meter_provider=meters))
    compilations(provider, 4)
    provider.force_flush()
    assert sum(read("otel.sdk.exporter.span.exported").values()) == 4
    provider.shutdown()


def test_the_page_of_metrics_compares_every_metric_that_the_sdk_has_of_spans(monkeypatch):
    monkeypatch.setenv("OTEL_PYTHON_SDK_INTERNAL_METRICS_ENABLED", "true")
    reader = InMemoryMetricReader()
    meters = MeterProvider([reader], shutdown_on_exit=False)
    exporter = OTLPSpanExporter(f"http://127.0.0.1:{closed_port()}/v1/traces", timeout=1, meter_provider=meters)
    provider = TracerProvider(shutdown_on_exit=False, meter_provider=meters)
    provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=600_000, meter_provider=meters))
    compilations(provider, 1)
    provider.force_flush()
    scopes = reader.get_metrics_data().resource_metrics[0].scope_metrics
    compared = set(re.findall(r"`(otel\.sdk\.[a-z._]+)`", PAGE.read_text(encoding="utf-8")))
    assert compared == {metric.name for scope in scopes for metric in scope.metrics}
    provider.shutdown()
