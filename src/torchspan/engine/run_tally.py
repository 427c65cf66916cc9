# SPDX-License-Identifier: Apache-2.0
"""Counts runs that are not events, exactly and from any thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

HELD = 8192
"""The most durations that are held before they are summed up."""

Sums = tuple[int, float, float]
"""The number of runs, and the sum and the maximum of their durations in seconds."""


class RunTally:
    """The runs below one span: their number, and the sum and the maximum of their durations in seconds.

    To hold a duration is one step of the interpreter and needs no lock. So is everything else that a run does here: a run may be
    in a finalizer or a signal handler that has interrupted the span itself, in a lock of its own. So `write` is called by `close`,
    that is, where the span ends.

    Args:
        write: Receives number, sum and maximum.
        is_closed: Whether `close` will be called. Otherwise the sums are written whenever the number of runs has doubled.

    Attributes:
        durations_s: Those that are held, and the sums of earlier ones. When there are `due` of them, they are due to be summed up.
        is_open: Whether the span has not ended.
        until_s: The address of an object -> the `time.perf_counter` until which its runs are counted here
            without another decision. A later object at the address may inherit at most the time.
    """

    __slots__ = ("_is_closed", "_summing", "_write", "due", "durations_s", "is_open", "until_s")

    def __init__(self, write: Callable[[int, float, float], None], *, is_closed: bool = True) -> None:
        self.is_open = True
        self.until_s: dict[int, float] = {}
        self.durations_s: list[Any] = []
        self.due = HELD if is_closed else 1
        self._write = write
        self._is_closed = is_closed
        self._summing = threading.Lock()  # no one waits for it

    def add(self, duration_s: float) -> bool:
        """Count one run. Returns whether what is held is due to be summed up (`sum_up`)."""
        self.durations_s.append(duration_s)
        return len(self.durations_s) >= self.due

    def sum_up(self) -> None:
        """Hold one sum in place of the durations, unless that is being done already. They then stay for the next call."""
        if self._summing.acquire(blocking=False):
            try:
                held = self.durations_s[:]
                sums = _sums(held)
                self.durations_s[: len(held)] = [sums]  # one step: nothing is missing, or there twice, at any moment
                if not self._is_closed:
                    self.due = min(1 + sums[0], HELD)
                    self._write(*sums)
            finally:
                self._summing.release()

    def close(self) -> None:
        """Write the sums of all runs that have been counted: the span ends."""
        self.is_open = False
        if self.durations_s:
            self._write(*_sums(self.durations_s[:]))


def _sums(held: list[Any]) -> Sums:
    """The sums of what is held: durations, which begin with the sums of earlier ones if there are any."""
    count, total_s, longest_s = held[0] if isinstance(held[0], tuple) else (0, 0.0, 0.0)
    durations_s = held[1:] if count else held
    return count + len(durations_s), total_s + sum(durations_s), max([longest_s, *durations_s])
