# SPDX-License-Identifier: Apache-2.0
"""What belongs to a piece of work and follows it: thread-local callbacks, and whether callbacks run at all.

ATen keeps both in a thread-local that ThreadLocalState copies wherever work continues elsewhere. Python's form of that is the
context variable: tasks and `asyncio.to_thread` copy it by themselves, `carry.py` propagates it into threads and pools.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from torchspan import _dynamo_safety
from torchspan.subscribers.carry import StateCarrier

if TYPE_CHECKING:
    from typing_extensions import Self

    from torchspan.subscribers.entry import Entry

T = TypeVar("T")


class RecordFunctionTLS(NamedTuple):
    """`at::RecordFunctionTLS`, of a context instead of a thread. It is immutable: replace it.

    callbacks: in the order of their handles. enabled: whether user callbacks run.
    """

    callbacks: tuple[Entry, ...] = ()
    enabled: bool = True


_TLS: ContextVar[RecordFunctionTLS] = ContextVar("torchspan_record_function_tls", default=RecordFunctionTLS())  # noqa: B039 - immutable

current = _TLS.get
"""What holds for the work going on here, in code that is not being traced."""


def get_record_function_tls() -> RecordFunctionTLS:
    """What holds for the work going on here; nothing in code that is being traced."""
    return RecordFunctionTLS() if _dynamo_safety.is_tracing() else current()


def set_record_function_tls(tls: RecordFunctionTLS) -> None:
    """Make `tls`, got from `get_record_function_tls` elsewhere, hold here from now on."""
    if not _dynamo_safety.is_tracing():
        _put(tls)


def _put(tls: RecordFunctionTLS) -> None:
    _TLS.set(tls)
    CARRIER.set_disabled(not tls.enabled)


CARRIER = StateCarrier(RecordFunctionTLS(), get_record_function_tls, set_record_function_tls)
"""Propagates what holds here, in code that is not being traced."""


def is_record_function_enabled() -> bool:
    """Whether user callbacks run here; True in code that is being traced."""
    return _dynamo_safety.is_tracing() or current().enabled


def enable_record_function(enable: bool = True) -> None:
    """Enable or disable user callbacks for the work going on here. `RecordFunctionGuard` does it for a block."""
    if not _dynamo_safety.is_tracing():
        _put(current()._replace(enabled=enable))


class RecordFunctionGuard:
    """A context manager: user callbacks are enabled inside, or disabled, and afterwards as they were before.

    It holds in threads started and work items submitted inside as well. Only the flag is restored: thread-local callbacks
    added inside stay. One object may be entered again inside itself. It does not change what torchspan records.
    """

    def __init__(self, is_enabled: bool = True) -> None:
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
    """A context manager: no user callback runs inside."""

    def __init__(self) -> None:
        super().__init__(is_enabled=False)


class ThreadLocalState:
    """What holds for the work here, to continue with elsewhere: the part of `at::ThreadLocalState` that is RecordFunction's.

    Needed only where it is not propagated by itself: a callback of a future, a thread of C++.
    """

    def __init__(self) -> None:
        self._tls = get_record_function_tls()

    def run(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Call `function`, here, with what held where this object was made; returns and raises what it does."""
        if _dynamo_safety.is_tracing():
            return function(*args, **kwargs)
        before = current()
        self.resume()
        try:
            return function(*args, **kwargs)
        finally:
            _put(before)

    def resume(self) -> None:
        """Make what held where this object was made hold here from now on."""
        set_record_function_tls(self._tls)
