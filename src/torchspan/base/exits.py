# SPDX-License-Identifier: Apache-2.0
"""What runs when the program ends."""

from __future__ import annotations

import atexit
import contextlib
import threading
import time
from collections.abc import Callable

from torchspan.base.forks import Actions

AT_EXIT = Actions("Something of torchspan was not written at the end of the process.")
"""Called when the main thread has ended, and again when the last thread has ended.

In `atexit` functions Python refuses to start threads, so an SDK that has not been imported yet does not work there, and one that
registered later has been shut down. If the main thread has already ended, nothing can be registered with `threading`.
"""
atexit.register(AT_EXIT.run)
with contextlib.suppress(AttributeError, RuntimeError):
    threading._register_atexit(AT_EXIT.run)  # type: ignore[attr-defined]


GLANCE_S = 0.05
"""Seconds for an exporter that did not answer before: enough for one that answers again on the same machine."""

NOT_TAKEN = "an exporter of metrics or of the program's own did not take all that was recorded before a process ended"

AGAIN_S = 60.0
"""Seconds after which it gets the whole time again."""


class Patience:
    """How long the end of a process may wait for exporters, so that a process and its children give up only once.

    Args:
        limit_s: Seconds for an end.
        last: Returns when one of these processes last gave up, by `time.monotonic`, which they share.
        note: Called with the time when this one has.
    """

    def __init__(self, limit_s: float, last: Callable[[], float], note: Callable[[float], object]) -> None:
        self._limit_s, self._last, self._note = limit_s, last, note

    def limit_s(self) -> float:
        """Seconds that an end may wait now."""
        is_known = time.monotonic() - self._last() < AGAIN_S
        return min(self._limit_s, GLANCE_S) if is_known else self._limit_s

    def gave_up(self) -> None:
        """The exporters did not end in this time."""
        self._note(time.monotonic())
