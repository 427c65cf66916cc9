# SPDX-License-Identifier: Apache-2.0
"""Threads of torchspan, which take no signals: those are for the program's threads."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import contextvars
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from torchspan.base import forks

T = TypeVar("T")


def start_thread(name: str, run: Callable[..., object], *args: Any) -> threading.Thread:
    """Start a daemon thread that calls `run(*args)`. Raises RuntimeError if Python starts no more threads.

    It has nothing of the caller's context: instrumentation that propagates contexts would propagate the caller's span.
    """
    thread = threading.Thread(target=run, args=args, name=name, daemon=True)
    without_signals(partial(contextvars.Context().run, thread.start))
    return thread


def has_ended_by(thread: threading.Thread, deadline: float) -> bool:
    """Wait until the thread has ended, or until `deadline` by `time.monotonic`. Returns whether it has ended.

    Those of the parent have ended in a forked child.
    """
    thread.join(max(deadline - time.monotonic(), 0))
    return not thread.is_alive()


# The functions of `signal` are Python code, in which a handler of the program could raise before the mask is restored.
_mask: Callable[..., Any] = getattr(_signal, "pthread_sigmask", lambda *_: None)  # Windows has none
_FAULTS = ("SIGILL", "SIGBUS", "SIGFPE", "SIGSEGV", "SIGTRAP", "SIGSYS")
"""What a thread does to itself. Blocked, they would kill the process before any handler of crashes runs."""
_BLOCKED = _signal.valid_signals() - {getattr(_signal, name, None) for name in _FAULTS}
_BLOCK, _SET = getattr(_signal, "SIG_BLOCK", 0), getattr(_signal, "SIG_SETMASK", 0)


def without_signals(start: Callable[[], T]) -> T:
    """Return what `start()` returns. Threads that it starts take no signals, which the program may block and wait for.

    A thread has the mask of the one that starts it. So the current thread takes none meanwhile either.
    """
    before = _mask(_BLOCK, ())
    try:
        _mask(_BLOCK, _BLOCKED)
        return start()
    finally:
        _mask(_SET, before)


def making_threads(make: Callable[[], T]) -> T:
    """As `without_signals`, for what starts its threads again in forked children, by hooks that `make()` registers."""
    # Hooks of torchspan.base.forks run before those of `make()`, which are between these.
    masks: list[Any] = []
    forks.register(after_in_child=lambda: masks.append(_mask(_BLOCK, ())))
    forks.register(after_in_child=partial(_mask, _BLOCK, _BLOCKED))
    try:
        return without_signals(make)
    finally:
        forks.register(after_in_child=lambda: masks and _mask(_SET, masks.pop()))
