# SPDX-License-Identifier: Apache-2.0
"""The state that is propagated with a piece of work: thread-local callbacks, and whether callbacks run at all.

ATen keeps both in a thread-local, which ThreadLocalState copies where work continues elsewhere. Python's equivalent is the
context variable. Tasks and `asyncio.to_thread` copy it by themselves, and `carry.py` propagates it into threads and pools.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from torchspan import _dynamo_safety
from torchspan.subscribers.carry import StateCarrier
from torchspan.subscribers.checks import check_bool, check_callable

if TYPE_CHECKING:
    from typing_extensions import Self

    from torchspan.subscribers.entry import Entry

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
    return RecordFunctionTLS() if _dynamo_safety.is_tracing() else current()


def set_record_function_tls(tls: RecordFunctionTLS) -> None:
    """Replace the thread-local callbacks of the current context, and whether callbacks run in it.

    Args:
        tls: What `get_record_function_tls` returned, here or in another context.

    Raises:
        TypeError: `tls` is not a `RecordFunctionTLS`.
    """
    if not _dynamo_safety.is_tracing():
        if not isinstance(tls, RecordFunctionTLS):
            raise TypeError(f"tls must be a RecordFunctionTLS, which get_record_function_tls() returns, not {tls!r}")
        _put(tls)


def _put(tls: RecordFunctionTLS) -> None:
    _TLS.set(tls)
    CARRIER.set_disabled(not tls.enabled)


CARRIER = StateCarrier(RecordFunctionTLS(), get_record_function_tls, set_record_function_tls)
"""Propagates the state of the current context, in code that Dynamo does not trace."""


def is_record_function_enabled() -> bool:
    """Return whether user callbacks run in the current context. True in code that Dynamo traces."""
    return _dynamo_safety.is_tracing() or current().enabled


def enable_record_function(enable: bool = True) -> None:
    """Enable or disable user callbacks in the current context. `RecordFunctionGuard` does it for a block.

    Args:
        enable: Whether user callbacks run from now on.

    Raises:
        TypeError: `enable` is not a bool.
    """
    if not _dynamo_safety.is_tracing():
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
        if not _dynamo_safety.is_tracing():
            self._before.append(is_record_function_enabled())
            enable_record_function(self._is_enabled)
        return self

    def __exit__(self, *_exception: object) -> None:
        if not _dynamo_safety.is_tracing():
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
        if _dynamo_safety.is_tracing():
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
