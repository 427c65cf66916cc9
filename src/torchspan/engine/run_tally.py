# SPDX-License-Identifier: Apache-2.0
"""Counts runs that are not events, exactly and from any thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from itertools import repeat

HELD = 8192
"""The most durations that are held before they are summed up."""

CLOSE_TIMEOUT_S = 1.0
"""How long an end of a span waits for a thread that is summing up, which takes microseconds. A forked child may wait without success:
the thread that held the lock is its parent's."""


class RunTally:
    """The runs below one span: their number, and the sum and the maximum of their durations in seconds.

    A hot path takes one item of `passes`, a function that holds a duration. That is one step of the interpreter and needs no lock.
    When none is left, the hot path calls `add`. So `write` receives the totals whenever the number of runs has doubled. In between,
    the written totals lag by at most a factor of two. `close` writes the rest.

    write: receives number, sum and maximum. Called by one thread at a time.
    at_close: called when the span ends, before the last totals are written. What hot paths remember of the span is then outdated.
    """

    __slots__ = ("_lock", "_write", "at_close", "count", "held", "longest_s", "passes", "total_s")

    def __init__(self, write: Callable[[int, float, float], None]) -> None:
        self.held: list[float] = []
        self.at_close: set[Callable[[], None]] = set()
        self.passes: Iterator[Callable[[float], None]] = iter(())
        self.count = 0
        self.total_s = 0.0
        self.longest_s = 0.0
        self._write = write
        self._lock = threading.Lock()

    def add(self, duration_s: float) -> None:
        """Count one run."""
        for append in self.passes:
            append(duration_s)
            return
        self.held.append(duration_s)
        self.sum_up()

    def sum_up(self) -> None:
        """Write the totals, unless another thread is doing so. What is held then stays for the next call."""
        if self._lock.acquire(blocking=False):
            try:
                self._sum_up()
            finally:
                self._lock.release()

    def close(self) -> None:
        """Write the totals of all runs that have been counted: the span ends."""
        for each in list(self.at_close):
            each()
        if self._lock.acquire(timeout=CLOSE_TIMEOUT_S):
            try:
                self._sum_up()
            finally:
                self._lock.release()

    def _sum_up(self) -> None:
        held = self.held
        durations_s = held[:]
        del held[: len(durations_s)]
        if durations_s:
            self.count += len(durations_s)
            self.total_s += sum(durations_s)
            longest_s = max(durations_s)
            self.longest_s = max(self.longest_s, longest_s)
            # One less than may be held: the run that finds none left is held as well.
            self.passes = repeat(held.append, min(self.count, HELD) - 1)
            self._write(self.count, self.total_s, self.longest_s)
