# SPDX-License-Identifier: Apache-2.0
"""Ends things at a program's end without waiting for long."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable


class Ends:
    """Ends things that may take long, each in a thread of its own, within one limit of time.

    The threads are started beforehand: at a program's end Python may refuse new ones. They are daemons, so that the
    process does not wait for them.
    """

    def __init__(self) -> None:
        self._waiting: list[_End] = []

    def add(self, end: Callable[[], object]) -> None:
        """Call `end` in `within`."""
        self._waiting.append(_End(end))

    def within(self, limit_s: float) -> None:
        """Call all of them now. Returns when they are done or `limit_s` seconds have passed."""
        deadline = time.monotonic() + limit_s
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            each.begin()
        for each in waiting:
            each.wait(max(deadline - time.monotonic(), 0))


class _End:
    def __init__(self, end: Callable[[], object]) -> None:
        self._end = end
        self._due, self._done = threading.Event(), threading.Event()
        self._pid = os.getpid()
        self._start()

    def _start(self) -> None:
        threading.Thread(target=self._run, args=(self._due, self._done), name="torchspan end", daemon=True).start()

    def _run(self, due: threading.Event, done: threading.Event) -> None:
        due.wait()
        try:
            self._end()
        finally:
            done.set()

    def begin(self) -> None:
        if self._pid != os.getpid():  # the thread is the parent's
            self._due, self._done = threading.Event(), threading.Event()
            try:
                self._start()
            except RuntimeError:
                self._done.set()
        self._due.set()

    def wait(self, limit_s: float) -> None:
        self._done.wait(limit_s)
