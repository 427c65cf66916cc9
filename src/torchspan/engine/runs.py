# SPDX-License-Identifier: Apache-2.0
"""Rate limits for frequent events: which run of which object gets an event of its own."""

from __future__ import annotations

import time
import weakref
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any

PER_SECOND = 10
"""Events a second and object."""

PER_TRACE = 50
"""Events a trace."""

REMEMBERED = 1024
"""Traces, and objects, whose events are counted; the oldest is forgotten."""


class Runs:
    """Counts runs by the object that runs and by trace. Not exact under races: a limit may be passed by one."""

    def __init__(self) -> None:
        self.fresh: dict[int, Any] = {}
        """Addresses of objects that were made and have not run. Mostly empty, which is all a hot path asks."""
        self._windows: OrderedDict[int, list[float]] = OrderedDict()
        self._traces: OrderedDict[Hashable, int] = OrderedDict()

    def made(self, thing: Any) -> None:
        """`thing` has been made: its next run is its first."""
        key = id(thing)
        try:
            self.fresh[key] = weakref.ref(thing, lambda _gone: self.fresh.pop(key, None))
        except TypeError:  # no weak references: if it goes unrun, its address may be taken for a later object's
            self.fresh[key] = None

    def first(self, thing: Any) -> bool:
        """Whether this is the first run of `thing` since it was made; from now on it is not."""
        return self.fresh.pop(id(thing), self) is not self  # one step: two threads may run it at once

    def allow(self, thing: Any, trace: Hashable | None) -> bool:
        """Whether one more event fits the limits; if so it is counted. trace: None where the event would begin one."""
        count = 0 if trace is None else self._traces.get(trace, 0)
        if count >= PER_TRACE:
            return False
        window = self._windows.setdefault(id(thing), [0.0, 0])
        now_s = time.monotonic()
        if now_s - window[0] >= 1:
            window[:] = [now_s, 0]
        if window[1] >= PER_SECOND:
            return False
        window[1] += 1
        if trace is not None:
            self._traces[trace] = count + 1
        for counted in (self._traces, self._windows):
            if len(counted) > REMEMBERED:
                counted.popitem(last=False)
        return True
