# SPDX-License-Identifier: Apache-2.0
"""A thread of torchspan's own, which sleeps until there is work."""

from __future__ import annotations

import contextvars
import os
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol


class Wake(Protocol):
    """What the thread sleeps on: `queue.SimpleQueue`, whose `put` waits for nothing and may be called anywhere."""

    def put(self, item: bool, /) -> None:
        """Wake the thread: True to continue, False to end."""

    def get(self, *, timeout: float | None) -> bool:
        """Wait for that. Raises queue.Empty when `timeout` seconds have passed."""


@dataclass(eq=False, slots=True)
class _Sleeper:
    """The thread of one process, by what it sleeps on."""

    wake: Wake
    pid: int = field(default_factory=os.getpid)


class Background:
    """One daemon thread a process, started by the first `wake`; a forked child gets one of its own with its first.

    Starting a thread waits until it runs, which takes milliseconds where others hold the interpreter. So the thread stays when
    its work is done, and sleeps. The program's threads only put a word into a queue, which waits for no lock that the thread
    holds while it works. No exit waits for it.

    name: of the thread. run: what it does, given what it sleeps on; it returns when `get` answers False.
    new_wake: makes what it sleeps on.
    """

    def __init__(
        self, name: str, run: Callable[[Wake], None], new_wake: Callable[[], Wake] = queue.SimpleQueue
    ) -> None:
        self._name = name
        self._run = run
        self._new_wake = new_wake
        self._sleepers: dict[int, _Sleeper] = {}

    def wake(self) -> None:
        """Start the thread if this process has none, and wake it. Raises RuntimeError where none can be started.

        Python starts none when it is ending: then nothing happens.
        """
        pid = os.getpid()
        sleeper = self._sleepers.get(pid)
        if sleeper is None:
            # Of two threads that come here at once one wins. A lock could be held elsewhere during a fork.
            mine = _Sleeper(self._new_wake(), pid)
            sleeper = self._sleepers.setdefault(pid, mine)
            if sleeper is mine:
                thread = threading.Thread(target=self._run, args=(mine.wake,), name=self._name, daemon=True)
                try:
                    # Without the caller's context: instrumentation that hands contexts down would hand down its span.
                    contextvars.Context().run(thread.start)
                except RuntimeError:
                    self._sleepers.pop(pid, None)
                    if threading.main_thread().is_alive():
                        raise
        sleeper.wake.put(True)

    def nudge(self) -> None:
        """Wake the thread if this process has one."""
        sleeper = self._sleepers.get(os.getpid())
        if sleeper is not None:
            sleeper.wake.put(True)

    def stop(self) -> None:
        """Have the thread end, after what it is doing just now."""
        sleeper = self._sleepers.pop(os.getpid(), None)
        if sleeper is not None:
            sleeper.wake.put(False)
