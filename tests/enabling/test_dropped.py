# SPDX-License-Identifier: Apache-2.0
"""What does not arrive of a program that the environment alone traces is in the metrics that do arrive."""

import socket

import pytest

from support.receiver import Receiver

SELF = {"OTEL_PYTHON_SDK_INTERNAL_METRICS_ENABLED": "true"}

SPANS = """
from opentelemetry import metrics, trace
from torchspan.observers import observable

@observable
def load():
    pass

for _ in range(3):
    load()
trace.get_tracer("app").start_span("request").end()
trace.get_tracer_provider().force_flush()
metrics.get_meter_provider().force_flush()
"""


@pytest.fixture
def nowhere():
    """An address of this machine at which nothing answers."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}/v1/traces"


@pytest.fixture
def dropped(instrumented):
    """`dropped(**variables)`: the number of lost spans that arrives at a receiver for metrics."""

    def run(**variables):
        with Receiver() as receiver:
            environment = {**receiver.environment(), "OTEL_METRICS_EXPORTER": "otlp", **SELF, **variables}
            ran = instrumented(SPANS, **environment)
            assert ran.status == 0, ran.err
            counts = [
                point.as_int
                for request in receiver.metrics()
                for of_resource in request.resource_metrics
                for of_scope in of_resource.scope_metrics
                for metric in of_scope.metrics
                if metric.name == "otel.sdk.exporter.span.exported"
                for point in metric.sum.data_points
                if any(attribute.key == "error.type" for attribute in point.attributes)
            ]
            return max(counts, default=0)  # exported more than once: the count is cumulative

    return run


@pytest.mark.fault("exporters", "refuses the connection", lost="4 spans", counted="otel.sdk.exporter.span.exported")
def test_of_a_collector_that_is_down_the_sdk_counts_all_four_spans(dropped, nowhere):
    down = {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": nowhere, "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT": "1"}
    assert dropped(**down) == 4


def test_where_everything_arrives_nothing_is_counted(dropped):
    assert dropped() == 0
