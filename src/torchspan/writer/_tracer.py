# SPDX-License-Identifier: Apache-2.0
"""The tracer of torchspan, which uses torchspan's id generator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from opentelemetry import trace
from opentelemetry.trace import ProxyTracerProvider, Tracer, TracerProvider

from torchspan import semconv
from torchspan._sampling.ids import IDS
from torchspan._sampling.rules import SamplingRules
from torchspan._server_span import SERVER_SPANS
from torchspan._version import __version__
from torchspan.writer._kept_spans import rules_of
from torchspan.writer._private_sdk import span_processors

TracerOf = Callable[[TracerProvider, str, str, str], Tracer]
"""Returns the tracer for a provider, and a tracer's name, version and schema."""


class TracerSource:
    """The tracer of the current provider. Programs set their provider late, and some replace it later.

    provider: the provider to use instead of the global one.
    tracer_of: makes the tracer whenever the provider has changed. Default: the provider's own method.
    holds: called then with the rules of the provider's sampler if it is torchspan's sampler, else with None.
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
        provider = self.provider()
        if self._tracer is None or provider is not self._provider or isinstance(provider, ProxyTracerProvider):
            named = (semconv.SCOPE_NAME, __version__, semconv.SCHEMA_URL)
            make = self._tracer_of
            tracer: Any = provider.get_tracer(*named) if make is None else make(provider, *named)
            if type(getattr(tracer, "id_generator", None)).__name__ == "RandomIdGenerator":
                tracer.id_generator = IDS  # a custom generator stays: a backend may prescribe ids
            self._tracer, self._provider = tracer, provider
            SERVER_SPANS.watch(provider)
            if self._holds is not None and not isinstance(provider, ProxyTracerProvider):
                rules = rules_of(tracer)
                self._holds(None if rules is None else rules())
        return self._tracer
