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

TRACES_REMEMBERED = 1024
"""Traces whose events are counted; the oldest is forgotten."""


class Runs:
    """Counts runs by the object that runs and by trace. Not exact under races: a limit may be passed by one."""

    def __init__(self) -> None:
        self.fresh: dict[int, Any] = {}
        """Addresses of objects that were made and have not run. Mostly empty, which is all a hot path asks."""
        self._windows: dict[int, list[float]] = {}
        self._traces: OrderedDict[Hashable, int] = OrderedDict()

    def made(self, thing: Any) -> None:
        """`thing` has been made: its next run is its first."""
        key = id(thing)
        try:
            self.fresh[key] = weakref.ref(thing, lambda _gone: self._forget(key))
        except TypeError:  # no weak references: if it goes unrun, its address may be taken for a later object's
            self.fresh[key] = None

    def first(self, thing: Any) -> bool:
        """Whether this is the first run of `thing` since it was made; from now on it is not."""
        key = id(thing)
        if key not in self.fresh:
            return False
        del self.fresh[key]
        return True

    def _forget(self, key: int) -> None:
        self.fresh.pop(key, None)
        self._windows.pop(key, None)

    def allow(self, thing: Any, trace: Hashable) -> bool:
        """Whether one more event fits the limits; if so it is counted."""
        count = self._traces.get(trace, 0)
        if count >= PER_TRACE:
            return False
        window = self._windows.setdefault(id(thing), [0.0, 0])
        now_s = time.monotonic()
        if now_s - window[0] >= 1:
            window[:] = [now_s, 0]
        if window[1] >= PER_SECOND:
            return False
        window[1] += 1
        self._traces[trace] = count + 1
        while len(self._traces) > TRACES_REMEMBERED:
            self._traces.popitem(last=False)
        return True
