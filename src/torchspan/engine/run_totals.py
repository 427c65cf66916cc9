# SPDX-License-Identifier: Apache-2.0
"""The number of engine runs, and their total duration."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from torchspan.engine.event import Event
from torchspan.engine.pipeline import Callback
from torchspan.engine.run_times import RunTimes
from torchspan.phase import EXECUTE, RUNS


class RunTotals:
    """All runs of this process since this object was made: those that are events, and those that a `RunTimes` holds.

    A callback of the pipeline adds the events. A forked child starts at zero.

    times: the `RunTimes` of each phase of runs.
    """

    def __init__(self, times: Iterable[RunTimes]) -> None:
        self._times = tuple(times)
        self._lock = threading.Lock()
        self._count, self._seconds = 0, 0.0
        self.callback = Callback("totalling runs", _nothing, self._end, frozenset(RUNS))
        for each in self._times:
            each.measure_for(self)

    def add(self, count: int, seconds: float) -> None:
        """Add runs that have ended."""
        with self._lock:
            self._count += count
            self._seconds += seconds

    def now(self) -> tuple[int, float]:
        """The number of runs, and their seconds summed over threads."""
        held = [seconds for each in self._times for seconds in each.held]
        held += [seconds for each in self._times for seconds, _ in each.failed]
        return self._count + len(held), self._seconds + sum(held)

    def start_process(self) -> None:
        """In a forked child: what has been counted belongs to the parent, as does the thread that may hold the lock."""
        self._lock = threading.Lock()
        self._count, self._seconds = 0, 0.0

    def _end(self, event: Event, _context: None) -> None:
        inside = event.parent is not None and event.parent.phase is EXECUTE
        if event.end_ns is not None and not inside:
            self.add(1, (event.end_ns - event.start_ns) / 1e9)


def _nothing(_event: Event) -> None:
    pass
