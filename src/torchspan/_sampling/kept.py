# SPDX-License-Identifier: Apache-2.0
"""torchspan's decision about a span, on its way to torchspan's sampler."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torchspan._sampling.ids import RANDOMNESS_BITS


@dataclass(frozen=True, slots=True)
class Kept:
    """The span that is started now is kept.

    parent_sampled: whether the span around it, of another process or of this one, is sampled. None without one.
    trace_state: the span's tracestate if it has no parent.
    threshold: the rejection threshold of the probability with which it was picked, if that is known and the trace id
        was drawn accordingly.
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
