# SPDX-License-Identifier: Apache-2.0
"""An observer: a named source of events, and who listens to it."""

from __future__ import annotations

import functools
import sys
import weakref
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeVar

from torchspan import _dynamo_safety
from torchspan._base.errors import ErrorPolicy, Unguarded
from torchspan.subscribers.registry import REGISTRY, Entry, Interest

if TYPE_CHECKING:
    from typing_extensions import Self

Callback = Callable[..., Any]
C = TypeVar("C", bound=Callback)
Scope = Literal["context", "process"]
SCOPES = ("context", "process")

_UNGUARDED = Unguarded()


class _Token:
    """What a context holds of an entry: as long as some context has it, the observer keeps the entry."""

    __slots__ = ("__weakref__", "entry")

    def __init__(self, entry: _CallbackEntry) -> None:
        self.entry = weakref.ref(entry)


_TOKENS: ContextVar[tuple[_Token, ...]] = ContextVar("torchspan_observers", default=())


class _Context:
    """Holds callbacks for the context they were added in, and for copies made of it later: never for its siblings.

    A context may live as long as the process, so it keeps alive neither callbacks nor their observers.
    """

    def held(self) -> tuple[Entry, ...]:
        entries = (each.entry() for each in _TOKENS.get())
        return tuple(each for each in entries if each is not None)

    def hold(self, entries: tuple[Entry, ...]) -> None:
        tokens = (each.owner.token(each) for each in entries if not each.is_removed)
        _TOKENS.set(tuple(tokens))


_CONTEXT = _Context()


class _Process:
    """Holds the callbacks of one observer that are heard in every thread."""

    __slots__ = ("entries",)

    def __init__(self) -> None:
        self.entries: tuple[Entry, ...] = ()

    def held(self) -> tuple[Entry, ...]:
        return self.entries

    def hold(self, entries: tuple[Entry, ...]) -> None:
        self.entries = entries


class _Listeners(NamedTuple):
    """Who listens to one observer. The registry knows of them and keeps none: they go with the observer.

    of_contexts: the callbacks of contexts, each as long as a context has its token.
    """

    interest: Interest
    of_process: _Process
    of_contexts: weakref.WeakKeyDictionary[_Token, Entry]


class Firing(NamedTuple):
    """One time that an observer fired, with the arguments that callbacks are called with."""

    observer: Observer[Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class Observer(Generic[C]):
    """A named source of events. Whoever has one calls `observe` at a point of interest; callbacks get the arguments.

    Callbacks run in the order in which they were added. One sees nothing of what became of another, and what fires inside
    of one reaches none. A callback that is removed while the observer fires is not called any more; no other is left out.

    name: for people, and on the event that the bridge makes of it. scope: where a callback is heard that is added without a
    scope of its own: `context`, the execution context that it is added in (a task sees those of whoever created it, not
    its siblings'; a thread starts with none), or `process`, every thread. policy: what becomes of exceptions. As a type it
    takes that of its callbacks: `Observer[Callable[[torch.fx.GraphModule], None]]`.
    """

    __slots__ = ("__weakref__", "_call", "_known", "_on_change", "_part_of", "_policy", "_scope", "name")

    def __init__(
        self,
        name: str = "",
        *,
        scope: Scope = "context",
        policy: ErrorPolicy | None = None,
        _part_of: Any = None,
        _call: Interest | None = None,
        _on_change: Callable[[], None] | None = None,
    ) -> None:
        self.name = name
        self._scope = _valid(scope)
        self._policy = policy or ErrorPolicy()
        self._part_of = _part_of
        self._call = _call
        self._on_change = _on_change
        self._known: _Listeners | None = None if _dynamo_safety.is_tracing() else self._nobody()

    def __repr__(self) -> str:
        return f"Observer({self.name!r})"

    @property
    def is_point(self) -> bool:
        """Whether an event of its is one on its own, rather than the start or the end of a call."""
        return self._part_of is None

    @property
    def is_heard(self) -> bool:
        """Whether somebody listens, here or elsewhere."""
        return not _dynamo_safety.is_tracing() and self._listeners().interest.countdown is not None

    def _listeners(self) -> _Listeners:
        if self._known is None:  # it was made in code that was being traced
            self._known = self._nobody()
        return self._known

    def _nobody(self) -> _Listeners:
        return _Listeners(REGISTRY.private_interest(self), _Process(), weakref.WeakKeyDictionary())

    # --- who listens ------------------------------------------------------------------------------------------
    def add(self, callback: C, *, scope: Scope | None = None, policy: ErrorPolicy | None = None) -> Registration:
        """Have `callback` called from now on; in a `with` statement, until its end.

        scope, policy: other ones than the observer's. Raises TypeError for a callback that cannot be called, ValueError for
        a scope that does not exist.
        """
        if _dynamo_safety.is_tracing():
            return Registration(self, None)
        if not callable(callback):
            raise TypeError(f"a callback of {self!r} has to be callable: {callback!r} is not")
        is_held = _valid(self._scope if scope is None else scope) == "context"
        entry = REGISTRY.add(lambda handle: self._entry(handle, callback, policy or self._policy, is_held=is_held))
        self._changed()
        return Registration(self, entry)

    def _entry(self, handle: int, callback: Callback, policy: ErrorPolicy, *, is_held: bool) -> _CallbackEntry:
        name = f"callback {handle} ({getattr(callback, '__qualname__', type(callback).__qualname__)}) of {self!r}"
        return _CallbackEntry(
            handle,
            name,
            functools.partial(_call, name, callback, policy),
            _nothing,
            lambda scope: scope is self or (scope is self._part_of and scope is not None),
            _UNGUARDED,
            owner=self,
            held_in=_CONTEXT if is_held else self._listeners().of_process,
            only=(self._listeners().interest, *([] if self._call is None else [self._call])),
            callback=callback,
        )

    def token(self, entry: _CallbackEntry) -> _Token:
        """What stands for `entry`, one of this observer's, in contexts."""
        token = entry.token()
        if token is None:
            token = _Token(entry)
            entry.token = weakref.ref(token)
            self._listeners().of_contexts[token] = entry
        return token

    def _remove(self, entry: _CallbackEntry) -> None:
        REGISTRY.remove(entry)
        token = entry.token()
        if token is not None:  # copies of the context have it still
            self._listeners().of_contexts.pop(token, None)
        self._changed()

    def _changed(self) -> None:
        if self._on_change is not None:
            self._on_change()

    def _get_callbacks(self) -> Callbacks:
        """The callbacks that are heard here; what is appended to it, or removed, is added to the observer, or removed."""
        return Callbacks(self)

    def _entries(self) -> list[_CallbackEntry]:
        """The callbacks that are heard here, in the order in which they were added."""
        if _dynamo_safety.is_tracing():
            return []
        held = (*self._listeners().of_process.entries, *_CONTEXT.held())
        found = [each for each in held if isinstance(each, _CallbackEntry) and each.owner is self and each.is_on]
        return sorted(found, key=lambda each: each.handle)

    # --- firing -----------------------------------------------------------------------------------------------
    def observe(self, *args: Any, **kwargs: Any) -> None:
        """Call the callbacks with these arguments; costs next to nothing while there are none.

        Raises what a callback raised only where its `ErrorPolicy`, or `RETHROW_CALLBACK_EXCEPTION`, wants that.
        """
        if _dynamo_safety.is_tracing() or self._listeners().interest.countdown is None or REGISTRY.busy.now:
            return
        if not _dynamo_safety.is_symbolic((*args, *kwargs.values())):
            _dynamo_safety.undisturbed(self.tell, args, kwargs)

    def tell(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """What `observe` does, for a caller who has asked all that and may be the engine at its callbacks."""
        raised: list[Exception] = []
        firing = Firing(self, args, kwargs)
        busy = REGISTRY.busy
        was_busy, busy.now = busy.now, True
        try:
            for entry in REGISTRY.listening(self._listeners().interest, self._entries()):
                if entry.is_on:
                    error = entry.begin(firing)
                    if entry.owner is self and error is not None:
                        raised.append(error)
        finally:
            busy.now = was_busy
        if raised:
            raise raised[0]


class _CallbackEntry(Entry):
    """callback: what was added. token: refers to what contexts hold of it, if one does."""

    def __init__(self, *args: Any, callback: Callback, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.callback = callback
        self.token: Callable[[], _Token | None] = _no_token


class Registration:
    """A callback that was added: `remove` it, or use it in a `with` statement, whose end does."""

    __slots__ = ("_entry", "_observer")

    def __init__(self, observer: Observer[Any], entry: _CallbackEntry | None) -> None:
        self._observer = observer
        self._entry = None if entry is None else weakref.ref(entry)

    def remove(self) -> None:
        """Have the callback called no more, from wherever. A second time does nothing."""
        if self._entry is None or _dynamo_safety.is_tracing():
            return
        entry, self._entry = self._entry(), None
        if entry is not None:
            self._observer._remove(entry)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.remove()


class Callbacks:
    """The callbacks of an observer that are heard here, as a list of them: a view, safe to change while it fires."""

    __slots__ = ("_observer",)

    def __init__(self, observer: Observer[Any]) -> None:
        self._observer = observer

    def append(self, callback: Callback) -> None:
        """Add one, as `Observer.add` does."""
        self._observer.add(callback)

    def remove(self, callback: Callback) -> None:
        """Remove the first that equals `callback`. Raises ValueError where there is none."""
        if _dynamo_safety.is_tracing():  # nothing was appended either
            return
        for entry in self._observer._entries():
            if entry.callback == callback:
                self._observer._remove(entry)
                return
        raise ValueError(f"{callback!r} is not among the callbacks of {self._observer!r} here")

    def __iter__(self) -> Iterator[Callback]:
        return iter([each.callback for each in self._observer._entries()])

    def __len__(self) -> int:
        return len(self._observer._entries())

    def __contains__(self, callback: object) -> bool:
        return any(each == callback for each in self)


def _call(name: str, callback: Callback, policy: ErrorPolicy, firing: Firing) -> Exception | None:
    """Call it; what is to be raised again."""
    if sys.modules[__package__].RETHROW_CALLBACK_EXCEPTION:
        policy = _RETHROWING
    return REGISTRY.guard.call_under(policy, name, functools.partial(callback, *firing.args, **firing.kwargs))


def _no_token() -> None:
    """No context holds it."""


_RETHROWING = ErrorPolicy(rethrow=True)


def _nothing(_firing: Firing, _context: Any) -> None:
    """An observer has no ends."""


def _valid(scope: Scope) -> Scope:
    if scope not in SCOPES:
        raise ValueError(f"there is no scope {scope!r}: a callback is heard in its `context` or in the whole `process`")
    return scope
