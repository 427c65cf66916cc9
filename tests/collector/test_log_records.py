# SPDX-License-Identifier: Apache-2.0
"""`logs.yaml`, and the Collector's file exporter: log records of events arrive, and every view reads them from its file."""

import pytest
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs import export as logs_export
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from support import backends, log_records
from support.engines import extend
from support.receiver import Receiver, mapping
from torchspan import phase, traces
from torchspan.engine import Engine, Occurrence
from torchspan.output.writer import SpanWriter, event_signals
from torchspan.words import semconv

pytestmark = pytest.mark.needs("otelcol-torchspan")

if not log_records.CAN_EMIT:
    pytest.skip("this version of the SDK has no log records as torchspan writes them", allow_module_level=True)


def to_file(path):
    """A layer over base.yaml and logs.yaml: what leaves goes to a file of OTLP JSON as well."""
    exporters = {"exporters": ["otlp_http/backend", "file"]}
    return {
        "exporters": {"file": {"path": str(path), "format": "json", "flush_interval": "200ms"}},
        "service": {"pipelines": {"traces/out": exporters, "logs/out": exporters}},
    }


def work(url):
    """A build with a line of TensorRT's log and an exception, both log records."""
    provider, logs = TracerProvider(shutdown_on_exit=False), LoggerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(f"{url}/v1/traces")))
    logs.add_log_record_processor(logs_export.SimpleLogRecordProcessor(OTLPLogExporter(f"{url}/v1/logs")))
    engine = Engine()
    extend(engine, SpanWriter(provider, signals=event_signals("logs", "log", logs, capture_text=False)))
    event = engine.open(phase.BUILD_ENGINE, {})
    line = {semconv.LOG_SEVERITY: "ERROR", semconv.LOG_COUNT: 2, semconv.LOG_OUT_OF_MEMORY: False}
    event.occurrences.append(Occurrence(semconv.LOG_EVENT, event.start_ns, line))
    engine.close(event, ValueError("of alice"))
    provider.shutdown()
    logs.shutdown()


def test_records_arrive_at_the_backend_and_are_events_of_their_span_in_the_collectors_file(tmp_path):
    path = tmp_path / "traces.jsonl"
    with Receiver() as backend:
        environment = {"TORCHSPAN_OTLP_ENDPOINT": backend.url}
        with backends.collector("base.yaml", "logs.yaml", to_file(path), environment=environment) as collector:
            work(collector.http)
            backend.wait_for(lambda _: len(arrived(backend)) == 2)
            assert collector.stop() == 0
            assert collector.complaints() == []
        assert arrived(backend) == [
            (
                "tensorrt.log",
                "ERROR",
                {"tensorrt.log.severity": "ERROR", "tensorrt.log.count": 2, "tensorrt.log.out_of_memory": False},
            ),
            ("tensorrt.build_engine.exception", "ERROR", {"exception.type": "ValueError"}),
        ]
    file = traces.read(path)
    (span,) = file.spans
    assert (file.problems, file.spanless) == ([], 0)
    assert [(event.name, event.attributes) for event in span.events] == [
        (
            "tensorrt.log",
            {"tensorrt.log.severity": "ERROR", "tensorrt.log.count": 2, "tensorrt.log.out_of_memory": False},
        ),
        ("exception", {"exception.type": "ValueError"}),
    ]
    assert (span.events[0].time_ns, span.events[1].time_ns) == (span.start_ns, span.end_ns)


def arrived(backend):
    """Name, severity and attributes of torchspan's records, in the order of time."""
    records = [
        record
        for message in backend.messages()
        for of_resource in getattr(message, "resource_logs", ())
        for of_scope in of_resource.scope_logs
        if of_scope.scope.name == "torchspan"
        for record in of_scope.log_records
    ]
    records.sort(key=lambda record: record.time_unix_nano)
    return [(record.event_name, record.severity_text, mapping(record.attributes)) for record in records]
