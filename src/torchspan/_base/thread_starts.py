# SPDX-License-Identifier: Apache-2.0
"""Threads of torchspan, which take no signals: those are for the program's threads."""

from __future__ import annotations

import contextvars
import os
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")


def start_thread(name: str, run: Callable[..., object], *args: Any) -> threading.Thread:
    """Start a daemon thread that calls `run(*args)`. Raises RuntimeError if Python starts no more threads.

    It has nothing of the caller's context: instrumentation that propagates contexts would propagate the caller's span.
    """
    thread = threading.Thread(target=run, args=args, name=name, daemon=True)
    without_signals(partial(contextvars.Context().run, thread.start))
    return thread


if sys.platform == "win32":

    def without_signals(start: Callable[[], T]) -> T:
        """Return what `start()` returns. Windows has no masks of signals."""
        return start()

    making_threads = without_signals
else:
    # The functions of `signal` are Python code, in which a handler of the program could raise before the mask is restored.
    import _signal  # type: ignore[import-not-found]

    _FAULTS = {_signal.SIGILL, _signal.SIGBUS, _signal.SIGFPE, _signal.SIGSEGV, _signal.SIGTRAP, _signal.SIGSYS}
    """What a thread does to itself. Blocked, they would kill the process before any handler of crashes runs."""
    _BLOCKED = _signal.valid_signals() - _FAULTS
    _mask = _signal.pthread_sigmask

    def without_signals(start: Callable[[], T]) -> T:
        """Return what `start()` returns. Threads that it starts take no signals, which the program may block and wait for.

        A thread has the mask of the one that starts it. So the current thread takes none meanwhile either.
        """
        before = _mask(_signal.SIG_BLOCK, ())
        try:
            _mask(_signal.SIG_BLOCK, _BLOCKED)
            return start()
        finally:
            _mask(_signal.SIG_SETMASK, before)

    def making_threads(make: Callable[[], T]) -> T:
        """As `without_signals`, for what starts its threads again in forked children, by hooks that `make()` registers."""
        before: list[object] = []

        def block() -> None:
            before[:] = [_mask(_signal.SIG_BLOCK, ())]
            _mask(_signal.SIG_BLOCK, _BLOCKED)

        def restore() -> None:
            if before:
                _mask(_signal.SIG_SETMASK, before.pop())

        os.register_at_fork(after_in_child=block)
        try:
            return without_signals(make)
        finally:
            os.register_at_fork(after_in_child=restore)
