# SPDX-License-Identifier: Apache-2.0
"""Propagates what holds for a piece of work into threads and pools of threads, as `torchspan._context.threads` does it."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from torchspan._context import threads

if TYPE_CHECKING:
    from torchspan.subscribers.local_state import RecordFunctionTLS


class _Mark:
    """Referenced by each piece of work for which callbacks are disabled."""


class StateCarrier(threads.ContextCarrier):
    """Carries the `RecordFunctionTLS`, while it can differ from its default anywhere in the process.

    There are two reasons for that: callbacks are registered for a piece of work, or disabled for one. Work can end without
    enabling them again. So each piece of work that is disabled holds a mark, and the carrier is needed while one exists.

    outside: the default. get, put: read and set what holds here.
    """

    outside: Any = None

    def __init__(
        self,
        outside: RecordFunctionTLS,
        get: Callable[[], RecordFunctionTLS],
        put: Callable[[RecordFunctionTLS], None],
    ) -> None:
        super().__init__(
            "Propagating callbacks failed; the program continues, but they do not run in its other threads."
        )
        self.outside = outside
        self._get = get
        self._put = put
        self._mark: ContextVar[_Mark | None] = ContextVar("torchspan_callbacks_disabled", default=None)
        self._marks: weakref.WeakSet[_Mark] = weakref.WeakSet()
        self._are_registered = False

    def for_thread(self) -> RecordFunctionTLS | None:
        """What holds here."""
        value = self._get()
        return None if value == self.outside else value

    for_item = for_thread

    def enter(self, value: RecordFunctionTLS) -> RecordFunctionTLS:
        """Make `value` hold here. Returns what held before."""
        before = self._get()
        self._put(value)
        return before

    def leave(self, before: RecordFunctionTLS) -> None:
        """Make `before` hold here again."""
        self._put(before)

    # --- when it is needed --------------------------------------------------------------------------------------
    def set_registered(self, are_registered: bool) -> None:
        """Take note whether callbacks are registered for any piece of work."""
        with _LOCK:
            self._are_registered = are_registered
            self._update()

    def set_disabled(self, is_disabled: bool) -> None:
        """Take note whether callbacks are disabled in the current context."""
        if is_disabled == (self._mark.get() is not None):
            return
        with _LOCK:
            mark = _Mark() if is_disabled else None
            self._mark.set(mark)
            if mark is not None:
                self._marks.add(mark)
            self._update()

    def _update(self) -> None:
        (threads.add if self._are_registered or self._marks else threads.remove)(self)


_LOCK = threading.RLock()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_LOCK.acquire, after_in_parent=_LOCK.release, after_in_child=_LOCK.release)
