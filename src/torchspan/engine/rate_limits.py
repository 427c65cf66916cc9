# SPDX-License-Identifier: Apache-2.0
"""Rate limits for frequent events: which runs of which objects become events."""

from __future__ import annotations

import contextlib
import math
import time
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any

from torchspan.base.by_identity import ByIdentity

PER_SECOND = 10
"""Events a second and object, unless another number is given."""

PER_TRACE = 50
"""Events a trace."""

REMEMBERED = 1024
"""Traces whose events are counted. The one that has had no event for the longest time is forgotten."""


class _Window:
    """One second of one object: its beginning, in seconds of `time.perf_counter`, and the events in it."""

    __slots__ = ("began_s", "count")

    def __init__(self) -> None:
        self.began_s = -math.inf
        self.count = 0


class RateLimits:
    """Counts events by object and by trace. If threads race, each may exceed a limit by one event.

    An object is known by its identity for as long as it lives, so that a new object at the same address starts from zero. Objects
    without weak references have the limit together.

    Args:
        per_second: Events a second and object. None: any number. Less than 1 means one event in 1/per_second seconds.
    """

    def __init__(self, per_second: float | None = PER_SECOND) -> None:
        self.per_second = per_second
        self._windows: ByIdentity[_Window] = ByIdentity()
        self._shared = _Window()
        self._traces: OrderedDict[Hashable, int] = OrderedDict()

    def refused_until(self, thing: Any, trace: Hashable | None) -> float | None:
        """Count one more event of `thing`. Returns None if it is within the limits.

        Otherwise returns the `time.perf_counter`, in seconds, until which further events of `thing` in this trace
        exceed them too; infinity if the trace has all of its events.

        Args:
            trace: None where the event would begin one.
        """
        count = self._traces.get(trace, 0)
        if count:
            with contextlib.suppress(KeyError):  # another thread has just forgotten it
                self._traces.move_to_end(trace)
        if count >= PER_TRACE:
            return math.inf
        if self.per_second is not None:
            length_s = max(1.0, 1 / self.per_second)
            window = self._window(thing)
            now_s = time.perf_counter()
            if now_s - window.began_s >= length_s:
                window.began_s, window.count = now_s, 0
            if window.count >= max(self.per_second, 1):
                return window.began_s + length_s
            window.count += 1
        if trace is not None:
            self._traces[trace] = count + 1
            if len(self._traces) > REMEMBERED:
                self._traces.popitem(last=False)
        return None

    def _window(self, thing: Any) -> _Window:
        window = self._windows.get(thing)
        if window is not None:
            return window
        try:
            return self._windows.setdefault(thing, _Window())
        except TypeError:
            return self._shared
