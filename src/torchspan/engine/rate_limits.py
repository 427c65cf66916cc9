# SPDX-License-Identifier: Apache-2.0
"""Rate limits for frequent events: which runs of which objects become events."""

from __future__ import annotations

import contextlib
import math
import time
import weakref
from collections import OrderedDict
from collections.abc import Hashable
from functools import partial
from typing import Any

PER_SECOND = 10
"""Events a second and object, unless another number is given."""

PER_TRACE = 50
"""Events a trace."""

UNREFERABLE_LIMIT = 1_000
"""Objects without weak references that have windows. Beyond that, the windows of all of them begin at zero."""

REMEMBERED = 1024
"""Traces whose events are counted. The one that has had no event for the longest time is forgotten."""


class _Window:
    """One second of one object: its beginning, in seconds of `time.perf_counter`, and the events in it."""

    __slots__ = ("began_s", "count", "owner")

    def __init__(self, owner: Any) -> None:
        self.began_s = -math.inf
        self.count = 0
        self.owner = owner


class RateLimits:
    """Counts events by object and by trace. If threads race, each may exceed a limit by one event.

    An object is known by its identity for as long as it lives, so that a new object at the same address starts from zero.

    Args:
        per_second: Events a second and object. None: any number. Less than 1 means one event in 1/per_second seconds.
    """

    def __init__(self, per_second: float | None = PER_SECOND) -> None:
        self.per_second = per_second
        self._windows: dict[int, _Window] = {}
        self._unreferable: dict[int, _Window] = {}
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
        key = id(thing)
        window = self._windows.get(key) or self._unreferable.get(key)
        if window is not None:
            return window
        try:
            owner: Any = weakref.ref(thing, partial(self._windows.pop, key))  # the reference is the default
        except TypeError:  # no weak references: a later object at its address may be mistaken for it
            if len(self._unreferable) >= UNREFERABLE_LIMIT:
                self._unreferable.clear()
            return self._unreferable.setdefault(key, _Window(None))
        return self._windows.setdefault(key, _Window(owner))
