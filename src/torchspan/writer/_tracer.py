# SPDX-License-Identifier: Apache-2.0
"""The tracer, with ids of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from opentelemetry import trace
from opentelemetry.trace import ProxyTracerProvider, Tracer, TracerProvider

from torchspan import semconv
from torchspan._base.ids import IDS
from torchspan._version import __version__
from torchspan.writer._otel_private import is_provider_set

TracerOf = Callable[[TracerProvider, str, str, str], Tracer | None]
"""Returns the tracer for a provider, a name, a version and a schema; None for the provider's own."""


class TracerSource:
    """The tracer of the provider that holds now: users set theirs late, and some set another one later.

    provider: the provider to use instead of the global one.
    tracer_of: asked first whenever another provider holds.
    """

    def __init__(self, provider: TracerProvider | None, tracer_of: TracerOf | None = None) -> None:
        self._fixed = provider
        self._tracer_of = tracer_of
        self._provider: TracerProvider | None = None
        self._tracer: Tracer | None = None

    def is_set(self) -> bool:
        """Whether there is a provider that was given or set. It makes none."""
        return self._fixed is not None or is_provider_set()

    def provider(self) -> TracerProvider:
        """The provider that is written to now."""
        return self._fixed or trace.get_tracer_provider()

    def get(self) -> Tracer:
        """A tracer whose spans have ids from our generator, where they would have the SDK's."""
        provider = self.provider()
        if self._tracer is None or provider is not self._provider or isinstance(provider, ProxyTracerProvider):
            tracer: Any = self._made(provider)
            if type(getattr(tracer, "id_generator", None)).__name__ == "RandomIdGenerator":
                tracer.id_generator = IDS  # anybody else's has its reasons (ids that a backend prescribes)
            self._tracer, self._provider = tracer, provider
        return self._tracer

    def _made(self, provider: TracerProvider) -> Tracer:
        named = (semconv.SCOPE_NAME, __version__, semconv.SCHEMA_URL)
        chosen = None if self._tracer_of is None else self._tracer_of(provider, *named)
        return chosen or provider.get_tracer(*named)
