# SPDX-License-Identifier: Apache-2.0
"""Weaver, where it is installed: it judges the registry, and what the tests emitted. OpenTelemetry's own tool for registries.

`tools/backends.py` finds it: TORCHSPAN_TEST_WEAVER names it, or it is `weaver` on PATH. Weaver downloads OpenTelemetry's conventions, on which
the registry depends; TORCHSPAN_TEST_CONVENTIONS names a folder with their model instead, for a machine without network.
"""

import os
import shutil
from contextlib import contextmanager
from pathlib import Path

REGISTRY = Path(__file__).resolve().parents[1] / "registry"


def registry_in(folder, conventions=None):
    """A copy of the registry in a new folder, which refers to a folder with the conventions if there is one. Returns its path."""
    copy = shutil.copytree(REGISTRY, Path(folder) / "registry")
    if conventions:
        manifest = copy / "manifest.yaml"
        lines = manifest.read_text(encoding="utf-8").splitlines()
        lines = [f"  registry_path: {conventions}" if "registry_path:" in line else line for line in lines]
        manifest.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return copy


@contextmanager
def live_check(registry, executable):
    """Weaver's live check of telemetry, which listens at `.otlp_endpoint` inside the block and reports with `.end()`."""
    from opentelemetry.test.weaver_live_check import WeaverLiveCheck

    before = os.environ["PATH"]
    # The class looks for the executable on PATH alone.
    os.environ["PATH"] = os.pathsep.join([str(Path(executable).parent), before])
    try:
        check = WeaverLiveCheck(
            registry=str(registry), inactivity_timeout=300, extra_args=["--v2", "--otlp-grpc-address=127.0.0.1"]
        )
    finally:
        os.environ["PATH"] = before
    with check:
        yield check


def send(samples, metrics, endpoint):
    """Emit samples of the run of the tests again, through the SDK and OTLP.

    samples, metrics: the rows of these kinds in `suite_run.SuiteRun`.
    """
    from opentelemetry._logs import SeverityNumber
    from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter
    from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    from torchspan.words import semconv

    instruments = {row["name"]: row for row in metrics}
    traces, logs = TracerProvider(shutdown_on_exit=False), LoggerProvider(shutdown_on_exit=False)
    traces.add_span_processor(
        BatchSpanProcessor(OTLPSpanExporter(endpoint, insecure=True), max_queue_size=100_000, max_export_batch_size=100)
    )
    logs.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter(endpoint, insecure=True)))
    reader = PeriodicExportingMetricReader(
        OTLPMetricExporter(endpoint, insecure=True), export_interval_millis=3_600_000
    )
    measured = MeterProvider([reader], shutdown_on_exit=False)
    tracer = traces.get_tracer(semconv.SCOPE_NAME, schema_url=semconv.SCHEMA_URL)
    logger = logs.get_logger(semconv.SCOPE_NAME, schema_url=semconv.SCHEMA_URL)
    meter = measured.get_meter(semconv.SCOPE_NAME, schema_url=semconv.SCHEMA_URL)
    for row in samples:
        if row["signal"] == "span":
            span = tracer.start_span(row["name"], attributes=row["attributes"])
            for name, attributes in row["events"]:
                span.add_event(name, attributes)
            span.end()
        elif row["signal"] == "log":
            logger.emit(severity_number=SeverityNumber.INFO, event_name=row["name"], attributes=row["attributes"])
        else:
            _measure(meter, instruments[row["name"]], row["attributes"])
    for provider in (traces, logs, measured):
        provider.force_flush(600_000)
        provider.shutdown()


def _measure(meter, row, attributes):
    """Record 1 with the instrument that makes what the row of a metric has."""
    name, unit = row["name"], row["unit"]
    if row["instrument"] == "Histogram":
        meter.create_histogram(name, unit).record(1, attributes)
    elif row["instrument"] == "Gauge":
        meter.create_gauge(name, unit).set(1, attributes)
    elif row["is_monotonic"]:
        meter.create_counter(name, unit).add(1, attributes)
    else:
        meter.create_up_down_counter(name, unit).add(1, attributes)
