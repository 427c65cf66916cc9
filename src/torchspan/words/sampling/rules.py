# SPDX-License-Identifier: Apache-2.0
"""The rules of torchspan's sampler, by which the engine and the sampler decide."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

PER_SECOND = 10.0
"""Spans a second and engine."""


class SamplingRules(NamedTuple):
    """Which spans are kept, besides those that always are.

    Attributes:
        other: The share of traces, by their trace ids, in which spans that are not torchspan's are kept.
        execute: The share of runs outside every span that begin a trace.
        execute_per_second: How many runs of one engine are spans within a second, not counting first and failed
            runs. None: 10, or no limit if there is a target.
        execute_target: How many runs a second are spans in this process, whatever their number. It takes the place
            of `execute`. None: no target.
    """

    other: float = 1.0
    execute: float = 0.0
    execute_per_second: float | None = None
    execute_target: float | None = None

    @property
    def limit(self) -> float | None:
        """The spans a second that each engine may have. None: any number."""
        if self.execute_per_second is None and self.execute_target is None:
            return PER_SECOND
        return self.execute_per_second


SETTING = "sample_"
"""What the name of a rule's setting begins with; the rule's name follows."""


class Instrumented:
    """The rules among the settings that torchspan is instrumented with.

    Attributes:
        now: Rule -> value, for the rules that are given. None while it is not instrumented. The same object until
            something changes.
    """

    now: Mapping[str, float] | None = None
