# SPDX-License-Identifier: Apache-2.0
"""What belongs to a piece of work and follows it: thread-local callbacks, and whether callbacks run at all.

ATen keeps both in a thread-local that ThreadLocalState copies wherever work goes on elsewhere. Python's form of that is the
context variable: tasks and `asyncio.to_thread` copy it by themselves, `_threads.py` carries it into threads and pools.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from torchspan import _dynamo_safety

if TYPE_CHECKING:
    from typing_extensions import Self

    from torchspan.subscribers.entry import Entry

T = TypeVar("T")


class RecordFunctionTLS(NamedTuple):
    """`at::RecordFunctionTLS`, of a context instead of a thread. Not to be changed, only replaced.

    callbacks: in the order of their handles. enabled: whether the user's callbacks run.
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
    """Have `tls`, got from `get_record_function_tls` elsewhere, hold here from now on."""
    if not _dynamo_safety.is_tracing():
        _TLS.set(tls)


def is_record_function_enabled() -> bool:
    """Whether the user's callbacks run here; True in code that is being traced."""
    return _dynamo_safety.is_tracing() or current().enabled


def enable_record_function(enable: bool = True) -> None:
    """Have the user's callbacks run here, or not, from now on. `RecordFunctionGuard` does it for a while."""
    if not _dynamo_safety.is_tracing():
        _TLS.set(current()._replace(enabled=enable))


class RecordFunctionGuard:
    """A context manager: the user's callbacks run inside, or do not, and afterwards as they did before.

    Only the flag is put back: thread-local callbacks added inside stay. One object may be entered again inside itself.
    What the bridge itself records is not switched by it.
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
    """A context manager: no callback of the user's runs inside."""

    def __init__(self) -> None:
        super().__init__(is_enabled=False)


class ThreadLocalState:
    """What holds for the work here, to go on with elsewhere: the part of `at::ThreadLocalState` that is RecordFunction's.

    Needed only where neither context variables nor `_threads.py` carry it: a callback of a future, a thread of C++.
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
            _TLS.set(before)

    def resume(self) -> None:
        """Have what held where this object was made hold here from now on."""
        set_record_function_tls(self._tls)
