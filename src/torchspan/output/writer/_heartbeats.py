# SPDX-License-Identifier: Apache-2.0
"""Reports long work while it runs, from a thread of torchspan."""

from __future__ import annotations

import queue
from collections.abc import Callable
from dataclasses import dataclass

from opentelemetry.instrumentation.utils import suppress_instrumentation

from torchspan.base.background import Background, Wake
from torchspan.base.errors import Guard
from torchspan.engine import ActiveWork, Event, Listener
from torchspan.output.writer._progress import ProgressWriter

# --- when to report -------------------------------------------------------------------------------------------------
NS = 1_000_000_000

FIRST_S = 2
"""Shorter work has no heartbeat, so a program with one short compilation ends as it would without torchspan."""

_GAPS_S = (5, 10, 20, 40)
_LONGEST_GAP_S = 60


def next_beat_ns(elapsed_ns: int, interval_ns: int | None) -> int:
    """The time of the next heartbeat of a piece of work, in nanoseconds since its start; always after `elapsed_ns`.

    The times are a fixed grid from the start of the work. Missed heartbeats are not made up for.

    Args:
        interval_ns: The gap between two heartbeats. The first comes after two seconds if the gap is longer. None: the
            gaps are 5, 10, 20, 40 and then 60 s, so heartbeats are due 2, 7, 17, 37, 77, 137 s after the start, and
            then every 60 s.
    """
    due_ns = FIRST_S * NS
    if interval_ns is not None:
        on_grid_ns = (elapsed_ns // interval_ns + 1) * interval_ns
        return min(due_ns, on_grid_ns) if elapsed_ns < due_ns else on_grid_ns
    if elapsed_ns < due_ns:
        return due_ns
    for gap_s in _GAPS_S:
        due_ns += gap_s * NS
        if due_ns > elapsed_ns:
            return due_ns
    return due_ns + ((elapsed_ns - due_ns) // (_LONGEST_GAP_S * NS) + 1) * _LONGEST_GAP_S * NS


# ------------------------------------------------------------------------------------------------------------------
NAME = "torchspan-heartbeats"
"""The thread's name."""


@dataclass(slots=True)
class _Schedule:
    """The time of the next report of a piece of work, in nanoseconds since its start, and the number of that report."""

    due_ns: int
    number: int = 1


class Heartbeats(Listener):
    """Reports each long piece of work at intervals, from a separate thread.

    The thread starts with the first long work, and sleeps without a timeout while there is none; see `Background`.

    Args:
        reporter: Receives the heartbeats: the start of work on the program's thread, all others on torchspan's.
        interval_s: See `next_beat_ns`.
        guard: Catches exceptions of the reporter.
        is_exported: Whether reports of an event are exported. No thread is started for other events.
        new_wake: Makes the queue on which the thread sleeps.
    """

    name = "starting heartbeats"

    def __init__(
        self,
        active: ActiveWork,
        reporter: ProgressWriter,
        interval_s: float | None,
        guard: Guard,
        new_wake: Callable[[], Wake] = queue.SimpleQueue,
        *,
        is_exported: Callable[[Event], bool] = lambda _event: True,
    ) -> None:
        self._active = active
        self._interval_ns = None if interval_s is None else round(interval_s * NS)
        self._reporter, self._guard = reporter, guard
        self._is_exported = is_exported
        self._thread = Background(NAME, self._run, new_wake)
        self._schedules: dict[Event, _Schedule] = {}
        self.phases = active.phases

    # --- on the program's threads -----------------------------------------------------------------------------
    def stop(self) -> None:
        """End the thread after its current export."""
        self._thread.stop()

    def open(self, event: Event) -> bool:
        """See `Listener`. It follows the one that is `active`."""
        if event not in self._active or not self._is_exported(event):
            return False
        try:
            self._reporter.begin(event)
        finally:  # heartbeats come, also where the start could not be recorded
            self._thread.wake()
        return True

    def close(self, event: Event, token: bool) -> None:  # noqa: ARG002 - see `Listener`
        """See `Listener`."""
        if token:
            self._thread.nudge()

    # --- on torchspan's thread ----------------------------------------------------------------------------------------------
    def _run(self, wake: Wake) -> None:
        with suppress_instrumentation():
            self._schedules = {}  # discards the entries of the parent process, if any
            while True:
                timeout = self._beat()
                try:
                    if not wake.get(timeout=timeout):
                        return
                except queue.Empty:
                    pass

    def _beat(self) -> float | None:
        """Report all work that is due. Returns the seconds until the next report, or None without work."""
        schedules = {
            event: self._schedules.get(event) or _Schedule(next_beat_ns(0, self._interval_ns))
            for event in self._active.events()
            if event.is_open
        }
        self._schedules = schedules
        due = [event for event, state in schedules.items() if event.elapsed_ns() >= state.due_ns]
        is_new = False
        for event in due:
            if self._guard.call("reporting progress", self._reporter.report, event, schedules[event].number):
                schedules[event].number += 1
                is_new = True
        if is_new:
            self._guard.call("writing progress", self._reporter.flush)
        for event in due:  # scheduled from now: heartbeats missed because of a slow processor are left out
            schedules[event].due_ns = next_beat_ns(event.elapsed_ns(), self._interval_ns)
        waits = [state.due_ns - event.elapsed_ns() for event, state in schedules.items() if event.is_open]
        return max(min(waits), 0) / NS if waits else None
