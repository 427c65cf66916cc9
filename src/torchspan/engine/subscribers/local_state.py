# SPDX-License-Identifier: Apache-2.0
"""The state that is propagated with a piece of work: thread-local callbacks, and whether callbacks run at all.

ATen keeps both in a thread-local, which ThreadLocalState copies where work continues elsewhere. Python's equivalent is the
context variable. Tasks and `asyncio.to_thread` copy it by themselves, and `_context/threads.py` propagates it into threads and pools.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from torchspan.base import dynamo_safety, forks
from torchspan.base.context import threads
from torchspan.engine.subscribers.checks import check_bool, check_callable

if TYPE_CHECKING:
    from typing_extensions import Self

    from torchspan.engine.subscribers.entry import Entry


T = TypeVar("T")


class RecordFunctionTLS(NamedTuple):
    """`at::RecordFunctionTLS`, for an execution context instead of a thread. It is immutable, so replace it as a whole.

    Attributes:
        callbacks: The thread-local callbacks, in the order of their handles.
        enabled: Whether user callbacks run.
    """

    callbacks: tuple[Entry, ...] = ()
    enabled: bool = True


_TLS: ContextVar[RecordFunctionTLS] = ContextVar("torchspan_record_function_tls", default=RecordFunctionTLS())  # noqa: B039 - immutable

current = _TLS.get
"""The state of the current context, in code that Dynamo does not trace."""


def get_record_function_tls() -> RecordFunctionTLS:
    """Return the thread-local callbacks of the current context, and whether callbacks run in it.

    Returns:
        A value for `set_record_function_tls`. In code that Dynamo traces, the default value.
    """
    return RecordFunctionTLS() if dynamo_safety.is_tracing() else current()


def set_record_function_tls(tls: RecordFunctionTLS) -> None:
    """Replace the thread-local callbacks of the current context, and whether callbacks run in it.

    Args:
        tls: What `get_record_function_tls` returned, here or in another context.

    Raises:
        TypeError: `tls` is not a `RecordFunctionTLS`.
    """
    if not dynamo_safety.is_tracing():
        if not isinstance(tls, RecordFunctionTLS):
            raise TypeError(f"tls must be a RecordFunctionTLS, which get_record_function_tls() returns, not {tls!r}")
        _put(tls)


def _put(tls: RecordFunctionTLS) -> None:
    _TLS.set(tls)
    CARRIER.set_disabled(not tls.enabled)


# --- callbacks in threads and pools of threads ----------------------------------------------------------------------
class _Mark:
    """Referenced by each piece of work for which callbacks are disabled."""


class StateCarrier(threads.ContextCarrier):
    """Carries the `RecordFunctionTLS`, while it can differ from its default anywhere in the process.

    There are two reasons for that: callbacks are registered for a piece of work, or disabled for one. Work can end without
    enabling them again. So each piece of work that is disabled holds a mark, and the carrier is needed while one exists.
    """

    outside = RecordFunctionTLS()

    def __init__(self) -> None:
        super().__init__(
            "Propagating callbacks failed; the program continues, but they do not run in its other threads."
        )
        self._mark: ContextVar[_Mark | None] = ContextVar("torchspan_callbacks_disabled", default=None)
        self._marks: weakref.WeakSet[_Mark] = weakref.WeakSet()
        self._are_registered = False

    def for_thread(self) -> RecordFunctionTLS | None:
        """What holds here."""
        value = current()
        return None if value == self.outside else value

    for_item = for_thread

    def enter(self, value: RecordFunctionTLS) -> RecordFunctionTLS:
        """Make `value` hold here. Returns what held before."""
        before = current()
        _put(value)
        return before

    def leave(self, before: RecordFunctionTLS) -> None:
        """Make `before` hold here again."""
        _put(before)

    # --- when it is needed --------------------------------------------------------------------------------------
    def set_registered(self, are_registered: bool) -> None:
        """Take note whether callbacks are registered for any piece of work."""
        with forks.SWITCHING:
            self._are_registered = are_registered
            self._update()

    def set_disabled(self, is_disabled: bool) -> None:
        """Take note whether callbacks are disabled in the current context."""
        if is_disabled == (self._mark.get() is not None):
            return
        with forks.SWITCHING:
            mark = _Mark() if is_disabled else None
            self._mark.set(mark)
            if mark is not None:
                self._marks.add(mark)
            self._update()

    def _update(self) -> None:
        (threads.add if self._are_registered or self._marks else threads.remove)(self)


CARRIER = StateCarrier()
"""The process's."""


def is_record_function_enabled() -> bool:
    """Return whether user callbacks run in the current context. True in code that Dynamo traces."""
    return dynamo_safety.is_tracing() or current().enabled


def enable_record_function(enable: bool = True) -> None:
    """Enable or disable user callbacks in the current context. `RecordFunctionGuard` does it for a block.

    Args:
        enable: Whether user callbacks run from now on.

    Raises:
        TypeError: `enable` is not a bool.
    """
    if not dynamo_safety.is_tracing():
        check_bool("enable", enable)
        _put(current()._replace(enabled=enable))


class RecordFunctionGuard:
    """A context manager that enables or disables user callbacks inside, and restores the earlier state afterwards.

    The state is propagated into threads that are started inside and work items that are submitted inside. Thread-local
    callbacks that are registered inside stay registered. One object may be entered again inside itself. The guard does not
    change what torchspan records.

    Args:
        is_enabled: Whether user callbacks run inside.

    Raises:
        TypeError: `is_enabled` is not a bool.
    """

    def __init__(self, is_enabled: bool = True) -> None:
        check_bool("is_enabled", is_enabled)
        self._is_enabled = is_enabled
        self._before: list[bool] = []

    def __enter__(self) -> Self:
        if not dynamo_safety.is_tracing():
            self._before.append(is_record_function_enabled())
            enable_record_function(self._is_enabled)
        return self

    def __exit__(self, *_exception: object) -> None:
        if not dynamo_safety.is_tracing():
            enable_record_function(self._before.pop())


class DisableRecordFunctionGuard(RecordFunctionGuard):
    """A context manager in which no user callback runs."""

    def __init__(self) -> None:
        super().__init__(is_enabled=False)


class ThreadLocalState:
    """The thread-local callbacks of the context it is created in, for use in another context, like `at::ThreadLocalState`.

    Use it where work continues in a context that torchspan does not propagate to: a callback of a future, a thread that C++
    started.
    """

    def __init__(self) -> None:
        self._tls = get_record_function_tls()

    def run(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Call a function with the callbacks of the context in which this object was created.

        Args:
            function: The function to call.
            *args: Its positional arguments.
            **kwargs: Its keyword arguments.

        Returns:
            What the function returns. Its exceptions pass.

        Raises:
            TypeError: `function` cannot be called.
        """
        if dynamo_safety.is_tracing():
            return function(*args, **kwargs)
        check_callable("function", function)
        before = current()
        self.resume()
        try:
            return function(*args, **kwargs)
        finally:
            _put(before)

    def resume(self) -> None:
        """From now on, use the callbacks of the context in which this object was created in the current context."""
        set_record_function_tls(self._tls)
