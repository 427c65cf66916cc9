# SPDX-License-Identifier: Apache-2.0
"""The callbacks of one observer: those of the process, and those of execution contexts."""

from __future__ import annotations

import functools
import itertools
import sys
import weakref
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from torchspan._base import reading
from torchspan._base.errors import ErrorPolicy, Rethrown, UserCallback
from torchspan.subscribers.interest import Gate

_numbers, _keys = itertools.count(1), itertools.count(1)

_RETHROWING = ErrorPolicy(rethrow=True)


class Added:
    """A callback that was added to an observer.

    number: the order of additions. is_on: False once it has been removed. token: refers to the token in contexts, if a context has it.
    """

    __slots__ = ("__weakref__", "_guarded", "_policy", "callback", "is_on", "number", "token")

    def __init__(self, callback: Callable[..., Any], policy: ErrorPolicy | None, observer: str) -> None:
        self.number = next(_numbers)
        self.callback = callback
        self.is_on = True
        self.token: Callable[[], _Token | None] = _no_token
        self._policy = policy
        self._guarded = UserCallback(f"callback {self.number} ({reading.function_name(callback)}) of {observer}")

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Exception | None:
        """Call it. Returns what it raised, if its policy, or that of the module, rethrows it."""
        policy = _RETHROWING if sys.modules[__package__].RETHROW_CALLBACK_EXCEPTION else self._policy
        call = functools.partial(self.callback, *args, **kwargs)
        result = self._guarded.call(call, policy=policy)
        return result.error if type(result) is Rethrown else None


class _Token:
    """Represents a callback in contexts. As long as some context has it, the observer keeps the callback.

    A context may live as long as the process, so it keeps alive neither callbacks nor their observers.
    """

    __slots__ = ("__weakref__", "added", "key")

    def __init__(self, key: int, added: Added) -> None:
        self.key = key
        self.added = weakref.ref(added)


def _no_token() -> None:
    """No context has it."""


class _Lease:
    """A context variable for as long as one observer needs it.

    Contexts keep their variables forever, so variables are used again. What a context still has of an earlier observer has
    another key, and is dropped at the next addition there.
    """

    __slots__ = ("variable",)

    _free: list[ContextVar[tuple[_Token, ...]]] = []  # noqa: RUF012 - one list for the process

    def __init__(self) -> None:
        try:
            self.variable = self._free.pop()
        except IndexError:
            self.variable = ContextVar("torchspan_observers", default=())

    def __del__(self) -> None:
        self._free.append(self.variable)


class AddedCallbacks:
    """The callbacks of an observer. The registry's lock is held around additions and removals. The cost of firing does not depend
    on other observers.

    gate: open while there is a callback, here or elsewhere.
    """

    __slots__ = ("_key", "_lease", "_of_contexts", "_of_process", "gate")

    def __init__(self) -> None:
        self.gate = Gate()
        self._of_process: tuple[Added, ...] = ()
        self._of_contexts: weakref.WeakKeyDictionary[_Token, Added] = weakref.WeakKeyDictionary()
        self._key = next(_keys)
        self._lease: _Lease | None = None

    def exist(self) -> bool:
        """Whether there are callbacks, here or in another context."""
        return bool(self._of_process or self._of_contexts)

    def here(self) -> list[Added]:
        """The callbacks of the process and of the current context, in the order in which they were added."""
        lease = self._lease
        if lease is None:
            return list(self._of_process)
        added_here = list(self._of_process)
        for token in lease.variable.get():
            added = token.added() if token.key == self._key else None
            if added is not None and added.is_on:
                added_here.append(added)
        if self._of_process:
            added_here.sort(key=lambda observer: observer.number)
        return added_here

    def add_to_process(self, added: Added) -> None:
        """Add a callback that is called in every thread."""
        self._of_process = (*self._of_process, added)

    def add_to_context(self, added: Added) -> None:
        """Add a callback that is called in this context, and in copies that are made of it later."""
        if self._lease is None:
            self._lease = _Lease()
        token = _Token(self._key, added)
        self._of_contexts[token] = added
        added.token = weakref.ref(token)
        self._hold(token)

    def remove(self, added: Added) -> None:
        """Remove a callback, also from copies of its context."""
        added.is_on = False
        token = added.token()
        if token is None:
            self._of_process = tuple(other for other in self._of_process if other is not added)
        else:
            self._of_contexts.pop(token, None)
            self._hold()

    def _hold(self, *more: _Token) -> None:
        """Have the current context hold what is left, and `more`."""
        if self._lease is not None:
            of_key = (local for local in self._lease.variable.get() if local.key == self._key)
            left = [local for local in of_key if (added := local.added()) is not None and added.is_on]
            self._lease.variable.set((*left, *more))
