# SPDX-License-Identifier: Apache-2.0
"""Programs that start processes, started by `opentelemetry-instrument` alone; spans and metrics arrive on a socket."""

import os

import pytest

from children.programs import HERE


@pytest.fixture(scope="session")
def surroundings():
    """`surroundings(receiver, protocol)`: the environment in which a program sends spans and metrics there."""

    def of(receiver, protocol="grpc", **variables):
        clean = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("OTEL_", "TORCHSPAN_")) and name not in {"TRACEPARENT", "TRACESTATE", "BAGGAGE"}
        }
        paths = [str(HERE), str(HERE.parent), clean.get("PYTHONPATH", "")]
        return {
            **clean,
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url,
            "OTEL_EXPORTER_OTLP_PROTOCOL": {"grpc": "grpc", "http": "http/protobuf"}[protocol],
            "OTEL_LOGS_EXPORTER": "none",
            "OTEL_METRIC_EXPORT_INTERVAL": "3600000",
            "OTEL_BSP_SCHEDULE_DELAY": "3600000",  # what arrives of a child was exported at the child's end
            **variables,
        }

    return of
