# SPDX-License-Identifier: Apache-2.0
"""The callbacks of one observer: those of the process, and those of execution contexts."""

from __future__ import annotations

import functools
import itertools
import sys
import weakref
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any

from torchspan.base import reading
from torchspan.base.errors import ErrorPolicy, Rethrown, UserCallback
from torchspan.engine.subscribers.interest import Gate

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
        policy = _RETHROWING if sys.modules["torchspan.observers"].RETHROW_CALLBACK_EXCEPTION else self._policy
        call = functools.partial(self.callback, *args, **kwargs)
        result = self._guarded.call(call, policy=policy)
        return result.error if type(result) is Rethrown else None


class _Token:
    """Represents a callback in contexts. As long as some context has it, the observer keeps the callback.

    A context may live as long as the process, so it keeps alive neither callbacks nor their observers.
    """

    __slots__ = ("__weakref__", "_added")

    def __init__(self, added: Added) -> None:
        self._added = weakref.ref(added)

    def added(self) -> Added | None:
        """The callback; None once it has been removed, or its observer is gone."""
        added = self._added()
        return added if added is not None and added.is_on else None


def _no_token() -> None:
    """No context has it."""


_HERE: ContextVar[Mapping[int, tuple[_Token, ...]]] = ContextVar("torchspan_observers", default={})  # noqa: B039 - never changed
"""What the current context has of each observer, by its key. One variable for all: contexts keep their variables forever."""


def _hold(key: int, *more: _Token) -> None:
    """Have the current context hold what is left of all observers, and `more` of one."""
    left = {other: [token for token in tokens if token.added() is not None] for other, tokens in _HERE.get().items()}
    left.setdefault(key, []).extend(more)
    _HERE.set({other: tuple(tokens) for other, tokens in left.items() if tokens})


class AddedCallbacks:
    """The callbacks of an observer. The registry's lock is held around additions and removals. The cost of firing does not depend
    on other observers.

    gate: open while there is a callback, here or elsewhere.
    """

    __slots__ = ("_key", "_of_contexts", "_of_process", "gate")

    def __init__(self) -> None:
        self.gate = Gate()
        self._of_process: tuple[Added, ...] = ()
        self._of_contexts: weakref.WeakKeyDictionary[_Token, Added] = weakref.WeakKeyDictionary()
        self._key = next(_keys)

    def exist(self) -> bool:
        """Whether there are callbacks, here or in another context."""
        return bool(self._of_process or self._of_contexts)

    def here(self) -> list[Added]:
        """The callbacks of the process and of the current context, in the order in which they were added."""
        of_context = [token.added() for token in _HERE.get().get(self._key, ())]
        added_here = [*self._of_process, *(added for added in of_context if added is not None)]
        added_here.sort(key=lambda added: added.number)
        return added_here

    def add_to_process(self, added: Added) -> None:
        """Add a callback that is called in every thread."""
        self._of_process = (*self._of_process, added)

    def add_to_context(self, added: Added) -> None:
        """Add a callback that is called in this context, and in copies that are made of it later."""
        token = _Token(added)
        self._of_contexts[token] = added
        added.token = weakref.ref(token)
        _hold(self._key, token)

    def remove(self, added: Added) -> None:
        """Remove a callback, also from copies of its context."""
        added.is_on = False
        token = added.token()
        if token is None:
            self._of_process = tuple(other for other in self._of_process if other is not added)
        else:
            self._of_contexts.pop(token, None)
            _hold(self._key)
