# SPDX-License-Identifier: Apache-2.0
"""Spans of a provider with torchspan's sampler: what torchspan has decided about them goes along to it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from opentelemetry import context as context_api
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanContext, Tracer

from torchspan._base.ids import IDS, KeptRange, SameTrace
from torchspan._base.kept import Kept, threshold_of
from torchspan._base.keys import KEPT
from torchspan._base.sampling_rules import SamplingRules
from torchspan.engine import Event

_RANDOM = 2
"""The flag of a trace id that is random; the API has a name for it since 1.39."""


def rules_of(tracer: Tracer) -> Callable[[], SamplingRules] | None:
    """What returns the rules of torchspan's sampler, where `tracer` has it; None for another sampler."""
    rules: Callable[[], SamplingRules] | None = getattr(getattr(tracer, "sampler", None), "execution_rules", None)
    return rules


def start(tracer: Tracer, event: Event, context: Context, around: SpanContext, arguments: dict[str, Any]) -> Span:
    """Start the span of `event` in `context`, with a tracer that has torchspan's sampler.

    around: the span around it. arguments: those of `Tracer.start_span` except for the context.

    What is kept whatever surrounds it is a root below a span that is not sampled: in the same trace, since that span will
    not arrive. What would follow that span is left to the sampler, as is what begins a trace by its own choice. Where a run
    was picked with a known probability, its trace id is one that is kept with this probability, and it records this.
    """
    follows = around.is_valid and around.trace_flags.sampled
    if not (event.phase.keep or event.pick is not None or follows):
        return tracer.start_span(context=context, **arguments)
    ids: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
    kept = Kept(follows if around.is_valid else None)
    probability = None if event.pick is None else event.pick.probability
    if not around.is_valid and probability is not None and hands_out_wanted(tracer):
        kept = Kept(threshold=threshold_of(probability))
        ids = IDS.next_trace(KeptRange(threshold_of(probability)))
    elif around.is_valid and not follows and hands_out_wanted(tracer):
        kept = Kept(parent_sampled=False, trace_state=around.trace_state)
        context = trace.set_span_in_context(trace.INVALID_SPAN, context)
        ids = IDS.next_trace(SameTrace(around.trace_id, is_random=bool(around.trace_flags & _RANDOM)))
    with ids:
        return tracer.start_span(context=context_api.set_value(KEPT, kept, context), **arguments)


def hands_out_wanted(tracer: Tracer) -> bool:
    """Whether the ids of `tracer` are torchspan's, which can be a certain one."""
    return getattr(getattr(tracer, "id_generator", None), "hands_out_wanted", False) is True
