# SPDX-License-Identifier: Apache-2.0
"""Propagates values into threads and the work items of pools, into which Python propagates no context variable.

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
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from operator import methodcaller
from typing import Any, TypeVar

from torchspan.base import forks
from torchspan.base.boundaries import ErrorBoundary, undo_all
from torchspan.base.import_hooks import Undo, when_imported
from torchspan.base.patching import Function, Patches
from torchspan.base.reading import is_a

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

    def for_process(self, _function: Function) -> Function | None:
        """The function with its value, as a work item that a pool pickles for another process. None if there is no value."""
        return None


Value = tuple[ContextCarrier, Any]
Values = Iterable[Value]


def add(carrier: ContextCarrier) -> None:
    """Propagate the value of `carrier` from now on. A second call does nothing."""
    if carrier in _CarrierState.carriers:
        return
    with forks.SWITCHING:
        if carrier not in _CarrierState.carriers:
            _CarrierState.carriers = (*_CarrierState.carriers, carrier)
        if _CarrierState.undo is None:
            _CarrierState.undo = _replace_all()


def remove(carrier: ContextCarrier) -> None:
    """Stop propagating this carrier's value. Values that are under way still arrive. A second call does nothing."""
    if carrier not in _CarrierState.carriers:
        return
    with forks.SWITCHING:
        _CarrierState.carriers = tuple(other for other in _CarrierState.carriers if other is not carrier)
        if _CarrierState.undo is not None and not _CarrierState.carriers:
            _CarrierState.undo()
            _CarrierState.undo = None


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


# --- what the names are replaced with ---------------------------------------------------------------------------------


def _starting(boundary: ErrorBoundary, original: Function) -> Function:
    """`threading.Thread.start`, also for every subclass, such as Timer."""

    def start(self: Any, *args: Any, **kwargs: Any) -> Any:
        inside = boundary.attempt(_prepare, self)
        try:
            return original(self, *args, **kwargs)
        finally:
            if inside is not None:
                boundary.end(_started, self, inside)

    return start


def _prepare(thread: Any) -> Inside | None:
    """Set the values for a thread here, and have it begin with them. None if there is no value for it.

    Here, because another instrumentation that propagates the current value then propagates this one. While the thread is started,
    its attribute `_bootstrap`, with which Python begins it, is `_begin`, below whatever a subclass overrides.
    """
    values = _values(_FOR_THREAD)
    if values is None:
        return None
    if not _has_context(thread):
        vars(thread)["_bootstrap"] = functools.partial(_begin, thread, values)
    return Inside(values)


def _started(thread: Any, inside: Inside) -> None:
    vars(thread).pop("_bootstrap", None)
    inside.leave()


def _begin(thread: Any, values: Values) -> None:
    """Runs in the thread. The values end with it."""
    try:
        vars(thread).pop("_bootstrap", None)
        run = thread._context.run if _has_context(thread) else _call
        _AROUND_WORK.attempt(run, Inside, values)
    finally:  # whatever has been raised: the caller of `start` would wait forever
        thread._bootstrap()


def _call(function: Callable[..., T], *args: Any) -> T:
    return function(*args)


def _has_context(thread: Any) -> bool:
    """Whether `run` is called in the thread's own context: since Python 3.14, which makes one in `start`.

    A context that exists before `start` is the program's, and is left unchanged.
    """
    return sys.version_info >= (3, 14) and getattr(thread, "_context", None) is not None


def _submitting(boundary: ErrorBoundary, original: Function) -> Function:
    """A method of a pool that takes a function as a work item, and may start a worker while doing so."""

    def submit(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        item = boundary.attempt(_item, self, args[0] if args else kwargs.get("func"))
        if item is None:
            return original(self, *args, **kwargs)
        if args:
            return start(self, item, *args[1:], **kwargs)
        return start(self, **{**kwargs, "func": item})  # `multiprocessing` accepts it by name, too

    start = _making(boundary, original)
    return submit


def _making(boundary: ErrorBoundary, original: Function) -> Function:
    """A method that starts workers of a pool, or the threads that do so. Workers have no values."""

    def make(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        outside = boundary.attempt(_outside)
        try:
            return original(self, *args, **kwargs)
        finally:
            if outside is not None:
                boundary.end(outside.leave)

    return make


def _item(pool: Any, function: Any) -> Function | None:
    """The work item with what is propagated to where `pool` runs it. None to leave it unchanged, also if it is not a function."""
    if not callable(function):
        return None
    if is_a(pool, _class("concurrent.futures.interpreter", "InterpreterPoolExecutor")):  # its functions must pickle
        return None
    if is_a(
        pool,
        (*_class("concurrent.futures.thread", "ThreadPoolExecutor"), *_class("multiprocessing.pool", "ThreadPool")),
    ):
        values = _values(_FOR_ITEM)
        return None if values is None else functools.partial(within, values, function)
    items = (carrier.attempt(carrier.for_process, function) for carrier in _CarrierState.carriers)
    return next((item for item in items if item is not None), None)


def _class(module: str, name: str) -> tuple[type, ...]:
    found = getattr(sys.modules.get(module), name, None)
    return () if found is None else (found,)


_SUBMITTED = ("apply_async", "_map_async", "imap", "imap_unordered")

ROWS: tuple[tuple[str, str, tuple[str, ...], Callable[[ErrorBoundary, Function], Function]], ...] = (
    ("threading", "Thread", ("start",), _starting),
    # Inherited, until contrib's instrumentor has been on and off: it leaves the plain method of Thread here.
    ("threading", "Timer", ("start",), _starting),
    ("concurrent.futures.thread", "ThreadPoolExecutor", ("submit",), _submitting),
    ("concurrent.futures.process", "ProcessPoolExecutor", ("submit",), _submitting),
    ("multiprocessing.pool", "Pool", _SUBMITTED, _submitting),
    ("multiprocessing.pool", "Pool", ("__init__",), _making),
    # Inductor's compile workers: started below the first compilation, and kept for all.
    ("torch._inductor.compile_worker.subproc_pool", "SubprocPool", ("__init__",), _making),
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


def _outside() -> Inside:
    return Inside([(carrier, carrier.outside) for carrier in _CarrierState.carriers])


# --- when names are replaced ------------------------------------------------------------------------------------------


def _replace_all() -> Undo:
    """Replace the names of `ROWS`, now or when their module has been imported. Replacements that stay after the undo pass calls on."""
    boundary = ErrorBoundary(_CONSEQUENCE)
    undo: list[Undo] = []

    def stop() -> None:
        boundary.close()
        undo_all(reversed(undo))

    try:
        undo.extend(when_imported(row[0], functools.partial(_replace, boundary, *row)) for row in ROWS)
    except BaseException:
        stop()
        raise
    return stop


def _replace(
    boundary: ErrorBoundary,
    module: str,
    holder: str,
    names: Iterable[str],
    make: Callable[[ErrorBoundary, Function], Function],
    _late: bool,
) -> Undo:
    patches, owner = Patches(), getattr(sys.modules[module], holder, None)
    with forks.SWITCHING:
        for name in names:
            boundary.attempt(patches.replace_shared, owner, name, functools.partial(make, boundary))
    return patches.undo


class _CarrierState:
    """One for the process. Changed only under `forks.SWITCHING`."""

    carriers: tuple[ContextCarrier, ...] = ()
    undo: Undo | None = None
    """Set while there is a carrier."""
