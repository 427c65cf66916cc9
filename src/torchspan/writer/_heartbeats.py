# SPDX-License-Identifier: Apache-2.0
"""A thread of ours that tells of long work while it goes on."""

from __future__ import annotations

import contextvars
import os
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from opentelemetry.instrumentation.utils import suppress_instrumentation

from torchspan._base.errors import Guard
from torchspan.engine import ActiveWork, Callback, Event
from torchspan.writer._schedule import NS, next_beat_ns

NAME = "torchspan-heartbeats"
"""Of the thread."""


class Teller(Protocol):
    """Who is told of heartbeats; called by our thread alone."""

    def tell(self, event: Event, number: int) -> bool:
        """Tell what `event` is at, for the `number`-th time from 0; False: there was nothing to tell."""

    def flush(self) -> None:
        """Send out what was told; may take as long as it likes."""


class Wake(Protocol):
    """What the thread sleeps on: `queue.SimpleQueue`, whose `put` waits for nothing and may be called anywhere."""

    def put(self, item: bool, /) -> None:
        """Wake the thread: True to go on, False to end."""

    def get(self, *, timeout: float | None) -> bool:
        """Wait for that. Raises queue.Empty when `timeout` seconds have passed."""


@dataclass(slots=True)
class _Told:
    """How often a piece of work was told of, and when it is due again."""

    number: int = 0
    due_ns: int = 0


@dataclass(eq=False, slots=True)
class _Sleeper:
    """The thread of one process, with what it sleeps on."""

    wake: Wake
    pid: int = field(default_factory=os.getpid)


class Heartbeats:
    """Tells of each long piece of work at its start and from then on at intervals, from a thread of its own.

    The thread begins with the first long work and sleeps without a timeout while there is none; a forked child gets
    one of its own with its first. It is a daemon, so no exit waits for it. The program's threads only put
    a word into a queue, which waits for no lock that our thread holds while it writes or exports.

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
        self._new_wake = new_wake
        self._sleepers: dict[int, _Sleeper] = {}
        self._told: dict[Event, _Told] = {}
        self.callback = Callback("starting heartbeats", self._start, self._end, active.callback.phases)
        """In a pipeline it comes after that of `active`."""

    # --- on the program's threads -----------------------------------------------------------------------------
    def stop(self) -> None:
        """Have the thread end; what it is exporting just now it still does."""
        sleeper = self._sleepers.pop(os.getpid(), None)
        if sleeper is not None:
            sleeper.wake.put(False)

    def _start(self, event: Event) -> bool:
        if event not in self._active:
            return False
        pid = os.getpid()
        sleeper = self._sleepers.get(pid)
        if sleeper is None:
            # Of two threads that come here at once one wins. A lock could be held elsewhere during a fork.
            mine = _Sleeper(self._new_wake(), pid)
            sleeper = self._sleepers.setdefault(pid, mine)
            if sleeper is mine:
                thread = threading.Thread(target=self._run, args=(sleeper,), name=NAME, daemon=True)
                # Without the caller's context: whoever hands contexts down to threads would hand down one of its spans.
                contextvars.Context().run(thread.start)
        sleeper.wake.put(True)
        return True

    def _end(self, _event: Event, is_told_of: bool | None) -> None:
        sleeper = self._sleepers.get(os.getpid()) if is_told_of else None
        if sleeper is not None:
            sleeper.wake.put(True)

    # --- on ours ----------------------------------------------------------------------------------------------
    def _run(self, sleeper: _Sleeper) -> None:
        with suppress_instrumentation():
            self._told = {}  # of the parent process, if there was one
            timeout: float | None = None
            while True:
                try:
                    if not sleeper.wake.get(timeout=timeout):
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
