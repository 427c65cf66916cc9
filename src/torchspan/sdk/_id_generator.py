# SPDX-License-Identifier: Apache-2.0
"""Ids for the spans of a whole program."""

from __future__ import annotations

from opentelemetry.sdk.trace.id_generator import IdGenerator

from torchspan._sampling.ids import IDS


class TorchspanIdGenerator(IdGenerator):
    """Random span and trace ids that repeat neither after `random.seed` nor after a compilation by Dynamo.

    Use it as `TracerProvider(id_generator=TorchspanIdGenerator())`, or set `OTEL_PYTHON_ID_GENERATOR=torchspan` if OpenTelemetry's
    configurator makes the provider. Python's global generator is neither read nor advanced. Generators of one process
    share one source, which a forked child seeds again.
    """

    hands_out_wanted = True

    def generate_span_id(self) -> int:
        """A random 64-bit number, never 0."""
        return IDS.generate_span_id()

    def generate_trace_id(self) -> int:
        """A random 128-bit number, never 0. For a span that torchspan's sampler is to keep, one that marks the span as kept."""
        return IDS.generate_trace_id()

    def is_trace_id_random(self) -> bool:
        """Whether samplers may use the bits of the last trace id; see the base class."""
        return IDS.is_trace_id_random()
