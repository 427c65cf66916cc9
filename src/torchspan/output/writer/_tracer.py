# SPDX-License-Identifier: Apache-2.0
"""The tracer of torchspan, which uses torchspan's id generator."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from opentelemetry import context as context_api
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import ProxyTracerProvider, Span, SpanContext, Tracer, TracerProvider

from torchspan.base.version import __version__
from torchspan.engine import Event
from torchspan.output.server_span import SERVER_SPANS
from torchspan.output.writer._private_sdk import span_processors
from torchspan.words import semconv
from torchspan.words.sampling import KEPT
from torchspan.words.sampling.ids import IDS, Kept, KeptRange, SameTrace, threshold_of
from torchspan.words.sampling.rules import SamplingRules

TracerOf = Callable[[TracerProvider, str, str, str], Tracer]
"""Returns the tracer for a provider, and a tracer's name, version and schema."""


class TracerSource:
    """The tracer of the current provider. Programs set their provider late, and some replace it later.

    Args:
        provider: The provider to use instead of the global one.
        tracer_of: Makes the tracer whenever the provider has changed. Default: the provider's own method.
        holds: Called then with the rules of the provider's sampler if it is torchspan's sampler, else with None.
    """

    def __init__(
        self,
        provider: TracerProvider | None,
        tracer_of: TracerOf | None = None,
        holds: Callable[[SamplingRules | None], None] | None = None,
    ) -> None:
        self._fixed = provider
        self._holds = holds
        self._tracer_of = tracer_of
        self._provider: TracerProvider | None = None
        self._tracer: Tracer | None = None
        self.keeps = False
        """Whether the tracer that `get` has returned has torchspan's sampler."""

    def is_set(self) -> bool:
        """Whether a provider was passed or set. Creates none."""
        return not isinstance(self.provider(), ProxyTracerProvider)

    def has_processors(self) -> bool:
        """Whether sampled spans are processed at all: not by a provider of the SDK that has no processor but torchspan's.

        OTEL_TRACES_EXPORTER=none makes such a provider. Providers of other SDKs are taken to have some.
        """
        if self._tracer_of is not None:
            return True
        processors = span_processors(self.provider())
        return processors is None or any(processor is not SERVER_SPANS.processor for processor, _ in processors)

    def provider(self) -> TracerProvider:
        """The current provider."""
        return self._fixed or trace.get_tracer_provider()

    def get(self) -> Tracer:
        """The tracer of a span that starts now. torchspan's id generator replaces the SDK's default one."""
        provider = self._fixed or trace.get_tracer_provider()
        if self._tracer is None or provider is not self._provider or isinstance(provider, ProxyTracerProvider):
            named = (semconv.SCOPE_NAME, __version__, semconv.SCHEMA_URL)
            make = self._tracer_of
            tracer: Any = provider.get_tracer(*named) if make is None else make(provider, *named)
            if type(getattr(tracer, "id_generator", None)).__name__ == "RandomIdGenerator":
                tracer.id_generator = IDS  # a custom generator stays: a backend may prescribe ids
            self._tracer, self._provider, self.keeps = tracer, provider, rules_of(tracer) is not None
            SERVER_SPANS.watch(provider)
            # Below `torchspan run` spans of a program without a provider go to that of `run`.
            if self._holds is not None and (make is not None or not isinstance(provider, ProxyTracerProvider)):
                rules = rules_of(tracer)
                self._holds(None if rules is None else rules())
        return self._tracer


# --- torchspan's sampler --------------------------------------------------------------------------------------------
_RANDOM = 2
"""The flag of a random trace id. The API has a name for it since 1.39."""


def rules_of(tracer: Tracer) -> Callable[[], SamplingRules] | None:
    """A function that returns the rules of torchspan's sampler, if `tracer` has it; None for any other sampler."""
    rules: Callable[[], SamplingRules] | None = getattr(getattr(tracer, "sampler", None), "execution_rules", None)
    return rules


def start_kept(tracer: Tracer, event: Event, context: Context, around: SpanContext, arguments: dict[str, Any]) -> Span:
    """Start the span of `event` in `context`, with a tracer that has torchspan's sampler.

    Work that is kept at any sampling rate is a root in the same trace if the span around it is not sampled, because that span
    will not be exported. The sampler decides about work that would follow that span, and about work that begins a trace. A run
    that was picked with a known probability gets a trace id that is kept with this probability, and records the probability.

    Args:
        around: The span around it.
        arguments: Those of `Tracer.start_span` except for the context.
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
