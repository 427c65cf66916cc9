# SPDX-License-Identifier: Apache-2.0
"""The tracer, with ids of its own."""

from __future__ import annotations

import os
import random
import secrets
from typing import Any

from opentelemetry import trace
from opentelemetry.trace import INVALID_SPAN_ID, INVALID_TRACE_ID, ProxyTracerProvider, Tracer, TracerProvider

from torchspan import semconv
from torchspan._version import __version__


class IdGenerator:
    """Span and trace ids from a generator that nobody else seeds.

    The SDK's own draws from Python's global generator. Programs seed that one, and Dynamo saves its state before it
    compiles and restores it afterwards: spans written while compiling and spans written next then have the same
    ids. A forked child starts from a new seed.
    """

    def __init__(self) -> None:
        self._random = random.Random()  # noqa: S311 - ids are no secrets
        self._seed()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._seed)

    def _seed(self) -> None:
        self._random.seed(secrets.randbits(256))

    def generate_span_id(self) -> int:
        """A random 64-bit number, never 0."""
        number = INVALID_SPAN_ID
        while number == INVALID_SPAN_ID:
            number = self._random.getrandbits(64)
        return number

    def generate_trace_id(self) -> int:
        """A random 128-bit number, never 0."""
        number = INVALID_TRACE_ID
        while number == INVALID_TRACE_ID:
            number = self._random.getrandbits(128)
        return number

    def is_trace_id_random(self) -> bool:
        """All bits are random: samplers may use any of them (W3C Trace Context, level 2)."""
        return True


_IDS = IdGenerator()
"""One for the process: forgetting a generator would leave its hook for forks behind."""


class TracerSource:
    """The tracer of the provider that holds now: users set theirs late, and some set another one later.

    provider: the provider to use instead of the global one.
    """

    def __init__(self, provider: TracerProvider | None) -> None:
        self._fixed = provider
        self._provider: TracerProvider | None = None
        self._tracer: Tracer | None = None

    def provider(self) -> TracerProvider:
        """The provider that is written to now."""
        return self._fixed or trace.get_tracer_provider()

    def get(self) -> Tracer:
        """A tracer whose spans have ids from our generator, where they would have the SDK's."""
        provider = self.provider()
        if self._tracer is None or provider is not self._provider or isinstance(provider, ProxyTracerProvider):
            tracer: Any = provider.get_tracer(semconv.SCOPE_NAME, __version__, semconv.SCHEMA_URL)
            if type(getattr(tracer, "id_generator", None)).__name__ == "RandomIdGenerator":
                tracer.id_generator = _IDS  # anybody else's has its reasons (ids that a backend prescribes)
            self._tracer, self._provider = tracer, provider
        return self._tracer
