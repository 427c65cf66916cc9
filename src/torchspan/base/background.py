# SPDX-License-Identifier: Apache-2.0
"""A thread of torchspan that sleeps until there is work."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

from torchspan.base.boundaries import ErrorBoundary
from torchspan.base.forks import in_each_child
from torchspan.base.thread_starts import start_thread

_FAILED = ErrorBoundary("A thread of torchspan failed. It continues with the next work.")

Wake = queue.SimpleQueue[bool]
"""The queue on which the thread sleeps; its `put` never blocks. True: continue. False: end."""


class Background:
    """One daemon thread per process, started by the first `wake`. In a forked child, the child's first `wake` starts another one.

    Starting a thread blocks until the thread runs, which takes milliseconds while other threads hold the interpreter. So the
    thread is kept when its work is done, and sleeps. The program's threads only put an item into a queue, which takes no lock
    that the thread holds while it works. The exit of the process does not wait for the thread.

    Args:
        name: The name of the thread.
        run: The function of the thread. It is called when there is work, receives the queue, and returns when `get` returns
            False. If it raises, it is called again at the next `wake`, or at once if there has been one.
        new_wake: Makes the queue.
    """

    def __init__(
        self, name: str, run: Callable[[Wake], None], new_wake: Callable[[], Wake] = queue.SimpleQueue
    ) -> None:
        self._name = name
        self._run = run
        self._new_wake = new_wake
        self._wakes: dict[str, Wake] = {}
        """The queue on which the thread of this process sleeps, by the thread's name. Empty while there is no thread."""
        self._is_stopped = False
        in_each_child(self._forget)

    def _forget(self) -> None:
        """The thread is the parent's."""
        self._wakes = {}

    def wake(self) -> bool:
        """Start the thread if this process has none, and wake it. Raises RuntimeError if no thread can be started.

        Python starts no threads while it exits. Nothing happens then, nor after `stop`. Returns whether there is a thread.
        """
        if self._is_stopped:
            return False
        wake = self._wakes.get(self._name)
        if wake is None:
            # If two threads arrive here at once, one wins, and the other does not wait for it, as it would for a lock.
            mine = self._new_wake()
            wake = self._wakes.setdefault(self._name, mine)
            if wake is mine:
                try:
                    start_thread(self._name, self._work, mine)
                except BaseException as error:
                    self._leave(mine)
                    mine.put(False)  # an interrupt may come when it has started
                    if threading.main_thread().is_alive() or not isinstance(error, RuntimeError):
                        raise
        wake.put(True)
        if self._is_stopped:  # by another thread, which may have seen no thread to end
            self.stop()
        return self._name in self._wakes

    def _work(self, wake: Wake) -> None:
        try:
            while wake.get(timeout=None) and not _FAILED.attempt(self._has_ended, wake):
                pass
        finally:  # after what is not an Exception, which Python prints, the next work starts another thread
            self._leave(wake)

    def _leave(self, wake: Wake) -> None:
        if self._wakes.get(self._name) is wake:
            self._wakes.pop(self._name, None)

    def _has_ended(self, wake: Wake) -> bool:
        self._run(wake)
        return True

    def nudge(self) -> bool:
        """Wake the thread if this process has one. Returns whether it has."""
        wake = self._wakes.get(self._name)
        if wake is not None:
            wake.put(True)
        return wake is not None

    def stop(self) -> None:
        """End the thread after its current work. No other is started: an event of a thread of the program may end later."""
        self._is_stopped = True
        wake = self._wakes.pop(self._name, None)
        if wake is not None:
            wake.put(False)
