# SPDX-License-Identifier: Apache-2.0
"""Propagates values into threads and pools of threads, into which Python propagates no context variable.

After `add(carrier)`, the value that the `ContextCarrier` has where a thread is started or a work item is submitted applies in that
thread, or around that item. A pool's worker is not its first item, and starts without values.

This module is not in `propagation`, because two parts need it that do not know each other. `propagation` propagates OpenTelemetry's
context. `subscribers` propagate thread-local callbacks and work without OpenTelemetry. There is one mechanism for both, because
separate wrappers around the same names could not be removed in any order. Names of the standard library are replaced while there is
a carrier.
"""

from __future__ import annotations

import functools
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from operator import methodcaller
from typing import Any, TypeVar

from torchspan._base import forks
from torchspan._base.boundaries import ErrorBoundary, failed, undo_all
from torchspan._base.import_hooks import Undo, when_imported
from torchspan._base.patching import Function, Patches
from torchspan._base.reading import is_a

__all__ = ["ContextCarrier", "Inside", "add", "remove", "within"]

T = TypeVar("T")


class ContextCarrier(ErrorBoundary, ABC):
    """One value that is propagated with the work, defined by a subclass. If a method raises, the value is not propagated."""

    @property
    @abstractmethod
    def outside(self) -> Any:
        """The empty value."""

    @abstractmethod
    def for_thread(self) -> Any:
        """The value for a thread that is started here, which may outlive the running work. None if there is no value."""

    @abstractmethod
    def for_item(self) -> Any:
        """The value for a work item that is submitted here. None if there is no value."""

    @abstractmethod
    def enter(self, value: Any) -> Any:
        """Set `value` here. Returns the argument of `leave`, which is not None."""

    @abstractmethod
    def leave(self, before: Any) -> None:
        """Restore the value before `enter`."""


Value = tuple[ContextCarrier, Any]
Values = Iterable[Value]


def add(carrier: ContextCarrier) -> None:
    """Propagate the value of `carrier` from now on. A second call does nothing."""
    if carrier in _CarrierState.carriers:
        return
    with forks.SWITCHING:
        if carrier not in _CarrierState.carriers:
            _CarrierState.carriers = (*_CarrierState.carriers, carrier)
        if _CarrierState.replacements is None:
            _CarrierState.replacements = _Replacements()


def remove(carrier: ContextCarrier) -> None:
    """Stop propagating this carrier's value. Values that are under way still arrive. A second call does nothing."""
    if carrier not in _CarrierState.carriers:
        return
    with forks.SWITCHING:
        _CarrierState.carriers = tuple(other for other in _CarrierState.carriers if other is not carrier)
        if _CarrierState.replacements is not None and not _CarrierState.carriers:
            _CarrierState.replacements.undo()
            _CarrierState.replacements = None


class Inside:
    """Sets the values of carriers when it is made. `leave` restores them and drops all references."""

    __slots__ = ("_entered",)

    def __init__(self, values: Values) -> None:
        self._entered: list[Value] = []
        try:
            for carrier, value in values:
                self._entered.append((carrier, carrier.attempt(carrier.enter, value)))
        except BaseException:
            self.leave()
            raise

    def leave(self) -> None:
        """Restore the values. A second call does what an interrupt left undone."""
        while self._entered:
            carrier, before = self._entered.pop()
            if before is not None:
                carrier.end(carrier.leave, before)


_CONSEQUENCE = "Propagating into threads failed; the program continues without it there."
_AROUND_WORK = ErrorBoundary(_CONSEQUENCE)


def within(values: Values, function: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
    """Call `function` with `values` set. Returns and raises what it does."""
    inside = _AROUND_WORK.attempt(Inside, values)
    del values  # an exception keeps this frame, and the frame would keep the values
    try:
        return function(*args, **kwargs)
    finally:
        if inside is not None:
            _AROUND_WORK.end(inside.leave)


def _once(values: list[Value], function: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
    """`within`, for a function that is called once.

    Since Python 3.14 an exception of an executor's work item keeps a frame that has the work item, which would keep the values.
    """
    return within(_drained(values), function, *args, **kwargs)


def _drained(values: list[Value]) -> Iterator[Value]:
    """The values, each of which leaves the list."""
    while values:
        yield values.pop(0)


# --- what the names are replaced with ---------------------------------------------------------------------------------


def _starting(boundary: ErrorBoundary, original: Function) -> Function:
    """`threading.Thread.start`, also for every subclass, such as Timer."""

    def start(self: Any, *args: Any, **kwargs: Any) -> Any:
        starting = boundary.attempt(_Starting.of, self)
        if starting is None:
            return original(self, *args, **kwargs)
        try:
            return original(self, *args, **kwargs)
        finally:
            boundary.end(starting.leave)

    return start


class _Starting(Inside):
    """A thread that is being started, while the values for it are set here.

    Another instrumentation that propagates the current value then propagates this one.
    """

    __slots__ = ("_thread_id",)

    def __init__(self, thread: Any, values: Values) -> None:
        self._thread_id = id(thread)
        if not _has_context(thread):
            _WAITING[self._thread_id] = values
        super().__init__(values)

    @classmethod
    def of(cls, thread: Any) -> _Starting | None:
        """None if there is no value for the thread."""
        values = _values(_FOR_THREAD)
        return None if values is None else cls(thread, values)

    def leave(self) -> None:
        """See `Inside`."""
        super().leave()
        _WAITING.pop(self._thread_id, None)


def _beginning(boundary: ErrorBoundary, original: Function) -> Function:
    """`threading.Thread._bootstrap_inner`, which runs in the thread, below whatever a subclass overrides."""

    def bootstrap(self: Any) -> Any:
        leave = _at_an_end(boundary.attempt, _arrived, self)
        try:
            return original(self)
        finally:
            if leave is not None:
                _at_an_end(boundary.end, leave)
                threading._active.pop(threading.get_ident(), None)  # type: ignore[attr-defined]  # logging registers it again

    return bootstrap


def _at_an_end(function: Callable[..., T], *args: Any) -> T | None:
    """What `function(*args)` returns. At the start and the end of a thread nothing else handles what it raises."""
    try:
        return function(*args)
    except BaseException:  # the caller of `start` would wait forever
        failed(_CONSEQUENCE)
        return None


def _arrived(thread: Any) -> Callable[[], object] | None:
    """Set the values for a thread, in that thread. Returns what restores them."""
    values = _WAITING.pop(id(thread), None)
    if values is None:
        return None
    run = thread._context.run if _has_context(thread) else _call
    return functools.partial(run, run(Inside, values).leave)


def _submitting(call: Callable[..., Any], boundary: ErrorBoundary, original: Function) -> Function:
    """A method of a pool that takes a function as a work item, and may start a worker while doing so.

    call: calls the function with values, as `within` does.
    """

    def submit(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        submitted = boundary.attempt(_with_values, call, self, args, kwargs)
        if submitted is None:
            return original(self, *args, **kwargs)
        args, kwargs, outside = submitted
        try:
            return original(self, *args, **kwargs)
        finally:
            boundary.end(outside.leave)

    return submit


def _with_values(
    call: Callable[..., Any], pool: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any], Inside] | None:
    """The arguments with the values around the work item, and the empty values for a worker; None to change nothing."""
    values = _values(_FOR_ITEM)
    if values is None or not _runs_in_threads(pool):
        return None
    if args and callable(args[0]):
        args = (functools.partial(call, values, args[0]), *args[1:])
    elif callable(kwargs.get("func")):  # `multiprocessing` accepts it by name, too
        kwargs = {**kwargs, "func": functools.partial(call, values, kwargs["func"])}
    else:
        return None
    return args, kwargs, Inside(_outside())


def _making(boundary: ErrorBoundary, original: Function) -> Function:
    """`multiprocessing.pool.Pool.__init__`, which starts workers and the threads that replace them."""

    def init(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        outside = boundary.attempt(lambda: Inside(_outside()))
        try:
            return original(self, *args, **kwargs)
        finally:
            if outside is not None:
                boundary.end(outside.leave)

    return init


def _call(function: Callable[..., T], *args: Any) -> T:
    return function(*args)


def _has_context(thread: Any) -> bool:
    """Whether `run` is called in the thread's own context: since Python 3.14, which makes one in `start`.

    A context that exists before `start` is the program's, and is left unchanged.
    """
    return sys.version_info >= (3, 14) and getattr(thread, "_context", None) is not None


def _runs_in_threads(pool: Any) -> bool:
    """Whether functions are handed to the pool's workers without pickling.

    `multiprocessing` has one class for its pools, of which ThreadPool is a subclass. Python 3.14's InterpreterPoolExecutor
    is a ThreadPoolExecutor whose functions must pickle.
    """
    if is_a(pool, _class("concurrent.futures.interpreter", "InterpreterPoolExecutor")):
        return False
    return is_a(pool, _class("multiprocessing.pool", "ThreadPool")) or not is_a(
        pool, _class("multiprocessing.pool", "Pool")
    )


def _class(module: str, name: str) -> Any:
    return getattr(sys.modules.get(module), name, ())


_SUBMITTED = ("apply_async", "_map_async", "imap", "imap_unordered")

ROWS: tuple[tuple[str, str, tuple[str, ...], Callable[[ErrorBoundary, Function], Function]], ...] = (
    ("threading", "Thread", ("start",), _starting),
    # Inherited, until contrib's instrumentor has been on and off: it leaves the plain method of Thread here.
    ("threading", "Timer", ("start",), _starting),
    ("threading", "Thread", ("_bootstrap_inner",), _beginning),
    ("concurrent.futures.thread", "ThreadPoolExecutor", ("submit",), functools.partial(_submitting, _once)),
    ("multiprocessing.pool", "Pool", _SUBMITTED, functools.partial(_submitting, within)),
    ("multiprocessing.pool", "Pool", ("__init__",), _making),
)
"""Names that are replaced: the module, the class in it, the names, and the function that makes a replacement."""


# --- propagated values -------------------------------------------------------------------------------------------------

_FOR_THREAD, _FOR_ITEM = methodcaller("for_thread"), methodcaller("for_item")


def _values(ask: Callable[[ContextCarrier], Any]) -> list[Value] | None:
    """The values of the carriers here. None if no carrier has one, which is nearly always."""
    values: list[Value] | None = None
    for carrier in _CarrierState.carriers:
        value = carrier.attempt(ask, carrier)
        if value is not None:
            values = [*(values or ()), (carrier, value)]
    return values


def _outside() -> Values:
    return [(carrier, carrier.outside) for carrier in _CarrierState.carriers]


_WAITING: dict[int, Values] = {}
"""The values for threads that are being started, by the id of the thread's object: no attribute is put on it."""


# --- when names are replaced ------------------------------------------------------------------------------------------


class _Replacements:
    """The names of `ROWS`, replaced now or when their module has been imported, until `undo`."""

    def __init__(self) -> None:
        self._boundary = ErrorBoundary(_CONSEQUENCE)
        self._undo: list[Undo] = []
        try:
            self._undo.extend(when_imported(row[0], functools.partial(self._replace, *row)) for row in ROWS)
        except BaseException:
            self.undo()
            raise

    def _replace(
        self,
        module: str,
        holder: str,
        names: Iterable[str],
        make: Callable[[ErrorBoundary, Function], Function],
        _late: bool,
    ) -> Undo:
        patches = Patches()
        with forks.SWITCHING:
            for name in names:
                self._boundary.attempt(
                    patches.replace_shared,
                    getattr(sys.modules[module], holder, None),
                    name,
                    functools.partial(make, self._boundary),
                )
        return patches.undo

    def undo(self) -> None:
        """Restore the names, last replaced first. A replacement that is still bound passes calls through."""
        self._boundary.close()
        undo_all(reversed(self._undo))


class _CarrierState:
    """One for the process. Changed only under the lock."""

    carriers: tuple[ContextCarrier, ...] = ()
    replacements: _Replacements | None = None
    """Set while there is a carrier."""


forks.in_each_child(_WAITING.clear)  # the threads that were being started are the parent's
