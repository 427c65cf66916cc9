# SPDX-License-Identifier: Apache-2.0
"""Locks that are free in a forked child, and work that a fork does not cut.

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
from functools import partial
from types import MethodType
from typing import Any, Protocol, TypeVar

from torchspan._base import import_hooks  # noqa: F401 - below
from torchspan._base.boundaries import ErrorBoundary
from torchspan._base.by_identity import ByIdentity

L = TypeVar("L")


class AnyLock(Protocol):
    """`threading.Lock` or `threading.RLock`."""

    def acquire(self) -> Any: ...

    def release(self) -> None: ...


def renewed(holder: object, name: str, make: Callable[[], L]) -> L:
    """A lock for the attribute `name` of `holder`, which gets a new one in each forked child.

    Args:
        make: Makes a lock, such as `threading.Lock`.
    """
    lock = make()
    _LOCKS.setdefault(holder, {})[name] = make
    return lock


_LOCKS: ByIdentity[dict[str, Callable[[], object]]] = ByIdentity()


def _renew() -> None:
    for holder in _LOCKS:
        for name, make in (_LOCKS.get(holder) or {}).items():
            setattr(holder, name, make())


_RESETTING = ErrorBoundary("A part of torchspan was not reset in a forked process.")


def in_each_child(action: Callable[[], object]) -> None:
    """Call `action` in each forked child of this process, for state that belongs to one process.

    If `action` is a bound method, it is called as long as its object exists, which this does not keep alive.
    """
    _register(_IN_EACH_CHILD, action)


def before_each_fork(action: Callable[[], object]) -> None:
    """Call `action` before each fork of this process. See `in_each_child`."""
    _register(_BEFORE_EACH_FORK, action)


_References = list[Callable[[], "Callable[[], object] | None"]]
_BEFORE_EACH_FORK: _References = []
_IN_EACH_CHILD: _References = []
"""References to actions, because Python takes no hook back. Those whose objects are gone leave when another one is added."""


def _register(references: _References, action: Callable[[], object]) -> None:
    added = weakref.WeakMethod(action) if isinstance(action, MethodType) else lambda: action
    references[:] = [*(reference for reference in references if reference() is not None), added]


def _run(references: _References) -> None:
    for action in [reference() for reference in references]:
        if action is not None:
            _RESETTING.attempt(action)


def held_by_forks(lock: AnyLock, in_child: Callable[[], None] | None = None) -> None:
    """Take `lock` during each fork, so that no child begins with a state that is half changed.

    A fork waits for the imports of other threads first: an import may need the lock.

    Args:
        in_child: Releases the lock in the child, where more is to be done.
    """
    _HELD_BY_FORKS.append((lock, in_child or lock.release))


_HELD_BY_FORKS: list[tuple[AnyLock, Callable[[], object]]] = []
_taken: list[tuple[AnyLock, Callable[[], object]]] = []
"""Those that the running fork has taken. The first of them keeps other forks from changing it."""


def _take() -> None:
    global _taken
    _RESETTING.attempt(_IMPORTS.wait)
    taken = list(_HELD_BY_FORKS)
    for lock, _ in taken:
        lock.acquire()
    _taken = taken


def _release_in_parent() -> None:
    for lock, _ in reversed(_taken):
        lock.release()


def _release_in_child() -> None:
    _RESETTING.attempt(_renew)
    _RESETTING.attempt(_IMPORTS.begin_child)
    for _, release in _taken:
        _RESETTING.end(release)


WAIT_S = 10.0
"""Seconds that a fork waits for the imports of other threads. An import needs more only where it waits for the thread that forks."""
_POLL_S = 0.005


class _Imports:
    """The threads that import something for torchspan, and whether the fork that made this process cut an import."""

    def __init__(self) -> None:
        self.threads: list[int] = []
        self.was_cut = False

    def wait(self) -> None:
        """Wait until no other thread imports, at most `WAIT_S`."""
        end = time.monotonic() + WAIT_S if self._others() else 0.0
        while self._others() and time.monotonic() < end:
            time.sleep(_POLL_S)

    def begin_child(self) -> None:
        """The child has only the thread that forked."""
        if self._others():
            self.was_cut = True
        self.threads = [thread for thread in self.threads if thread == threading.get_ident()]

    def _others(self) -> bool:
        own = threading.get_ident()
        return any(thread != own for thread in list(self.threads))


_IMPORTS = _Imports()


@contextlib.contextmanager
def uncut() -> Iterator[None]:
    """Import something inside, on the way of an event, or take a lock of the standard library. Forks of other threads wait for the end."""
    thread = threading.get_ident()
    _IMPORTS.threads.append(thread)
    try:
        yield
    finally:
        _IMPORTS.threads.remove(thread)


def was_cut() -> bool:
    """Whether this process is a child whose fork has cut an import: what was being imported cannot be used here."""
    return _IMPORTS.was_cut


if hasattr(os, "register_at_fork"):
    # What is registered first runs last before a fork. logging and import_hooks hold their locks from then on, which imports need.
    os.register_at_fork(before=_take, after_in_parent=_release_in_parent, after_in_child=_release_in_child)
    os.register_at_fork(before=partial(_run, _BEFORE_EACH_FORK), after_in_child=partial(_run, _IN_EACH_CHILD))
