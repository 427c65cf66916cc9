# SPDX-License-Identifier: Apache-2.0
"""Which runs are events by a sampler's rules: those that nothing surrounds, failed ones, and those that a target rate allows.

One decision is made about a run. If the sampler is torchspan's, the decision is made here, and the sampler accepts it. Another sampler
decides by itself. Then all runs outside every span are offered to it, and only the rate limits apply.
"""

from __future__ import annotations

import math
import random
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

from torchspan.base.forks import in_each_child
from torchspan.engine.rate_limits import RateLimits
from torchspan.engine.runs import FOR_ITSELF, PASS, Around, Decision, Pick, Surroundings, Verdict
from torchspan.words.sampling.rules import SamplingRules

BURST_S = 1.0
"""If no run came, a target allows its unused runs later: those of this many seconds."""


# --- which runs outside everything are picked -------------------------------------------------------------------------
class Roots(Protocol):
    """Picks runs that nothing surrounds: a run for which `draw()` is at least `due`."""

    draw: Callable[[], float]
    due: float


class ShareOfRoots:
    """Picks each run with a probability. The operating system seeds its generator. See `Roots`."""

    def __init__(self, probability: float) -> None:
        self.draw: Callable[[], float] = random.Random().random  # noqa: S311 - nothing is kept secret with it
        self.due = 1.0 - probability


class TargetRate:
    """Picks `per_second` runs a second, or all if there are fewer: in each 1/N of a second the first one after a random moment.

    If no run came after that moment, the next one is picked in its place, up to `BURST_S` later.

    Args:
        per_second: The number N.
        clock: Returns seconds.
    """

    def __init__(self, per_second: float, clock: Callable[[], float]) -> None:
        self._per_second = per_second
        self.draw = clock
        self._began_s = clock()
        self._number = 0.0
        self._uniform = random.Random().random  # noqa: S311 - as above
        self._most_owed = max(BURST_S * per_second, 1.0)
        self._lock = threading.Lock()
        self.due = 0.0
        """When the next run is picked, in seconds of the clock. Nothing is taken before `take`."""
        self._draw_moment()

    def take(self) -> bool:
        """Whether a run is picked now. If so, the next one is due later."""
        now_s = self.draw()
        if now_s < self.due or not self._lock.acquire(blocking=False):  # one is being picked at this moment
            return False
        try:
            owed = (now_s - self._began_s) * self._per_second - self._most_owed
            self._number = max(self._number + 1, float(math.floor(owed)))
            self._draw_moment()
            return True
        finally:
            self._lock.release()

    def _draw_moment(self) -> None:
        self.due = self._began_s + (self._number + self._uniform()) / self._per_second


# --- the policy -------------------------------------------------------------------------------------------------------
class RunSampling:
    """The policy of runs: those below a recording span within `limits`, and what rules add.

    Args:
        limits: For runs with and without something around them.
        asked: The rules that are set for samplers other than torchspan's.
        clock: Returns seconds, like `time.perf_counter`. A target states by it until when runs may pass.
    """

    def __init__(
        self,
        limits: RateLimits,
        asked: SamplingRules | None = None,
        *,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._limits = limits
        self._clock: Callable[[], float] = clock or time.perf_counter
        self._failures = RateLimits()
        self._asked = asked or SamplingRules()
        self._rules: SamplingRules | None = None
        self._is_in_use = False
        self._probability: float | None = None
        self._certain_from_s = -math.inf
        self._watchers: list[Callable[[], None]] = []
        self.target: TargetRate | None = None
        self.roots: Roots | None = None
        """Picks runs outside everything. None: no run is picked."""
        in_each_child(self.renew)

    def use(self, rules: SamplingRules | None) -> None:
        """A provider is in use from now on.

        Args:
            rules: Those of its sampler, if that is torchspan's. None for another sampler.
        """
        if self._is_in_use and rules == self._rules:
            return
        self._is_in_use, self._rules = True, rules
        self.renew()

    def renew(self) -> None:
        """Draw new numbers, for example in a forked process: its draws must differ from its parent's."""
        if not self._is_in_use:
            return
        is_own = self._rules is not None
        rules = self._rules or self._asked
        self._limits.per_second = rules.limit
        self.roots = self.target = self._probability = None
        if rules.execute_target is not None and is_own:
            self.roots = self.target = TargetRate(rules.execute_target, self._clock)
        elif is_own and rules.execute > 0:
            self._probability = rules.execute
            self.roots = ShareOfRoots(rules.execute)
        elif rules.execute > 0 or rules.execute_target is not None:
            self.roots = ShareOfRoots(1)
        for watcher in list(self._watchers):
            watcher()

    def watch(self, watcher: Callable[[], None]) -> None:
        """Call `watcher` when the rules have changed."""
        self._watchers.append(watcher)

    # --- decisions --------------------------------------------------------------------------------------------
    def decide(self, runner: Any, around: Around, *, is_picked: bool = False) -> Decision:
        """See `RunPolicy`."""
        if around is Surroundings.OUTSIDE and self.roots is not None:
            pick = self._root(runner) if is_picked or self.roots.draw() >= self.roots.due else None
            return Decision(Verdict.UNPICKED) if pick is None else Decision(Verdict.RECORD, pick=pick)
        if isinstance(around, Surroundings):
            return PASS
        target = self.target
        if target is not None and target.draw() < target.due:
            return Decision(Verdict.COUNT, target.due)
        until_s = self._limits.refused_until(runner, around.trace)
        if until_s is not None:
            return Decision(Verdict.COUNT, until_s)
        if target is not None:
            target.take()
        return Decision(Verdict.RECORD)

    def _root(self, runner: Any) -> Pick | None:
        """Whether a run of `runner` is an event. `roots` has picked it, and nothing surrounds it."""
        if self.target is not None and not self.target.take():
            return None
        until_s = self._limits.refused_until(runner, None)
        if until_s is not None:
            self._certain_from_s = until_s + 1  # the limit decides in this second, and may in the next
            return None
        return Pick(None if self._clock() < self._certain_from_s else self._probability)

    def failed(self, runner: Any) -> Pick | None:
        """Whether a failed run of `runner` that is not an event yet becomes one: ten a second for each object.

        None does before there is a provider. Its sampler decides about them as about any span.
        """
        if not self._is_in_use or self._failures.refused_until(runner, None) is not None:
            return None
        return FOR_ITSELF
