# SPDX-License-Identifier: Apache-2.0
"""Lets things follow the work into threads and pools of threads, where Python carries no context variable.

`add` a `Passenger`, and what it has where a thread is started or a work item submitted holds in that thread, or around that
item. A pool's worker is not its first item: it starts with nothing. Names of the standard library are replaced while there
is a passenger, once for all of them: wrappers of their own around the same names could not be taken off in any order.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from operator import methodcaller
from typing import Any, TypeVar

from torchspan._base.import_hooks import Undo, when_imported
from torchspan._base.patching import Function, Guarded, Names

__all__ = ["Passenger", "add", "remove", "within"]

T = TypeVar("T")


class Passenger(Guarded, ABC):
    """Something that follows the work; a subclass says what. What a method of it raises costs what it carries, no more."""

    @property
    @abstractmethod
    def outside(self) -> Any:
        """The value that stands for nothing."""

    @abstractmethod
    def for_thread(self) -> Any:
        """The value for a thread that is started here, which may outlive what is going on; None where there is nothing."""

    @abstractmethod
    def for_item(self) -> Any:
        """The value for a work item that is submitted here; None where there is nothing."""

    @abstractmethod
    def enter(self, value: Any) -> Any:
        """Have `value` hold here. Returns what `leave` wants, which is not None."""

    @abstractmethod
    def leave(self, before: Any) -> None:
        """Have that hold again which did before `enter`."""


Values = list[tuple[Passenger, Any]]


def add(passenger: Passenger) -> None:
    """Carry what `passenger` has, from now on. Saying so twice does nothing."""
    if passenger in _State.passengers:
        return
    with _LOCK:
        if passenger not in _State.passengers:
            _State.passengers = (*_State.passengers, passenger)
        if _State.names is None:
            _wait_for_pools()
            _State.names = Names("Carrying into threads failed; the program goes on, and nothing follows it there.")
            for row in _State.rows:
                _replace(_State.names, *row)


def remove(passenger: Passenger) -> None:
    """Take no more along of what `passenger` has; what is under way arrives. Saying so twice does nothing."""
    if passenger not in _State.passengers:
        return
    with _LOCK:
        _State.passengers = tuple(each for each in _State.passengers if each is not passenger)
        if _State.names is not None and not _State.passengers:
            _State.names.undo()
            _State.names = None


def within(
    entering: Callable[[], AbstractContextManager[None]], function: Callable[..., T], /, *args: Any, **kwargs: Any
) -> T:
    """Call `function` inside of what `entering` makes; returns and raises what it does."""
    with entering():
        del entering  # an exception keeps this frame, and the frame would keep what is carried
        return function(*args, **kwargs)


# --- what the names are replaced with ---------------------------------------------------------------------------------


def _starting(names: Names, original: Function) -> Function:
    """`threading.Thread.start`, and with it that of every subclass, Timer among them."""

    def start(self: Any, *args: Any, **kwargs: Any) -> Any:
        values = names.attempt(_values, _FOR_THREAD)
        if values is None:
            return original(self, *args, **kwargs)
        if not _has_context(self):
            _WAITING[id(self)] = values
        try:
            # Current meanwhile: another instrumentation that carries what is current then carries this.
            with _Holding(values):
                return original(self, *args, **kwargs)
        finally:
            _WAITING.pop(id(self), None)

    return start


def _beginning(_names: Names, original: Function) -> Function:
    """`threading.Thread._bootstrap_inner`, which runs in the thread, below whatever a subclass overrides."""

    def bootstrap(self: Any) -> Any:
        values = _WAITING.pop(id(self), None)
        if values is not None:
            # For the thread's whole life: it ends with the thread.
            if _has_context(self):
                self._context.run(_Holding, values)
            else:
                _Holding(values)
            del values
        return original(self)

    return bootstrap


def _submitting(names: Names, original: Function) -> Function:
    """`ThreadPoolExecutor.submit`, which may start a worker on the way."""

    def submit(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        values = names.attempt(_values, _FOR_ITEM)
        if values is None or not args or not callable(args[0]) or _runs_in_interpreters(self):
            return original(self, *args, **kwargs)
        item = functools.partial(within, functools.partial(_Holding, values), args[0])
        with _Holding([(each, each.outside) for each in _State.passengers]):
            return original(self, item, *args[1:], **kwargs)

    return submit


def _has_context(thread: Any) -> bool:
    """Whether `run` is called in a context of the thread's own: since Python 3.14, which makes one in `start`.

    One that is there before is the program's, and left as it is.
    """
    return sys.version_info >= (3, 14) and getattr(thread, "_context", None) is not None


def _runs_in_interpreters(pool: Any) -> bool:
    """Python 3.14's InterpreterPoolExecutor is a ThreadPoolExecutor whose functions must pickle."""
    return isinstance(pool, getattr(sys.modules.get("concurrent.futures.interpreter"), "InterpreterPoolExecutor", ()))


# --- what is carried --------------------------------------------------------------------------------------------------

_FOR_THREAD, _FOR_ITEM = methodcaller("for_thread"), methodcaller("for_item")


def _values(ask: Callable[[Passenger], Any]) -> Values | None:
    """What the passengers have here; None where none has anything, which is nearly always."""
    values: Values | None = None
    for each in _State.passengers:
        value = each.attempt(ask, each)
        if value is not None:
            values = [*(values or ()), (each, value)]
    return values


class _Holding:
    """A context manager: the values hold inside, and since it was made. Its exit leaves no reference to them behind."""

    __slots__ = ("_entered",)

    def __init__(self, values: Values) -> None:
        self._entered = [(each, each.attempt(each.enter, value)) for each, value in values]

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_exception: object) -> None:
        while self._entered:
            passenger, before = self._entered.pop()
            if before is not None:
                passenger.attempt(passenger.leave, before)


_WAITING: dict[int, Values] = {}
"""What a thread that is being started will have, by the id of its object: no attribute is put on it."""


# --- who is carried ---------------------------------------------------------------------------------------------------


class _State:
    """One for the process. Changed only under the lock."""

    passengers: tuple[Passenger, ...] = ()
    names: Names | None = None
    """There while there is a passenger."""
    rows: tuple[tuple[Any, str, Callable[[Names, Function], Function]], ...] = (
        (threading.Thread, "start", _starting),
        (threading.Thread, "_bootstrap_inner", _beginning),
    )
    waits_for_pools = False


_LOCK = threading.RLock()


def _replace(names: Names, holder: Any, name: str, make: Callable[[Names, Function], Function]) -> None:
    names.replace(holder, name, functools.partial(make, names))


def _wait_for_pools() -> None:
    """Once a process, and not once for each first passenger: an import hook cannot be taken back."""
    if not _State.waits_for_pools:
        _State.waits_for_pools = True
        when_imported("concurrent.futures.thread", _pools_arrived)


def _pools_arrived(_late: bool) -> Undo:
    pool = getattr(sys.modules["concurrent.futures.thread"], "ThreadPoolExecutor", None)
    if pool is not None:
        row = (pool, "submit", _submitting)
        with _LOCK:
            _State.rows = (*_State.rows, row)
            if _State.names is not None:
                _replace(_State.names, *row)
    return _nothing


def _nothing() -> None:
    """The name is put back with the others."""


def _forked() -> None:
    _WAITING.clear()  # the threads that were being started are the parent's
    _LOCK.release()


if hasattr(os, "register_at_fork"):
    # Held meanwhile: a child of another thread's must not begin with names that are replaced by half.
    os.register_at_fork(before=_LOCK.acquire, after_in_parent=_LOCK.release, after_in_child=_forked)
