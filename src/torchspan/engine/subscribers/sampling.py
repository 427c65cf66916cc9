# SPDX-License-Identifier: Apache-2.0
"""Which events a sampled callback runs for.

As in ATen, the number of events until the next hit is drawn from the geometric distribution and counted down. So an event
without a hit costs one decrement. Each thread draws for itself. Unlike ATen's, generators are seeded by the operating system, and
again after a fork, so that no two threads or processes pick the same indexes.
"""

from __future__ import annotations

import heapq
import itertools
import math
import operator
import random
import threading
from collections.abc import Collection, Sequence
from contextvars import ContextVar
from enum import Enum
from typing import Any, Protocol

from torchspan.base.forks import in_each_child

NEVER = 2**62
"""Tries until a hit that is too improbable to occur."""


class SamplingMode(Enum):
    """Where `sampling_prob` is applied."""

    PER_EVENT = "per event"
    """At each event, independent of the events around it, as in PyTorch."""
    PER_ROOT = "per root"
    """Where a tree of events starts. The decision applies to every event inside."""


class Sampled(Protocol):
    """An object that is sampled."""

    @property
    def probability(self) -> float:
        """More than 0 and less than 1."""


class _Generators(threading.local):
    def __init__(self) -> None:
        self.random = random.Random()  # noqa: S311 - seeded by the operating system; nothing is kept secret with it


class _State:
    """One for the process; renewed as a whole after a fork."""

    generators = _Generators()


def seed(value: int) -> None:
    """Seed the calling thread's generator."""
    _State.generators.random = random.Random(value)  # noqa: S311


def tries_until_hit(probability: float) -> int:
    """The number of events until the next hit, at least 1, in the calling thread."""
    uniform = 1.0 - _State.generators.random.random()  # more than 0, at most 1
    return 1 + int(min(math.log(uniform) / math.log1p(-probability), NEVER))


class Countdown(threading.local):
    """A thread's tries of the callbacks that one scope samples. Every event is a try, even one that may not be observed.

    passes: an iterator over the events that may pass before `hits` has to be called again. A caller takes one item for each event that
    it lets pass. No other way of counting is as fast: a thread-local's attribute is read once and not written.
    """

    def __init__(self, sampled: Collection[Any] = (), *, may_skip: bool = False) -> None:
        self.passes = itertools.repeat(None, 0)
        self._skipped = 0
        self._events = 0
        self._sampled = sampled
        self._may_skip = may_skip
        self._hits: list[tuple[int, int, Any]] | None = None
        self._tries: dict[Sampled, int] = {}

    def hits(self) -> Sequence[Any]:
        """Count an event, and those that passed before it. Returns the callbacks that are hit, in their order.

        A heap contains the number of the event that is each callback's next hit, so the cost of an event depends only on its hits.
        """
        self._events += self._skipped - operator.length_hint(self.passes) + 1
        now, hits, selected = self._events, self._hits, []
        if hits is None:
            numbered = enumerate(self._sampled)
            hits = self._hits = [
                (now - 1 + tries_until_hit(sampled.probability), index, sampled) for index, sampled in numbered
            ]
            heapq.heapify(hits)
        while hits and hits[0][0] <= now:
            _, index, sampled = hits[0]
            selected.append((index, sampled))
            heapq.heapreplace(hits, (now + tries_until_hit(sampled.probability), index, sampled))
        if self._may_skip:
            self._skipped = hits[0][0] - now - 1
            self.passes = itertools.repeat(None, self._skipped)
        selected.sort()
        return [sampled for _, sampled in selected]

    def is_hit(self, sampled: Sampled) -> bool:
        """Count a try of one callback alone."""
        tries = (self._tries.get(sampled) or tries_until_hit(sampled.probability)) - 1
        self._tries[sampled] = tries
        return tries == 0


class Tree:
    """An outermost event with the events inside. Remembers the decision at its root for each callback.

    quiet: the countdown of a scope for which no callback runs in this tree. A scope gets another countdown as soon as a callback is
    registered or removed.
    """

    __slots__ = ("_decisions", "is_open", "quiet")

    def __init__(self) -> None:
        self.is_open = True
        self.quiet: Countdown | None = None
        self._decisions: dict[Any, bool] = {}

    def includes(self, sampled: Sampled, countdown: Countdown) -> bool:
        """Whether a sampled callback runs in this tree. For a callback registered after the root, this is decided at its first event."""
        decision = self._decisions.get(sampled)
        if decision is None:
            decision = self._decisions.setdefault(sampled, countdown.is_hit(sampled))
        return decision


CURRENT_TREE: ContextVar[Tree | None] = ContextVar("torchspan_tree", default=None)


def _start_process() -> None:
    _State.generators = _Generators()


in_each_child(_start_process)
