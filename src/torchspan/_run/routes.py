# SPDX-License-Identifier: Apache-2.0
"""Where torchspan's spans go below `torchspan run`; see `torchspan.writer._tracer.Route`."""

from __future__ import annotations

from opentelemetry import context as context_api
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, Tracer

from torchspan._run.spans import is_owned

_SEPARATE = context_api.create_key("torchspan-separate-span")


class OwnRoute:
    """Through `run`'s own provider, among the spans that the program makes without one."""

    def __init__(self, tracer: Tracer) -> None:
        self.tracer = tracer

    def current(self, context: Context) -> Span:
        """OpenTelemetry's current span."""
        return trace.get_current_span(context)

    def inside(self, span: Span, context: Context) -> Context:
        """OpenTelemetry's current span is `span`."""
        return trace.set_span_in_context(span, context)


class ProgramRoute(OwnRoute):
    """Through a provider of the program, among its spans. Spans of `run`'s own provider do not count: without `run` none exist."""

    def current(self, context: Context) -> Span:
        """OpenTelemetry's current span, unless it is one of `run`'s own provider."""
        span = trace.get_current_span(context)
        return trace.INVALID_SPAN if is_owned(span.get_span_context()) else span


class SeparateRoute:
    """Through a separate provider of `run`, alongside one of the program that takes no processor.

    These spans have only each other as parents. The program's provider must not get them as parents, so they are never
    OpenTelemetry's current span.
    """

    def __init__(self, tracer: Tracer) -> None:
        self.tracer = tracer

    def current(self, context: Context) -> Span:
        """The innermost span of this route."""
        span = context.get(_SEPARATE)
        return span if isinstance(span, Span) else trace.INVALID_SPAN

    def inside(self, span: Span, context: Context) -> Context:
        """The innermost span of this route is `span`."""
        return context_api.set_value(_SEPARATE, span, context)
