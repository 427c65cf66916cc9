# SPDX-License-Identifier: Apache-2.0
"""Trace ids on the records of Python's logging."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from opentelemetry.trace import TracerProvider, get_current_span

SERVICE_NAME = "service.name"


class RecordMarker:
    """Writes the same attributes as opentelemetry-instrumentation-logging, with the same names and formats.

    A record that has these attributes already, from that package or from the program, is not changed.
    """

    def __init__(self, provider: Callable[[], TracerProvider]) -> None:
        self._provider = provider

    def mark(self, record: logging.LogRecord) -> None:
        """Add trace id and span id (32 and 16 hexadecimal digits, both `0` without a span), the sampled flag, and the service."""
        attributes = vars(record)
        if "otelTraceID" in attributes or "otelSpanID" in attributes:
            return
        span = get_current_span().get_span_context()
        attributes["otelTraceID"] = format(span.trace_id, "032x") if span.is_valid else "0"
        attributes["otelSpanID"] = format(span.span_id, "016x") if span.is_valid else "0"
        attributes["otelTraceSampled"] = span.is_valid and span.trace_flags.sampled
        attributes.setdefault("otelServiceName", self._service_name())

    def _service_name(self) -> str:
        """The name from the provider's resource, which only the SDK has; empty without an SDK."""
        resource: Any = getattr(self._provider(), "resource", None)
        return "" if resource is None else str(resource.attributes.get(SERVICE_NAME) or "")
