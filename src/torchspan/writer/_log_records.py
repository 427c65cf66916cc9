# SPDX-License-Identifier: Apache-2.0
"""Trace ids on the records of Python's logging."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from opentelemetry.trace import TracerProvider, get_current_span

SERVICE_NAME = "service.name"


class RecordMarker:
    """Writes the attributes that opentelemetry-instrumentation-logging writes, under its names and in its form.

    A record that has them already, from that package or from the program, is left as it is.
    """

    def __init__(self, provider: Callable[[], TracerProvider]) -> None:
        self._provider = provider

    def mark(self, record: logging.LogRecord) -> None:
        """Trace and span id as 32 and 16 hexadecimal digits, both `0` without a span; whether sampled; the service."""
        attributes = vars(record)
        if "otelTraceID" in attributes or "otelSpanID" in attributes:
            return
        span = get_current_span().get_span_context()
        attributes["otelTraceID"] = format(span.trace_id, "032x") if span.is_valid else "0"
        attributes["otelSpanID"] = format(span.span_id, "016x") if span.is_valid else "0"
        attributes["otelTraceSampled"] = span.is_valid and span.trace_flags.sampled
        attributes.setdefault("otelServiceName", self._service_name())

    def _service_name(self) -> str:
        """From the provider's resource, which the API does not know; empty without an SDK."""
        resource: Any = getattr(self._provider(), "resource", None)
        return "" if resource is None else str(resource.attributes.get(SERVICE_NAME) or "")
