# SPDX-License-Identifier: Apache-2.0
"""Delivers within a limit of time, whatever waits forever or fails."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from torchspan.base.boundaries import ErrorBoundary
from torchspan.base.thread_starts import has_ended_by, start_thread

_FAILED = ErrorBoundary("torchspan.flush() could not deliver everything.")


def flush_all(prepare: Callable[[], object], owners: Iterable[Any], timeout_s: float) -> bool:
    """Call `prepare`, and then `force_flush` of each owner that has one, all of them at once.

    The calls run in threads: a signal handler may have interrupted code that holds a lock which they need.

    Args:
        prepare: May take half of the time.
        owners: Providers of an SDK, or of the API alone, which have no `force_flush`.
        timeout_s: Returns after this many seconds at the latest.

    Returns:
        Whether no call failed, returned False or took too long.
    """
    deadline = time.monotonic() + timeout_s
    prepared = _Call(prepare)
    is_prepared = prepared.is_delivered(time.monotonic() + timeout_s / 2)
    flushes = [flush for owner in owners if callable(flush := getattr(owner, "force_flush", None))]
    left_ms = int(max(deadline - time.monotonic(), 0) * 1000)
    calls = [_Call(flush, left_ms) for flush in flushes]
    return all([is_prepared, *(call.is_delivered(deadline) for call in calls)])


class _Call:
    """A call in a thread of its own. It delivers unless it fails or returns False."""

    def __init__(self, call: Callable[..., object], *args: Any) -> None:
        self._call = partial(call, *args)
        self._has_delivered = False
        self._thread = _FAILED.attempt(start_thread, "torchspan flush", self._run)  # none while Python exits

    def is_delivered(self, deadline: float) -> bool:
        """Wait until the call has ended, or `deadline` of `time.monotonic` has passed. Returns whether it delivered."""
        return self._thread is not None and has_ended_by(self._thread, deadline) and self._has_delivered

    def _run(self) -> None:
        self._has_delivered = _FAILED.attempt(self._deliver) is True

    def _deliver(self) -> bool:
        return self._call() is not False
