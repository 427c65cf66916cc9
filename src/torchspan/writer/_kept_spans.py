# SPDX-License-Identifier: Apache-2.0
"""Starts spans of a provider with torchspan's sampler, and passes torchspan's decisions to that sampler."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from opentelemetry import context as context_api
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanContext, Tracer

from torchspan._sampling import KEPT
from torchspan._sampling.ids import IDS, KeptRange, SameTrace
from torchspan._sampling.kept import Kept, threshold_of
from torchspan._sampling.rules import SamplingRules
from torchspan.engine import Event

_RANDOM = 2
"""The flag of a random trace id. The API has a name for it since 1.39."""


def rules_of(tracer: Tracer) -> Callable[[], SamplingRules] | None:
    """A function that returns the rules of torchspan's sampler, if `tracer` has it; None for any other sampler."""
    rules: Callable[[], SamplingRules] | None = getattr(getattr(tracer, "sampler", None), "execution_rules", None)
    return rules


def start(tracer: Tracer, event: Event, context: Context, around: SpanContext, arguments: dict[str, Any]) -> Span:
    """Start the span of `event` in `context`, with a tracer that has torchspan's sampler.

    around: the span around it. arguments: those of `Tracer.start_span` except for the context.

    Work that is kept at any sampling rate is a root in the same trace if the span around it is not sampled, because that span
    will not be exported. The sampler decides about work that would follow that span, and about work that begins a trace. A run
    that was picked with a known probability gets a trace id that is kept with this probability, and records the probability.
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
    """Whether `tracer` uses torchspan's id generator, which can return a requested id."""
    return getattr(getattr(tracer, "id_generator", None), "hands_out_wanted", False) is True
