# SPDX-License-Identifier: Apache-2.0
"""Which runs are events by a sampler's rules: those that nothing surrounds, failed ones, and those that a target rate allows.

One decision is made about a run. If the sampler is torchspan's, the decision is made here, and the sampler accepts it. Another sampler
decides by itself. Then nothing is drawn here, and only the rate limits apply.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from itertools import repeat
from typing import Any, NamedTuple, Protocol

from torchspan._base.sampling_rules import SamplingRules
from torchspan.engine.rate_limits import RateLimits
from torchspan.engine.runs import Decision, Parent, Verdict
from torchspan.subscribers.sampling import renew_after_fork, tries_until_hit, uniform

BURST_S = 1.0
"""If no run came, a target allows its unused runs later: those of this many seconds."""


class Pick(NamedTuple):
    """A run that is an event whatever surrounds it.

    probability: the one with which it was picked. None if it is not known.
    """

    probability: float | None = None


FOR_ITSELF = Pick()
"""The pick of a first run, and of a failed one."""


# --- which runs outside everything are picked -------------------------------------------------------------------------
class Roots(Protocol):
    """Picks runs that nothing surrounds.

    A hot path takes one item of `passes` for each run. If none is left, or the item is a time that has passed, it calls `picks`
    instead, and continues with the `passes` that exist afterwards.

    passes: one item for each run that may pass: the time until which it may, by the clock. None: at any time.
    """

    @property
    def passes(self) -> Iterator[float | None]: ...

    def picks(self) -> bool:
        """Whether this run is picked."""


class NoRoots:
    """Picks none."""

    passes: Iterator[float | None] = repeat(None)

    def picks(self) -> bool:
        """See `Roots`."""
        return False


class AllRoots:
    """Picks each run."""

    passes: Iterator[float | None] = repeat(None, 0)

    def picks(self) -> bool:
        """See `Roots`."""
        return True


class ShareOfRoots:
    """Picks each run with a probability of more than 0 and less than 1.

    As for sampled callbacks, a number is drawn: the runs until the next pick. All threads count the same number down, which is one
    step of the interpreter. A number for each thread would cost as much as everything else that a run does.
    """

    def __init__(self, probability: float) -> None:
        self._probability = probability
        self._drawing = threading.Lock()
        self.passes: Iterator[float | None] = self._drawn()

    def picks(self) -> bool:
        """See `Roots`."""
        for _ in self.passes:
            return False
        with self._drawing:
            for _ in self.passes:  # another thread's run was picked meanwhile
                return False
            self.passes = self._drawn()
            return True

    def _drawn(self) -> Iterator[float | None]:
        return repeat(None, tries_until_hit(self._probability) - 1)


class TargetRate:
    """Picks `per_second` runs a second, or all if there are fewer: in each 1/N of a second the first one after a random moment.

    If no run came after that moment, the next one is picked in its place, up to `BURST_S` later.

    per_second: the number N. clock: returns seconds.
    """

    def __init__(self, per_second: float, clock: Callable[[], float]) -> None:
        self._per_second = per_second
        self._clock = clock
        self._began_s = clock()
        self._number = 0.0
        self._most_owed = max(BURST_S * per_second, 1.0)
        self._lock = threading.Lock()
        self.due_s = 0.0
        """When the next run is picked, by the clock."""
        self._draw()

    @property
    def passes(self) -> Iterator[float | None]:
        """See `Roots`."""
        return repeat(self.due_s)

    def picks(self) -> bool:
        """See `Roots`; nothing is taken yet."""
        return self._clock() >= self.due_s

    def take(self) -> bool:
        """Whether a run is picked now. If so, the next one is due later."""
        with self._lock:
            now_s = self._clock()
            if now_s < self.due_s:
                return False
            owed = (now_s - self._began_s) * self._per_second - self._most_owed
            self._number = max(self._number + 1, float(math.floor(owed)))
            self._draw()
            return True

    def _draw(self) -> None:
        self.due_s = self._began_s + (self._number + uniform()) / self._per_second


# --- the policy -------------------------------------------------------------------------------------------------------
class RunSampling:
    """The policy of runs: those below a recording span within `limits`, the first of each object anywhere, and what rules add.

    limits: for runs with and without something around them.
    asked: the rules that are set for samplers other than torchspan's.
    clock: returns seconds, like `time.perf_counter`.
    """

    def __init__(
        self,
        limits: RateLimits,
        asked: SamplingRules | None = None,
        *,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._limits = limits
        self.clock: Callable[[], float] = clock or time.perf_counter
        """The clock by which a target states until when runs may pass."""
        self._failures = RateLimits()
        self._asked = asked or SamplingRules()
        self._rules: SamplingRules | None = None
        self._is_in_use = False
        self._probability: float | None = None
        self._certain_from_s = -math.inf
        self._watchers: list[Callable[[], None]] = []
        self.target: TargetRate | None = None
        self.roots: Roots = NoRoots()
        """Picks runs outside everything."""
        self.keeps_failed = False
        """Whether failed runs are events."""
        self.is_active = False
        """Whether any run may be an event that would not be one without rules."""
        renew_after_fork(self)

    def use(self, rules: SamplingRules | None) -> None:
        """A provider is in use from now on. rules: those of its sampler, if that is torchspan's. None for another sampler."""
        if self._is_in_use and rules == self._rules:
            return
        self._is_in_use, self._rules = True, rules
        self.renew()

    def renew(self) -> None:
        """Draw new numbers, for example in a forked process: its draws must differ from its parent's."""
        if not self._is_in_use:
            return
        rules = self._rules or self._asked
        is_own = self._rules is not None
        self.keeps_failed = is_own
        self._limits.per_second = rules.limit if is_own else self._asked.limit
        self.target, self._probability = None, None
        if not is_own:
            wants_roots = rules.execute > 0 or rules.execute_target is not None
            self.roots = AllRoots() if wants_roots else NoRoots()
        elif rules.execute_target is not None:
            self.roots = self.target = TargetRate(rules.execute_target, self.clock)
        elif rules.execute > 0:
            self._probability = rules.execute
            self.roots = ShareOfRoots(rules.execute) if rules.execute < 1 else AllRoots()
        else:
            self.roots = NoRoots()
        self.is_active = is_own or not isinstance(self.roots, NoRoots)
        for each in list(self._watchers):
            each()

    def watch(self, watcher: Callable[[], None]) -> None:
        """Call `watcher` when the rules have changed."""
        self._watchers.append(watcher)

    # --- decisions --------------------------------------------------------------------------------------------
    def decide(self, runner: Any, parent: Parent | None, *, is_first: bool) -> Decision:
        """See `RunPolicy`. Decides about first runs, and runs with a span around them."""
        if is_first:
            return Decision(Verdict.FIRST)
        if parent is None:
            return Decision(Verdict.PASS)
        target = self.target
        if target is not None and not target.picks():
            return Decision(Verdict.COUNT, target.due_s)
        until_s = self._limits.refused_until(runner, parent.trace)
        if until_s is not None:
            return Decision(Verdict.COUNT, until_s)
        if target is not None:
            target.take()
        return Decision(Verdict.RECORD)

    def root(self, runner: Any) -> Pick | None:
        """Whether a run of `runner` is an event. `roots` has picked it, and nothing surrounds it."""
        if self.target is not None and not self.target.take():
            return None
        until_s = self._limits.refused_until(runner, None)
        if until_s is not None:
            self._certain_from_s = until_s + 1  # the limit decides in this second, and may in the next
            return None
        return Pick(None if self.clock() < self._certain_from_s else self._probability)

    def failed(self, runner: Any) -> Pick | None:
        """Whether a failed run of `runner` that is not an event yet becomes one: ten a second for each object."""
        if not self.keeps_failed or self._failures.refused_until(runner, None) is not None:
            return None
        return FOR_ITSELF
