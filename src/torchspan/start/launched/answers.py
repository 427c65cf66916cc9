# SPDX-License-Identifier: Apache-2.0
"""What an endpoint of OTLP over HTTP says of spans that it has not taken, and that the SDK's exporter counts as delivered.

The exporter takes a redirect for a success, and follows none. It reads no partial success (OTLP 1.9, "Partial Success").
"""

from __future__ import annotations

import itertools
import os
from typing import Any

_EXPORTERS = tuple(f"opentelemetry.exporter.otlp.proto.http.{signal}_exporter" for signal in ("trace", "metric"))
_SESSIONS = (
    "OTEL_PYTHON_EXPORTER_OTLP_HTTP_TRACES_CREDENTIAL_PROVIDER",
    "OTEL_PYTHON_EXPORTER_OTLP_HTTP_METRICS_CREDENTIAL_PROVIDER",
    "OTEL_PYTHON_EXPORTER_OTLP_HTTP_CREDENTIAL_PROVIDER",
)
"""Variables that name a session for the exporter. Then it has that one, and its answers are not read."""


class EndpointAnswers:
    """The answers to one exporter."""

    def __init__(self) -> None:
        self._refused = 0
        self._is_redirected = False

    def take(self, sent: int) -> int:
        """The number of spans among those `sent` that the last answer has refused."""
        refused = sent if self._is_redirected else min(self._refused, sent)
        self._refused, self._is_redirected = 0, False
        return refused

    def arguments(self, exporter: type) -> dict[str, Any]:
        """The arguments with which `exporter` has its answers read; none if it is of another kind."""
        if exporter.__module__ not in _EXPORTERS or any(os.environ.get(variable) for variable in _SESSIONS):
            return {}
        import requests

        session = requests.Session()
        session.stream = True  # otherwise the whole answer is read before it is seen
        session.hooks["response"].append(self._answered)
        return {"session": session}

    def _answered(self, response: Any, *_args: Any, **_options: Any) -> None:
        # At most 64 KiB: an answer that does not end would fill the memory.
        response._content = content = b"".join(itertools.islice(response.iter_content(1024), 64))
        response.close()  # its connection, unless the whole was read
        self._is_redirected = 300 <= response.status_code < 400
        if response.status_code == 200 and content:
            self._refused = _refused(content)


def _refused(content: bytes) -> int:
    """How many spans an answer of success refuses; none if it is not a message of OTLP, such as the page of a proxy."""
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

    try:
        return int(ExportTraceServiceResponse.FromString(content).partial_success.rejected_spans)
    except Exception:  # protobuf's `DecodeError`, which has no types
        return 0
