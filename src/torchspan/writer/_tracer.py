# SPDX-License-Identifier: Apache-2.0
"""The tracer, with ids of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import ProxyTracerProvider, Span, Tracer, TracerProvider

from torchspan import semconv
from torchspan._base.ids import IDS
from torchspan._base.sampling_rules import SamplingRules
from torchspan._version import __version__
from torchspan.writer._kept import rules_of
from torchspan.writer._otel_private import has_processors, is_provider_set


class Route(Protocol):
    """Where torchspan's spans go while one provider holds, and which spans they see around them.

    tracer: what starts them.
    """

    @property
    def tracer(self) -> Tracer: ...

    def current(self, context: Context) -> Span:
        """The span that one started in `context` would have as its parent; the invalid span if none."""

    def inside(self, span: Span, context: Context) -> Context:
        """`context` with `span` as the one that further spans on this route see."""


class Plain:
    """The spans around are those of the program: OpenTelemetry's current span."""

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
    """The tracer of the provider that holds now: users set theirs late, and some set another one later.

    provider: the provider to use instead of the global one.
    route_of: asked first whenever another provider holds.
    holds: called then with the rules of its sampler, if that is torchspan's, else with None.
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
        """Whether there is a provider that was given or set. It makes none."""
        return self._fixed is not None or is_provider_set()

    def has_processors(self) -> bool:
        """Whether spans that are sampled go anywhere."""
        return self._route_of is not None or has_processors(self.provider())

    def provider(self) -> TracerProvider:
        """The provider that is written to now."""
        return self._fixed or trace.get_tracer_provider()

    def route(self) -> Route:
        """The way of a span that starts now. Ids are from our generator, where they would be from the SDK's."""
        provider = self.provider()
        if self._route is None or provider is not self._provider or isinstance(provider, ProxyTracerProvider):
            route = self._made(provider)
            tracer: Any = route.tracer
            if type(getattr(tracer, "id_generator", None)).__name__ == "RandomIdGenerator":
                tracer.id_generator = IDS  # a generator of the user's has its reasons (ids that a backend prescribes)
            self._route, self._provider = route, provider
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
