# SPDX-License-Identifier: Apache-2.0
"""Time that passes when a test lets it, for events and for a thread that sleeps."""

import itertools
import queue
import threading
import time
from collections import deque

from torchspan.engine import event as event_module

START_NS = 1_795_257_760_000_000_000  # 2026-11-21 10:42:40 UTC
MILLISECOND_NS = 1_000_000
_PATIENCE_S = 60


def replace_clocks(monkeypatch, module, clocks):
    """Let `module`, which has imported the two clocks themselves, read those of `clocks`."""
    for name in ("time_ns", "perf_counter_ns"):
        monkeypatch.setattr(module, name, getattr(clocks, name))


class FakeTime:
    """The clocks that events read, standing still between two calls of `advance`."""

    def __init__(self, monkeypatch):
        self.now_ns = 0
        self._changed = threading.Condition()
        self._sleeps = []
        replace_clocks(monkeypatch, event_module, self)

    def time_ns(self):
        return START_NS + self.now_ns

    def perf_counter_ns(self):
        return self.now_ns

    def new_sleep(self):
        """What a thread sleeps on; has the interface of `queue.SimpleQueue`."""
        self._sleeps.append(Sleep(self, self._changed))
        return self._sleeps[-1]

    def advance(self, seconds):
        """Let time pass and wait until every thread has done what was due, one deadline after the other."""
        with self._changed:
            end_ns = self.now_ns + round(seconds * 1e9)
            while True:
                self._settle()
                due = [each.deadline_ns for each in self._sleeps if each.deadline_ns is not None]
                self.now_ns = min([end_ns, *due])
                self._changed.notify_all()
                if self.now_ns == end_ns:
                    break
            self._settle()

    def jump(self, seconds):
        """Let time pass, whatever threads are doing."""
        with self._changed:
            self.now_ns += round(seconds * 1e9)
            self._changed.notify_all()

    def settle(self):
        """Wait until every thread sleeps."""
        with self._changed:
            self._settle()

    def _settle(self):
        done = self._changed.wait_for(lambda: all(each.is_settled() for each in self._sleeps), _PATIENCE_S)
        assert done, "a thread did not come to rest"


class Sleep:
    """One thread's sleep. deadline_ns: when it wakes by itself, None: never."""

    def __init__(self, time, changed):
        self._time, self._changed = time, changed
        self._items = deque()
        self._sleeps = False
        self._has_ended = False
        self.deadline_ns = None

    def put(self, item):
        with self._changed:
            self._items.append(item)
            self._changed.notify_all()

    def get(self, *, timeout):
        with self._changed:
            self.deadline_ns = None if timeout is None else self._time.now_ns + round(timeout * 1e9)
            self._sleeps = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._items or self._is_over())
            self._sleeps = False
            if not self._items:
                raise queue.Empty
            item = self._items.popleft()
            self._has_ended = not item
            return item

    def is_settled(self):
        """Whether the thread sleeps, with nothing to wake it, or has been reported to end."""
        return self._has_ended or (self._sleeps and not self._items and not self._is_over())

    def _is_over(self):
        return self.deadline_ns is not None and self._time.now_ns >= self.deadline_ns


class Ticking:
    """Clocks of which each reading is later than the one before, by `step_ns` more than the time that has passed."""

    def __init__(self, step_ns):
        self._step_ns = step_ns
        self._readings = itertools.count(1)

    def time_ns(self):
        return time.time_ns() + self._step_ns * next(self._readings)

    def perf_counter_ns(self):
        return time.perf_counter_ns() + self._step_ns * next(self._readings)
