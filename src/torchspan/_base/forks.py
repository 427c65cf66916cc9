# SPDX-License-Identifier: Apache-2.0
"""Locks that are free in a forked child.

A fork copies a lock in its current state. If another thread holds the lock at that moment, no thread of the child releases it, and
the child waits forever at the next use.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from typing import TypeVar

L = TypeVar("L")


def renewed(holder: object, name: str, make: Callable[[], L]) -> L:
    """A lock for the attribute `name` of `holder`, which gets a new one in each forked child.

    make: makes a lock, such as `threading.Lock`.
    """
    lock = make()
    _LOCKS.setdefault(holder, {})[name] = make
    return lock


_LOCKS: weakref.WeakKeyDictionary[object, dict[str, Callable[[], object]]] = weakref.WeakKeyDictionary()


def _renew() -> None:
    for holder, locks in list(_LOCKS.items()):
        for name, make in locks.items():
            setattr(holder, name, make())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
