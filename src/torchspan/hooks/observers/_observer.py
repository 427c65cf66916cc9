# SPDX-License-Identifier: Apache-2.0
"""An observer: a named source of events, and the callbacks that were added to it."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import Any, Generic, Literal, NoReturn, TypeVar

from torchspan.base import dynamo_safety
from torchspan.base.boundaries import rethrow
from torchspan.base.errors import ErrorPolicy
from torchspan.engine.subscribers import local_state
from torchspan.engine.subscribers.callback_registry import REGISTRY
from torchspan.engine.subscribers.checks import check_text
from torchspan.engine.subscribers.entry import Removable
from torchspan.engine.subscribers.recording import RECORDING, Recording
from torchspan.hooks.observers._added import Added, AddedCallbacks
from torchspan.hooks.observers._checks import checked_policy, checked_scope

Callback = Callable[..., Any]
C = TypeVar("C", bound=Callback)
Scope = Literal["context", "process"]


class Observer(Generic[C]):
    """A named source of events. The program calls `observe` at a point of interest, and callbacks receive the arguments.

    Callbacks run in the order in which they were added. An exception in one callback does not affect the others. Events
    that are fired inside a callback reach no callback. A callback that is removed while the observer fires is not called
    any more; the others still are.

    For type checkers, its parameter is the type of its callbacks: `Observer[Callable[[torch.fx.GraphModule], None]]`.

    Args:
        name: Shown in log messages, and on the span event that torchspan records when the observer fires.
        scope: Where callbacks are called that are added without a scope. `context`: in the execution context in which they are
            added. A task has the callbacks of the code that created it, not of its siblings. A thread starts with none.
            `process`: in every thread.
        policy: How exceptions of callbacks are handled. Default: they are logged, and a callback that keeps failing is
            disabled.

    Raises:
        TypeError: `name` or `policy` has the wrong type.
        ValueError: `scope` is neither `context` nor `process`.
    """

    __slots__ = ("__weakref__", "_known", "_policy", "_scope", "name")

    def __init__(self, name: str = "", *, scope: Scope = "context", policy: ErrorPolicy | None = None) -> None:
        check_text("name", name)
        self.name = name
        self._scope: Scope = checked_scope(scope)
        self._policy = checked_policy(policy)
        self._known: AddedCallbacks | None = None
        if not dynamo_safety.is_tracing():
            self._begin()

    def __repr__(self) -> str:
        return f"Observer({self.name!r})"

    @property
    def is_heard(self) -> bool:
        """Whether the observer has a callback, here or in another context, or torchspan records its events."""
        return not dynamo_safety.is_tracing() and self._is_wanted(self._callbacks())

    def _callbacks(self) -> AddedCallbacks:
        return self._known or self._begin()  # it was made in code that was being traced

    def _begin(self) -> AddedCallbacks:
        self._known = AddedCallbacks()
        self._join(RECORDING)
        return self._known

    def _join(self, recording: Recording) -> None:
        """Follow what is recorded."""
        recording.add(self)

    @staticmethod
    def _is_wanted(callbacks: AddedCallbacks) -> bool:
        return callbacks.exist() or RECORDING.recorder is not None

    def _changed(self) -> None:
        callbacks = self._callbacks()
        callbacks.gate.set(self._is_wanted(callbacks))

    # --- callbacks --------------------------------------------------------------------------------------------
    def add(self, callback: C, *, scope: Scope | None = None, policy: ErrorPolicy | None = None) -> Registration:
        """Register a callback.

        Args:
            callback: Called with the arguments of `observe`.
            scope: Where it is called. Default: the observer's scope.
            policy: How its exceptions are handled. Default: the observer's policy.

        Returns:
            The registration, which removes the callback with `remove()` or at the end of a `with` statement.

        Raises:
            TypeError: `callback` cannot be called, or `policy` has the wrong type.
            ValueError: `scope` is neither `context` nor `process`.
        """
        if dynamo_safety.is_tracing():
            return Registration(self, None)
        if not callable(callback):
            raise TypeError(f"callback must be callable, not {callback!r} (for {self!r})")
        is_of_context = checked_scope(self._scope if scope is None else scope) == "context"
        added = Added(callback, checked_policy(policy) or self._policy, repr(self))
        with REGISTRY.changing():
            callbacks = self._callbacks()
            (callbacks.add_to_context if is_of_context else callbacks.add_to_process)(added)
            self._changed()
        return Registration(self, added)

    def _remove(self, added: Added) -> None:
        with REGISTRY.changing():
            self._callbacks().remove(added)
            self._changed()

    def _get_callbacks(self) -> Callbacks:
        """The callbacks that are called here. Appending to the list adds a callback to the observer, and removing removes it."""
        return Callbacks(self)

    def _here(self) -> list[Added]:
        """The callbacks that are called here, in the order in which they were added."""
        return [] if dynamo_safety.is_tracing() else self._callbacks().here()

    # --- firing -----------------------------------------------------------------------------------------------
    def observe(self, *args: Any, **kwargs: Any) -> None:
        """Call the callbacks. While there are none, this is one test.

        Exceptions of callbacks are raised only where an `ErrorPolicy`, or `RETHROW_CALLBACK_EXCEPTION`, requests it.

        Args:
            *args: Positional arguments of the callbacks.
            **kwargs: Keyword arguments of the callbacks.
        """
        if dynamo_safety.is_tracing() or self._callbacks().gate.countdown is None or REGISTRY.busy.now:
            return
        if not dynamo_safety.is_symbolic((*args, *kwargs.values())):
            dynamo_safety.undisturbed(self._fire, args, kwargs)

    def _fire(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """What `observe` does, for code that has made its tests already."""
        busy = REGISTRY.busy
        busy.now = True
        try:
            recorder = RECORDING.recorder
            if recorder is not None:
                recorder.fired(self)
        finally:
            busy.now = False
        self._call(args, kwargs)

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Call the callbacks. When all have run, raise the first exception that is to be rethrown.

        An interrupt belongs to the program and comes before the exceptions that policies rethrow.
        """
        callbacks, busy = self._callbacks(), REGISTRY.busy
        if not callbacks.exist():  # the contexts of the last ones are gone
            self._changed()
            return
        failures: list[BaseException] = []
        was_busy, busy.now = busy.now, True
        try:
            for added in callbacks.here() if local_state.current().enabled else ():
                if added.is_on:
                    _call_one(added, args, kwargs, failures)
            if failures:
                _raise_first(failures)
        finally:
            busy.now = was_busy
            failures.clear()  # else what was raised would refer to itself by this frame


def _call_one(added: Added, args: tuple[Any, ...], kwargs: dict[str, Any], failures: list[BaseException]) -> None:
    try:
        error = added.call(args, kwargs)
    except BaseException as interrupt:
        failures.append(interrupt)
    else:
        failures += () if error is None else (error,)


def _raise_first(failures: list[BaseException]) -> NoReturn:
    rethrow(next((failure for failure in failures if not issubclass(type(failure), Exception)), failures[0]))


class PartObserver(Observer[C]):
    """One observer of the pair of a function or a phase. What it reports is part of a call, and not a separate point in time.

    Args:
        changed: Called when callbacks have been added or removed.
    """

    __slots__ = ("_on_change",)

    def __init__(
        self, name: str, changed: Callable[[], None], *, scope: Scope = "context", policy: ErrorPolicy | None = None
    ) -> None:
        self._on_change = changed
        super().__init__(name, scope=scope, policy=policy)

    def _join(self, recording: Recording) -> None:
        """Does nothing: the call is recorded, and not this part of it."""

    @staticmethod
    def _is_wanted(callbacks: AddedCallbacks) -> bool:
        return callbacks.exist()

    def _changed(self) -> None:
        super()._changed()
        self._on_change()

    def _fire(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._call(args, kwargs)

    def notify(self, context: Any) -> None:
        """Call the callbacks with `context`, even while the engine runs callbacks."""
        if self._callbacks().gate.countdown is not None:
            self._call((context,), {})


class Registration(Removable):
    """A callback that `Observer.add` registered. Call `remove` to remove it, or use this object in a `with` statement.

    Args:
        observer: The observer.
        added: The callback as the observer has it. None in code that Dynamo traces.
    """

    __slots__ = ("_added", "_observer")

    def __init__(self, observer: Observer[Any], added: Added | None) -> None:
        self._observer = observer
        self._added = None if added is None else weakref.ref(added)

    def remove(self) -> None:
        """Remove the callback, in every context. A second call does nothing."""
        if self._added is None or dynamo_safety.is_tracing():
            return
        added, self._added = self._added(), None
        if added is not None and added.is_on:
            self._observer._remove(added)


class Callbacks:
    """The callbacks of an observer that are called here, as a list. It is a view, and may be changed while the observer fires."""

    __slots__ = ("_observer",)

    def __init__(self, observer: Observer[Any]) -> None:
        self._observer = observer

    def append(self, callback: Callback) -> None:
        """Add one, as `Observer.add` does."""
        self._observer.add(callback)

    def remove(self, callback: Callback) -> None:
        """Remove the first callback that equals `callback`. Raises ValueError if there is none."""
        if dynamo_safety.is_tracing():  # nothing was appended either
            return
        for added in self._observer._here():
            if added.callback == callback:
                self._observer._remove(added)
                return
        raise ValueError(f"{callback!r} is not among the callbacks of {self._observer!r} here")

    def __iter__(self) -> Iterator[Callback]:
        return iter([added.callback for added in self._observer._here()])

    def __len__(self) -> int:
        return len(self._observer._here())

    def __contains__(self, callback: object) -> bool:
        return any(registered == callback for registered in self)
