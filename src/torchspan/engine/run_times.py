# SPDX-License-Identifier: Apache-2.0
"""How long frequent work took that is no event: kept cheaply until somebody adds it up."""

from __future__ import annotations

import os
import weakref
from collections import deque
from collections.abc import Callable, Iterator

from torchspan._base.errors import Guard

RunTime = tuple[float, type[BaseException] | None]
"""Seconds, and the class of the exception that ended the run, if one did."""

HELD = 8192
"""Durations held until they are taken away: by the one who asked for them, or `AT_ONCE` by a run that finds so many."""

AT_ONCE = 16
"""Few: a run that took all of them away would be milliseconds late, and somebody waits for it."""


class RunTimes:
    """Durations of runs, held from the run to whoever wants them; nothing is measured while nobody does.

    Adding takes no lock: appending to a deque is one step of the interpreter, and each duration is taken out once,
    whoever takes. A forked child starts with none: they are its parent's.
    """

    def __init__(self, guard: Guard) -> None:
        self.wanted = False
        self._guard = guard
        self._held: deque[RunTime] = deque(maxlen=2 * HELD)  # a bound for the case that nobody can take them away
        self._collect: Callable[[int | None], None] | None = None
        self._watchers: list[Callable[[bool], None]] = []
        _ALL.add(self)

    def want(self, collect: Callable[[int | None], None] | None) -> None:
        """From now on durations are measured; None: no more.

        `collect` is called when `HELD` have come together, with the number that it is to take.
        """
        self._collect, self.wanted = collect, collect is not None
        for watcher in self._watchers:
            watcher(self.wanted)
        if collect is None:
            self.forget()

    def watch(self, watcher: Callable[[bool], None]) -> None:
        """Have `watcher` told now, and at each change, whether durations are wanted."""
        self._watchers.append(watcher)
        watcher(self.wanted)

    def add(self, duration_s: float, error: type[BaseException] | None = None) -> None:
        """Hold one run's duration in seconds and, if one ended it, the class of the exception."""
        held = self._held
        held.append((duration_s, error))
        if len(held) >= HELD and self._collect is not None:
            self._guard.call("adding up runs", self._collect, AT_ONCE)

    def take(self, at_most: int | None = None) -> Iterator[RunTime]:
        """Take out what is held, oldest first."""
        held = len(self._held)
        for _ in range(held if at_most is None else min(held, at_most)):
            try:
                yield self._held.popleft()
            except IndexError:  # another thread has taken it
                return

    def forget(self) -> None:
        """Hold nothing any more."""
        self._held.clear()


_ALL: weakref.WeakSet[RunTimes] = weakref.WeakSet()


def _forget_in_child() -> None:
    for each in list(_ALL):
        each.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)
