# SPDX-License-Identifier: Apache-2.0
"""Span and trace ids."""

from __future__ import annotations

import contextlib
import os
import random
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torchspan.base.forks import in_each_child

INVALID_ID = 0
"""Not a valid id of a span or a trace (W3C Trace Context, all zeros)."""

RANDOMNESS_BITS = 56
"""The last bits of a trace id are its randomness; this many: https://www.w3.org/TR/trace-context-2/#random-trace-id-flag"""


@dataclass(frozen=True, slots=True)
class SameTrace:
    """An existing trace id.

    Args:
        is_random: Whether its bits are random, as far as is known.
    """

    trace_id: int
    is_random: bool


@dataclass(frozen=True, slots=True)
class KeptRange:
    """A trace id with a randomness of at least `threshold`. Samplers with this rejection threshold keep it.

    https://opentelemetry.io/docs/specs/otel/trace/tracestate-probability-sampling/
    """

    threshold: int


class _NextTrace(threading.local):
    wanted: SameTrace | KeptRange | None = None
    granted: SameTrace | KeptRange | None = None


class IdGenerator:
    """Span and trace ids from a generator that no other code seeds.

    The SDK's generator draws from Python's global one. Programs seed the global generator, and Dynamo saves its state before it
    compiles and restores it afterwards. Spans written while compiling and spans written next then have the same ids. A
    forked child starts from a new seed.
    """

    hands_out_wanted = True
    """Whether `next_trace` has an effect on this generator's ids."""

    def __init__(self) -> None:
        self._random = random.Random()  # noqa: S311 - ids are not secrets
        self._next = _NextTrace()
        self._seed()
        in_each_child(self._seed)

    def _seed(self) -> None:
        self._random.seed(os.urandom(32))

    def generate_span_id(self) -> int:
        """A random 64-bit number, never 0."""
        return self._random.getrandbits(64) or self._number(64)

    def generate_trace_id(self) -> int:
        """A random 128-bit number, never 0, or the one that `next_trace` asks for in this thread."""
        mine = self._next
        wanted, mine.wanted, mine.granted = mine.wanted, None, mine.wanted
        if wanted is None:
            return self._random.getrandbits(128) or self._number(128)
        if isinstance(wanted, SameTrace):
            return wanted.trace_id
        kept = wanted.threshold + self._random.randrange((1 << RANDOMNESS_BITS) - wanted.threshold)
        return self._number(128 - RANDOMNESS_BITS) << RANDOMNESS_BITS | kept

    def is_trace_id_random(self) -> bool:
        """Whether samplers may use the bits of the last trace id (W3C Trace Context, level 2): all are random."""
        granted = self._next.granted
        return granted.is_random if isinstance(granted, SameTrace) else True

    @contextlib.contextmanager
    def next_trace(self, wanted: SameTrace | KeptRange) -> Iterator[None]:
        """Inside, the calling thread's next trace id is as `wanted`. Further ones are as usual."""
        mine = self._next
        mine.wanted = wanted
        try:
            yield
        finally:
            mine.wanted = mine.granted = None

    def _number(self, bits: int) -> int:
        number = INVALID_ID
        while number == INVALID_ID:
            number = self._random.getrandbits(bits)
        return number


IDS = IdGenerator()
"""One for the process: a discarded generator would leave its fork hook behind."""


# --- The sampler's decision about one span --------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Kept:
    """The span that is started now is kept.

    Attributes:
        parent_sampled: Whether the span around it, of another process or of this one, is sampled. None without one.
        trace_state: The span's tracestate if it has no parent.
        threshold: The rejection threshold of the probability with which it was picked, if that is known and the
            trace id was drawn accordingly.
    """

    parent_sampled: bool | None = None
    trace_state: Any = None
    threshold: int | None = None


def threshold_of(probability: float) -> int:
    """The rejection threshold for a probability of more than 0: trace ids with a randomness below it are not sampled."""
    return (1 << RANDOMNESS_BITS) - max(1, round(probability * (1 << RANDOMNESS_BITS)))


def threshold_text(threshold: int) -> str:
    """A rejection threshold as `th` of OpenTelemetry's tracestate: 14 hexadecimal digits without trailing zeros.

    https://opentelemetry.io/docs/specs/otel/trace/tracestate-handling/#sampling-threshold-value-th
    """
    return f"{threshold:014x}".rstrip("0") or "0"
