# SPDX-License-Identifier: Apache-2.0
"""What torchspan does at a fork: all of it is registered here.

A fork copies a lock in its current state. If another thread holds the lock at that moment, no thread of the child releases it, and
the child waits forever at the next use. Python's locks of modules that are being imported cannot be renewed. So a fork waits for
torchspan's imports in other threads, and for what else holds a lock of the standard library.
"""

from __future__ import annotations

import contextlib
import logging  # noqa: F401 - below
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from types import MethodType
from typing import Any, TypeVar

from torchspan.base.boundaries import ErrorBoundary
from torchspan.base.by_identity import ByIdentity

L = TypeVar("L")

SWITCHING = threading.RLock()
"""Held while hooks, replaced names and carriers change. Each fork takes it, so that no child begins with half of a change. There is
one such lock, so that there is no order in which two of them could be taken."""


def renewed(lock: L) -> L:
    """Return `lock`, which is free in each forked child, unless the thread that forks holds it itself.

    Args:
        lock: A lock or an event of `threading`. None is left alone.
    """
    _LOCKS[lock] = None
    return lock


_LOCKS: ByIdentity[None] = ByIdentity()


def _renew_locks() -> None:
    for lock in _LOCKS:
        if not getattr(lock, "_is_owned", bool)():
            lock._at_fork_reinit()


def in_each_child(action: Callable[[], object]) -> None:
    """Call `action` in each forked child of this process, for state that belongs to one process. See `Actions.add`."""
    _IN_EACH_CHILD.add(action)


def before_each_fork(action: Callable[[], object]) -> None:
    """Call `action` before each fork of this process. See `Actions.add`."""
    _BEFORE_EACH_FORK.add(action)


class Actions:
    """What is called at some moments of the process, because Python takes no hook back.

    Args:
        consequence: The log message if an action fails.
    """

    def __init__(self, consequence: str) -> None:
        self._boundary = ErrorBoundary(consequence)
        self._references: list[Callable[[], Callable[[], object] | None]] = []

    def add(self, action: Callable[[], object]) -> None:
        """Call `action` from now on. If it is a bound method, as long as its object exists, which this does not keep alive."""
        self._references.append(weakref.WeakMethod(action) if isinstance(action, MethodType) else lambda: action)
        for gone in [each for each in self._references if each() is None]:
            with contextlib.suppress(ValueError):  # another thread has removed it. No lock: this may run in a finalizer
                self._references.remove(gone)

    def run(self) -> None:
        """Call all of them, in the order in which they were added."""
        for action in [reference() for reference in self._references]:
            if action is not None:
                self._boundary.attempt(action)


_RESET = "A part of torchspan was not reset in a forked process."
_RESETTING, _BEFORE_EACH_FORK, _IN_EACH_CHILD = ErrorBoundary(_RESET), Actions(_RESET), Actions(_RESET)


# --- imports ----------------------------------------------------------------------------------------------------------
WAIT_S = 10.0
"""Seconds that a fork waits for the imports of other threads. An import needs more only where it waits for the thread that forks."""
_POLL_S = 0.005


class _Imports:
    """One for the process.

    Attributes:
        threads: Those that import something for torchspan.
        was_cut: Whether the fork that made this process cut an import.
    """

    threads: list[int] = []  # noqa: RUF012 - one for the process
    was_cut = False


@contextlib.contextmanager
def uncut() -> Iterator[None]:
    """Import something inside, on the way of an event, or take a lock of the standard library. Forks of other threads wait for the end."""
    thread = threading.get_ident()
    _Imports.threads.append(thread)
    try:
        yield
    finally:
        _Imports.threads.remove(thread)


def was_cut() -> bool:
    """Whether this process is a child whose fork has cut an import: what was being imported cannot be used here."""
    return _Imports.was_cut


def _other_imports() -> list[int]:
    own = threading.get_ident()
    return [thread for thread in list(_Imports.threads) if thread != own]


def _wait_for_imports() -> None:
    end = time.monotonic() + WAIT_S
    while _other_imports() and time.monotonic() < end:
        time.sleep(_POLL_S)


def _forget_imports() -> None:
    """The child has only the thread that forked."""
    for thread in _other_imports():
        _Imports.was_cut = True
        _Imports.threads.remove(thread)


class ThisProcess:
    """What tells a process from the one that forked it.

    Attributes:
        generation: Another number in each forked child. It is read faster than the number of the process.
    """

    generation = 0


# --- the fork ---------------------------------------------------------------------------------------------------------
def _before() -> None:
    _BEFORE_EACH_FORK.run()
    _RESETTING.attempt(_wait_for_imports)  # first: an import may need the lock
    SWITCHING.acquire()


def _in_child() -> None:
    ThisProcess.generation += 1
    _RESETTING.attempt(_renew_locks)
    _RESETTING.attempt(_forget_imports)
    SWITCHING.release()
    _IN_EACH_CHILD.run()


register: Callable[..., Any] = getattr(os, "register_at_fork", lambda **_: None)
"""`os.register_at_fork`, where the order matters. Windows has none."""
# What is registered first runs last before a fork. logging holds its lock from then on, which imports need.
register(before=_before, after_in_parent=SWITCHING.release, after_in_child=_in_child)
