# SPDX-License-Identifier: Apache-2.0
"""Delivers within a limit of time, whatever waits forever or fails."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from torchspan._base.boundaries import ErrorBoundary
from torchspan._base.thread_starts import start_thread

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
    prepared = _Call(partial(_prepare, prepare))
    is_prepared = prepared.is_delivered(time.monotonic() + timeout_s / 2)
    flushes = [flush for owner in owners if callable(flush := getattr(owner, "force_flush", None))]
    left_ms = int(max(deadline - time.monotonic(), 0) * 1000)
    calls = [_Call(partial(_flush, flush, left_ms)) for flush in flushes]
    return all([is_prepared, *(call.is_delivered(deadline) for call in calls)])


def _prepare(prepare: Callable[[], object]) -> bool:
    prepare()
    return True


def _flush(flush: Callable[[int], object], timeout_ms: int) -> bool:
    return flush(timeout_ms) is not False


class _Call:
    """A call in a daemon thread of its own, which the end of the process does not wait for."""

    def __init__(self, call: Callable[[], bool]) -> None:
        self._call = call
        self._has_delivered = False
        self._thread = _FAILED.attempt(start_thread, "torchspan flush", self._run)  # none while Python exits

    def is_delivered(self, deadline: float) -> bool:
        """Wait until the call has ended, or `deadline` of `time.monotonic` has passed. Returns whether it delivered."""
        if self._thread is not None:
            self._thread.join(max(deadline - time.monotonic(), 0))
        return self._has_delivered

    def _run(self) -> None:
        self._has_delivered = bool(_FAILED.attempt(self._call))
