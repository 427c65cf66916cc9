# SPDX-License-Identifier: Apache-2.0
"""Durations of frequent work that is not an event: held cheaply until a metric adds them up."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from torchspan.base.errors import Guard
from torchspan.base.forks import in_each_child
from torchspan.engine.event import Event
from torchspan.engine.listener import Listener
from torchspan.words.phase import EXECUTE, RUNS

RunTime = tuple[float, type[BaseException]]
"""Seconds, and the class of the exception that ended the run."""

T = TypeVar("T")

Collect = Callable[[], None]

HELD = 131_072
"""Durations that are held before a run calls the collector, unless it asks to be called earlier: about 4 MB."""

TOTALLED = 8192
"""Durations that are held before a run adds them up, where there is no collector."""


class RunTimes:
    """Durations of runs, held until a collector takes them. Nothing is measured while there is neither a collector nor a total.

    Adding takes no lock: appending to a list is one step of the interpreter. If threads take durations out at the same time, one of
    them gets the durations. A forked child starts with none, because they are its parent's.

    Attributes:
        durations_s: Durations in seconds.
        due: Number of durations that are held when a run calls `collect`.
        failed: The runs that failed.
        wanted: Whether durations are measured.
        is_collected: Whether there is a collector.
    """

    def __init__(self, guard: Guard) -> None:
        self.wanted = False
        self._guard = guard
        self.due = TOTALLED
        self._collect: Collect | None = None
        self.is_collected = False
        self._is_totalled = False
        self._watchers: list[Callable[[], None]] = []
        self.renew()
        in_each_child(self.renew)

    def renew(self) -> None:
        """Begin without durations, as a forked child does. The thread that held the lock is the parent's."""
        self.durations_s: list[float] = []
        self.failed: list[RunTime] = []
        self._taken, self._taken_s = 0, 0.0
        self._taking = threading.Lock()

    def want(self, collect: Collect | None, *, batch: int = HELD) -> None:
        """Measure durations from now on. None: there is no collector any more.

        Args:
            collect: Takes durations. Called by a run that finds at least `batch` of them held, or `HELD` if that is
                less.
        """
        self._collect, self.is_collected = collect, collect is not None
        self.due = TOTALLED if collect is None else min(batch, HELD)
        self._look_again()
        if collect is None:
            self.take()
            self.take_failed()

    def total(self) -> None:
        """Measure durations from now on, with or without a collector, for `totals`."""
        self._is_totalled = True
        self._look_again()

    def totals(self) -> tuple[int, float]:
        """The number of all runs so far, and their seconds."""
        seconds = [*self.durations_s, *(seconds for seconds, _ in self.failed)]
        return self._taken + len(seconds), self._taken_s + sum(seconds)

    def _look_again(self) -> None:
        self.wanted = self._collect is not None or self._is_totalled
        for watcher in self._watchers:
            watcher()

    def watch(self, watcher: Callable[[], None]) -> None:
        """Call `watcher` whenever durations begin or cease to be wanted."""
        self._watchers.append(watcher)

    def add(self, duration_s: float, error: type[BaseException] | None = None) -> None:
        """Hold one run's duration in seconds and, if one ended it, the class of the exception."""
        runs: list[Any] = self.durations_s if error is None else self.failed
        runs.append(duration_s if error is None else (duration_s, error))
        if len(runs) >= self.due:
            self.collect()

    def collect(self) -> None:
        """Have the collector take what is held."""
        if self._collect is not None:
            self._guard.call("adding up runs", self._collect)
        else:
            self.take()
            self.take_failed()
        for runs in (self.durations_s, self.failed):
            if len(runs) >= 2 * HELD:  # the collector fails
                del runs[:HELD]

    def take(self, at_most: int | None = None) -> list[float]:
        """Take out durations of runs that did not fail, oldest first, in seconds."""
        return self._take(self.durations_s, at_most, sum)

    def take_failed(self, at_most: int | None = None) -> list[RunTime]:
        """Take out the runs that failed, oldest first."""
        return self._take(self.failed, at_most, lambda runs: sum(seconds for seconds, _ in runs))

    def _take(self, runs: list[T], at_most: int | None, seconds_of: Callable[[list[T]], float]) -> list[T]:
        if not self._taking.acquire(blocking=False):
            return []
        try:
            taken = runs[:at_most]
            del runs[: len(taken)]
            self._taken += len(taken)
            self._taken_s += seconds_of(taken)
            return taken
        finally:
            self._taking.release()


class RunTotals(Listener):
    """All runs of this process since this object was made: those that are events, and those that a `RunTimes` holds.

    A forked child starts at zero.

    Args:
        times: The `RunTimes` of each phase of runs.
    """

    name = "totalling runs"
    phases = frozenset(RUNS)

    def __init__(self, times: Iterable[RunTimes]) -> None:
        self._times = tuple(times)
        for durations in self._times:
            durations.total()
        self.renew()
        in_each_child(self.renew)

    def renew(self) -> None:
        """Begin at zero, as a forked child does."""
        self._events, self._events_s = 0, 0.0

    def now(self) -> tuple[int, float]:
        """The number of runs, and their seconds summed over threads."""
        counts, seconds = zip(*(durations.totals() for durations in self._times), strict=True)
        return self._events + sum(counts), self._events_s + sum(seconds)

    def close(self, event: Event, token: None) -> None:  # noqa: ARG002 - see `Listener`
        """See `Listener`."""
        is_inside = event.parent is not None and event.parent.phase is EXECUTE
        if event.end_ns is not None and not is_inside:
            seconds = (event.end_ns - event.start_ns) / 1e9
            self._events += 1  # each one step of the interpreter: a lock could be held by what this has interrupted
            self._events_s += seconds
