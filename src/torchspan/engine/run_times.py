# SPDX-License-Identifier: Apache-2.0
"""Durations of frequent work that is not an event: held cheaply until a metric adds them up."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterator
from itertools import repeat
from typing import Protocol, TypeVar

from torchspan._base.errors import Guard

RunTime = tuple[float, type[BaseException]]
"""Seconds, and the class of the exception that ended the run."""

T = TypeVar("T")

Collect = Callable[[], None]

HELD = 8192
"""Durations that are held before the collector is called, unless it asks to be called earlier."""


class Totals(Protocol):
    """Adds up durations, whether or not there is a collector."""

    def add(self, count: int, seconds: float) -> None:
        """Add runs that have ended."""

    def start_process(self) -> None:
        """In a forked child: begin at zero."""


class RunTimes:
    """Durations of runs, held until a collector takes them. Nothing is measured while there is neither a collector nor a total.

    Adding takes no lock: appending to a list is one step of the interpreter. If threads take durations out at the same time, one of
    them gets the durations. A forked child starts with none, because they are its parent's.

    A hot path takes one item of `passes`, a function that holds a duration. When none is left, it calls `add`.

    held: durations in seconds. failed: the runs that failed. due: when that many are held, `add` calls the collector.
    wanted: whether durations are measured. is_collected: whether there is a collector.
    """

    def __init__(self, guard: Guard) -> None:
        self.held: list[float] = []
        self.failed: list[RunTime] = []
        self.passes: Iterator[Callable[[float], None]] = iter(())
        self.due = HELD
        self.wanted = False
        self._guard = guard
        self._collect: Collect | None = None
        self._totals: Totals | None = None
        self._watchers: list[Callable[[bool], None]] = []
        self._taking = threading.Lock()
        _ALL.add(self)

    def want(self, collect: Collect | None, *, batch: int = HELD) -> None:
        """Measure durations from now on. None: there is no collector any more.

        collect: takes durations. Called by a run that finds at least `batch` of them held, or `HELD` if that is less.
        """
        self._collect = collect
        self.due = min(batch, HELD)
        self.passes = iter(())
        self._look_again()
        if collect is None:
            self.take()
            self.take_failed()
            self.forget()

    def measure_for(self, totals: Totals) -> None:
        """Measure durations from now on. All that are taken out, with or without a collector, are added to `totals`."""
        self._totals = totals
        self._look_again()

    @property
    def is_collected(self) -> bool:
        """Whether there is a collector."""
        return self._collect is not None

    def _look_again(self) -> None:
        self.wanted = self._collect is not None or self._totals is not None
        for watcher in self._watchers:
            watcher(self.wanted)

    def watch(self, watcher: Callable[[bool], None]) -> None:
        """Call `watcher` now, and at each change, with whether durations are wanted."""
        self._watchers.append(watcher)
        watcher(self.wanted)

    def add(self, duration_s: float, error: type[BaseException] | None = None) -> None:
        """Hold one run's duration in seconds and, if one ended it, the class of the exception."""
        if error is None:
            self.held.append(duration_s)
        else:
            self.failed.append((duration_s, error))
        if len(self.held) >= self.due or len(self.failed) >= self.due:
            self.collect()
        self.passes = repeat(self.held.append, max(self.due - len(self.held) - 1, 0))

    def collect(self) -> None:
        """Have the collector take what is held."""
        if self._collect is not None:
            self._guard.call("adding up runs", self._collect)
        else:
            self.take()
            self.take_failed()
        for each in (self.held, self.failed):  # in case the collector fails
            del each[: max(len(each) - 2 * HELD, 0)]

    def take(self, at_most: int | None = None) -> list[float]:
        """Take out durations of runs that did not fail, oldest first, in seconds."""
        found = self._taken(self.held, at_most)
        if self._totals is not None and found:
            self._totals.add(len(found), sum(found))
        return found

    def take_failed(self, at_most: int | None = None) -> list[RunTime]:
        """Take out the runs that failed, oldest first."""
        found = self._taken(self.failed, at_most)
        if self._totals is not None and found:
            self._totals.add(len(found), sum(seconds for seconds, _ in found))
        return found

    def forget(self) -> None:
        """Discard all that is held."""
        self.held.clear()
        self.failed.clear()

    def _taken(self, held: list[T], at_most: int | None) -> list[T]:
        if not self._taking.acquire(blocking=False):
            return []
        try:
            found = held[:at_most]
            del held[: len(found)]
            return found
        finally:
            self._taking.release()

    def _forget_in_child(self) -> None:
        self._taking = threading.Lock()  # the thread that held it is the parent's
        if self._totals is not None:
            self._totals.start_process()
        self.forget()


_ALL: weakref.WeakSet[RunTimes] = weakref.WeakSet()


def _forget_in_child() -> None:
    for each in list(_ALL):
        each._forget_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)
