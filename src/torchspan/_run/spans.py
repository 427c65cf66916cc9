# SPDX-License-Identifier: Apache-2.0
"""Spans of `run`'s own provider, as the rest of the program sees them.

They are visible until the program sets a provider. From then on they do not count as spans: without `torchspan run` they
would not exist, so they must not become parents in the program's provider. The file keeps their ids.
"""

from __future__ import annotations

from opentelemetry import trace
from opentelemetry.trace import INVALID_SPAN_CONTEXT, NonRecordingSpan, SpanContext, TraceFlags

from torchspan._run.otel_private import tracer_provider
from torchspan._run.settings import parse_traceparent


class RunSpanContext(SpanContext):
    """The ids of a span of `run`'s own provider, of this process or of the one that started it.

    local_root: the id of the outermost span of this process around it, below the span in which the process was started.
        None in a separate trace. torchspan's limits count by this id, because all these spans are in the one trace of the run.
    """

    local_root: int | None = None

    @property
    def is_valid(self) -> bool:
        """Whether others may refer to the span. False once the program has set a provider."""
        return tracer_provider() is None and super().is_valid


class UnrecordedRunSpan(NonRecordingSpan):
    """A span of `run`'s own provider that its sampler refused, or that belongs to another process."""

    def get_span_context(self) -> SpanContext:
        """The ids, while others may refer to them."""
        return visible(super().get_span_context())


def visible(context: SpanContext) -> SpanContext:
    """`context`, or the invalid one if it is not valid any more."""
    return context if context.is_valid else INVALID_SPAN_CONTEXT


def owned(context: SpanContext, local_root: int | None = None) -> RunSpanContext:
    """The same ids, marked as those of a span of `run`'s own provider. local_root: see `RunSpanContext`."""
    made = RunSpanContext(
        context.trace_id, context.span_id, context.is_remote, context.trace_flags, context.trace_state
    )
    vars(made)["local_root"] = local_root  # the base class refuses assignments
    return made


def is_owned(context: SpanContext) -> bool:
    """Whether `context` is that of a span of `run`'s own provider."""
    return isinstance(context, RunSpanContext)


def remote(traceparent: str) -> SpanContext | None:
    """The span that a W3C traceparent names, as one of another process; None for an invalid one."""
    found = parse_traceparent(traceparent)
    return None if found is None else SpanContext(found[0], found[1], is_remote=True, trace_flags=TraceFlags(found[2]))


def traceparent(context: SpanContext) -> str:
    """The W3C traceparent of a span."""
    return f"00-{trace.format_trace_id(context.trace_id)}-{trace.format_span_id(context.span_id)}-{context.trace_flags:02x}"
