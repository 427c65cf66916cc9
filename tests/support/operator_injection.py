# SPDX-License-Identifier: Apache-2.0
"""What the OpenTelemetry Operator does to a container that it injects Python's instrumentation into.

It copies a folder of packages into the container and sets variables. The folder here has the packages of its image (`make setup`
installs them, for the same Python as in the image); nothing of Kubernetes runs.
"""

import os
import sys
from pathlib import Path

import pytest

FOLDER = Path(sys.prefix) / "operator-python"
"""The packages of the image that the Operator 0.158 injects: OpenTelemetry 1.43, for Python 3.14."""
VERSION = "1.43.0"
_OWN = Path(__file__).resolve().parents[2] / ".venv"


def folder():
    """The injected folder; a test that asks for it is skipped in environments that `make setup` did not make."""
    if not FOLDER.exists():
        reason = f"what the Operator injects is not in {FOLDER}; `make setup` puts it there"
        pytest.fail(reason) if Path(sys.prefix).resolve() == _OWN.resolve() else pytest.skip(reason)
    return FOLDER


def variables(injected, endpoint, *, existing="", own=None):
    """The environment of the container, as the Operator 0.158 makes it of an `Instrumentation`.

    injected: the folder. existing: PYTHONPATH of the container. own: variables of the Instrumentation or the container, which
    win over the Operator's.
    """
    search = [f"{injected}/opentelemetry/instrumentation/auto_instrumentation", existing, str(injected)]
    return {
        "PYTHONPATH": os.pathsep.join(filter(None, search)),
        "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint,
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OTEL_TRACES_EXPORTER": "otlp",
        "OTEL_METRICS_EXPORTER": "otlp",
        "OTEL_LOGS_EXPORTER": "otlp",
        "OTEL_PROPAGATORS": "tracecontext,baggage",
        "OTEL_SERVICE_NAME": "app",
        "OTEL_RESOURCE_ATTRIBUTES": "k8s.container.name=app,k8s.namespace.name=team,k8s.pod.name=app-1,"
        "service.instance.id=team.app-1.app,service.namespace=team",
        **(own or {}),
    }
