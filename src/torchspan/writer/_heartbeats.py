# SPDX-License-Identifier: Apache-2.0
"""Reports long work while it runs, from a thread of torchspan's."""

from __future__ import annotations

import queue
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from opentelemetry.instrumentation.utils import suppress_instrumentation

from torchspan._base.errors import Guard
from torchspan.engine import ActiveWork, Callback, Event
from torchspan.writer._background import Background, Wake
from torchspan.writer._schedule import NS, next_beat_ns

NAME = "torchspan-heartbeats"
"""Of the thread."""


class ProgressReporter(Protocol):
    """Receives heartbeats: the start of a piece of work on the program's thread, all others on torchspan's thread."""

    def begin(self, event: Event) -> None:
        """Record that `event` began. It waits for no network."""

    def report(self, event: Event, number: int) -> bool:
        """Report what `event` is doing, for the `number`-th time from 1. Returns False if there is nothing to report."""

    def flush(self) -> None:
        """Write what was reported, where that waits for no network."""


@dataclass(slots=True)
class _Schedule:
    """When a piece of work is due to be reported, in nanoseconds since its start, and for which time."""

    due_ns: int
    number: int = 1


class Heartbeats:
    """Reports each long piece of work at intervals, from a thread of its own.

    The thread begins with the first long work and sleeps without a timeout while there is none; see `Background`.

    reporter: receives the heartbeats. interval_s: see `next_beat_ns`. guard: catches what the reporter raises.
    is_exported: whether what is reported of work goes anywhere; for other work no thread is started.
    new_wake: what the thread sleeps on.
    """

    def __init__(
        self,
        active: ActiveWork,
        reporter: ProgressReporter,
        interval_s: float | None,
        guard: Guard,
        new_wake: Callable[[], Wake] = queue.SimpleQueue,
        *,
        is_exported: Callable[[Event], bool] = lambda _event: True,
    ) -> None:
        self._active = active
        self._reporter = reporter
        self._interval_ns = None if interval_s is None else round(interval_s * NS)
        self._guard = guard
        self._is_exported = is_exported
        self._thread = Background(NAME, self._run, new_wake)
        self._schedules: dict[Event, _Schedule] = {}
        self.callback = Callback("starting heartbeats", self._start, self._end, active.callback.phases)
        """In a pipeline it comes after that of `active`."""

    # --- on the program's threads -----------------------------------------------------------------------------
    def stop(self) -> None:
        """Have the thread end; what it is exporting just now it still does."""
        self._thread.stop()

    def _start(self, event: Event) -> bool:
        if event not in self._active or not self._is_exported(event):
            return False
        self._guard.call("recording the start of long work", self._reporter.begin, event)
        self._thread.wake()
        return True

    def _end(self, _event: Event, is_reported: bool | None) -> None:
        if is_reported:
            self._thread.nudge()

    # --- on torchspan's thread ----------------------------------------------------------------------------------------------
    def _run(self, wake: Wake) -> None:
        with suppress_instrumentation():
            self._schedules = {}  # of the parent process, if there was one
            timeout: float | None = None
            while True:
                try:
                    if not wake.get(timeout=timeout):
                        return
                except queue.Empty:
                    pass
                timeout = self._beat()

    def _beat(self) -> float | None:
        """Report all that is due. Returns the seconds until the next is due, None while there is no work."""
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
        for event in due:  # counted from here: heartbeats missed while a processor took long are left out
            schedules[event].due_ns = next_beat_ns(event.elapsed_ns(), self._interval_ns)
        waits = [state.due_ns - event.elapsed_ns() for event, state in schedules.items() if event.is_open]
        return max(min(waits), 0) / NS if waits else None
