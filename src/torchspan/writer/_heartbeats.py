# SPDX-License-Identifier: Apache-2.0
"""A thread of ours that tells of long work while it goes on."""

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


class Teller(Protocol):
    """Who is told of heartbeats; called by our thread alone."""

    def tell(self, event: Event, number: int) -> bool:
        """Tell what `event` is at, for the `number`-th time from 0; False: there was nothing to tell."""

    def flush(self) -> None:
        """Send out what was told; may take as long as it likes."""


@dataclass(slots=True)
class _Told:
    """How often a piece of work was told of, and when it is due again."""

    number: int = 0
    due_ns: int = 0


class Heartbeats:
    """Tells of each long piece of work at its start and from then on at intervals, from a thread of its own.

    The thread begins with the first long work and sleeps without a timeout while there is none; see `Background`.

    teller: who is told. interval_s: see `next_beat_ns`. guard: catches what a teller raises.
    new_wake: what the thread sleeps on.
    """

    def __init__(
        self,
        active: ActiveWork,
        teller: Teller,
        interval_s: float | None,
        guard: Guard,
        new_wake: Callable[[], Wake] = queue.SimpleQueue,
    ) -> None:
        self._active = active
        self._teller = teller
        self._interval_ns = None if interval_s is None else round(interval_s * NS)
        self._guard = guard
        self._thread = Background(NAME, self._run, new_wake)
        self._told: dict[Event, _Told] = {}
        self.callback = Callback("starting heartbeats", self._start, self._end, active.callback.phases)
        """In a pipeline it comes after that of `active`."""

    # --- on the program's threads -----------------------------------------------------------------------------
    def stop(self) -> None:
        """Have the thread end; what it is exporting just now it still does."""
        self._thread.stop()

    def _start(self, event: Event) -> bool:
        if event not in self._active:
            return False
        self._thread.wake()
        return True

    def _end(self, _event: Event, is_told_of: bool | None) -> None:
        if is_told_of:
            self._thread.nudge()

    # --- on ours ----------------------------------------------------------------------------------------------
    def _run(self, wake: Wake) -> None:
        with suppress_instrumentation():
            self._told = {}  # of the parent process, if there was one
            timeout: float | None = None
            while True:
                try:
                    if not wake.get(timeout=timeout):
                        return
                except queue.Empty:
                    pass
                timeout = self._beat()

    def _beat(self) -> float | None:
        """Tell of all that is due; seconds until the next is, None where nothing is going on."""
        told = {event: self._told.get(event) or _Told() for event in self._active.events() if event.is_open}
        self._told = told
        due = [event for event, state in told.items() if event.elapsed_ns() >= state.due_ns]
        news = False
        for event in due:
            if self._guard.call("telling of progress", self._teller.tell, event, told[event].number):
                told[event].number += 1
                news = True
        if news:
            self._guard.call("sending out progress", self._teller.flush)
        for event in due:  # counted from here: what an export that took long made us miss is left out
            told[event].due_ns = next_beat_ns(event.elapsed_ns(), self._interval_ns)
        waits = [state.due_ns - event.elapsed_ns() for event, state in told.items() if event.is_open]
        return max(min(waits), 0) / NS if waits else None
