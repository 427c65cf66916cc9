# SPDX-License-Identifier: Apache-2.0
"""Where torchspan's spans go while one provider holds, and which spans they see around them."""

from __future__ import annotations

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, Tracer


class PlainRoute:
    """The spans around are those of the program: OpenTelemetry's current span."""

    def __init__(self, tracer: Tracer) -> None:
        self.tracer = tracer

    def current(self, context: Context) -> Span:
        """See `torchspan.writer._tracer.Route`."""
        return trace.get_current_span(context)

    def inside(self, span: Span, context: Context) -> Context:
        """See `torchspan.writer._tracer.Route`."""
        return trace.set_span_in_context(span, context)
