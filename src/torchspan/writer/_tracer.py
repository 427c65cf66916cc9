# SPDX-License-Identifier: Apache-2.0
"""The tracer of torchspan, which uses torchspan's id generator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import ProxyTracerProvider, Span, Tracer, TracerProvider

from torchspan import semconv
from torchspan._base.ids import IDS
from torchspan._base.sampling_rules import SamplingRules
from torchspan._server_span import SERVER_SPANS
from torchspan._version import __version__
from torchspan.writer._kept import rules_of
from torchspan.writer._otel_private import span_processors


class Route(Protocol):
    """The destination of torchspan's spans while one provider is set, and the spans that they see around them.

    tracer: starts the spans.
    """

    @property
    def tracer(self) -> Tracer: ...

    def current(self, context: Context) -> Span:
        """The parent of a span that is started in `context`; the invalid span if it would have none."""

    def inside(self, span: Span, context: Context) -> Context:
        """`context` with `span` as the current span for further spans on this route."""


class Plain:
    """The route through the program's provider: OpenTelemetry's current span is the parent."""

    def __init__(self, tracer: Tracer) -> None:
        self.tracer = tracer

    def current(self, context: Context) -> Span:
        """See `Route`."""
        return trace.get_current_span(context)

    def inside(self, span: Span, context: Context) -> Context:
        """See `Route`."""
        return trace.set_span_in_context(span, context)


RouteOf = Callable[[TracerProvider, str, str, str], Route | None]
"""Returns the route for a provider, and a tracer's name, version and schema; None for the provider's own tracer."""


class TracerSource:
    """The tracer of the current provider. Programs set their provider late, and some replace it later.

    provider: the provider to use instead of the global one.
    route_of: called first whenever the provider has changed.
    holds: called then with the rules of the provider's sampler if it is torchspan's sampler, else with None.
    """

    def __init__(
        self,
        provider: TracerProvider | None,
        route_of: RouteOf | None = None,
        holds: Callable[[SamplingRules | None], None] | None = None,
    ) -> None:
        self._fixed = provider
        self._holds = holds
        self._route_of = route_of
        self._provider: TracerProvider | None = None
        self._route: Route | None = None

    def is_set(self) -> bool:
        """Whether a provider was passed or set. Creates none."""
        return not isinstance(self.provider(), ProxyTracerProvider)

    def has_processors(self) -> bool:
        """Whether sampled spans are processed at all: not by a provider of the SDK that has no processor but torchspan's.

        OTEL_TRACES_EXPORTER=none makes such a provider. Providers of other SDKs are taken to have some.
        """
        if self._route_of is not None:
            return True
        processors = span_processors(self.provider())
        return processors is None or any(processor is not SERVER_SPANS.processor for processor, _ in processors)

    def provider(self) -> TracerProvider:
        """The current provider."""
        return self._fixed or trace.get_tracer_provider()

    def route(self) -> Route:
        """The route of a span that starts now. torchspan's id generator replaces the SDK's default one."""
        provider = self.provider()
        if self._route is None or provider is not self._provider or isinstance(provider, ProxyTracerProvider):
            route = self._made(provider)
            tracer: Any = route.tracer
            if type(getattr(tracer, "id_generator", None)).__name__ == "RandomIdGenerator":
                tracer.id_generator = IDS  # a custom generator stays: a backend may prescribe ids
            self._route, self._provider = route, provider
            SERVER_SPANS.watch(provider)
            if self._holds is not None and not isinstance(provider, ProxyTracerProvider):
                rules = rules_of(tracer)
                self._holds(None if rules is None else rules())
        return self._route

    def get(self) -> Tracer:
        """The tracer of `route`."""
        return self.route().tracer

    def _made(self, provider: TracerProvider) -> Route:
        named = (semconv.SCOPE_NAME, __version__, semconv.SCHEMA_URL)
        chosen = None if self._route_of is None else self._route_of(provider, *named)
        return chosen or Plain(provider.get_tracer(*named))
