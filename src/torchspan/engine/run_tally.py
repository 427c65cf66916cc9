# SPDX-License-Identifier: Apache-2.0
"""Counts runs that are not events, exactly and from any thread."""

from __future__ import annotations

import threading
from collections.abc import Callable

from torchspan._base.forks import renewed

HELD = 8192
"""The most durations that are held before they are summed up."""


class RunTally:
    """The runs below one span: their number, and the sum and the maximum of their durations in seconds.

    To hold a duration is one step of the interpreter and needs no lock. `write` receives the totals whenever the number of runs has
    doubled, so in between the written totals lag by at most a factor of two. `close` writes the rest.

    Attributes:
        write: Receives number, sum and maximum. Called by one thread at a time.
        durations_s: Those that are held. When there are `due` of them, the totals are due to be written.
        is_open: Whether the span has not ended.
        until_s: The address of an object -> the `time.perf_counter` until which its runs are counted here
            without another decision. A later object at the address may inherit at most the time.
    """

    __slots__ = (
        "__weakref__",
        "_lock",
        "_write",
        "count",
        "due",
        "durations_s",
        "is_open",
        "longest_s",
        "total_s",
        "until_s",
    )

    def __init__(self, write: Callable[[int, float, float], None]) -> None:
        self.is_open = True
        self.until_s: dict[int, float] = {}
        self.count = 0
        self.total_s = 0.0
        self.longest_s = 0.0
        self._write = write
        self.durations_s: list[float] = []
        self.due = 1
        # Reentrant: the end of a span may be reached wherever Python collects garbage.
        self._lock = renewed(self, "_lock", threading.RLock)

    def add(self, duration_s: float) -> bool:
        """Count one run. Returns whether the totals are due to be written (`sum_up`)."""
        self.durations_s.append(duration_s)
        return len(self.durations_s) >= self.due

    def sum_up(self) -> None:
        """Write the totals, unless another thread is doing so. What is held then stays for the next call."""
        if self._lock.acquire(blocking=False):
            try:
                self._sum_up()
            finally:
                self._lock.release()

    def close(self) -> None:
        """Write the totals of all runs that have been counted: the span ends."""
        self.is_open = False
        with self._lock:
            self._sum_up()

    def _sum_up(self) -> None:
        durations_s = self.durations_s[:]
        del self.durations_s[: len(durations_s)]
        if durations_s:
            self.count += len(durations_s)
            self.total_s += sum(durations_s)
            self.longest_s = max([self.longest_s, *durations_s])
            self.due = min(self.count, HELD)
            self._write(self.count, self.total_s, self.longest_s)
