# SPDX-License-Identifier: Apache-2.0
"""What is remembered of objects, by identity and for as long as each object lives. What its class calls equal does not matter."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from functools import partial
from typing import Any, Generic, TypeVar

V = TypeVar("V")


def reference(thing: Any, table: dict[int, Any]) -> weakref.ref[Any]:
    """A weak reference to `thing`. When `thing` is freed, the entry of `table` under its id goes.

    Raises TypeError for an object that cannot be referenced weakly.
    """
    # No code of Python runs when the object is freed: Python drops what a signal handler raises inside it.
    return weakref.ref(thing, partial(table.pop, id(thing)))  # the reference is the default of `pop`


class ByIdentity(Generic[V]):
    """Object -> value. No code of an object runs (`__hash__`, `__eq__`), nothing is stored on it, and nothing keeps it alive.

    An object that cannot be referenced weakly is not remembered, because nothing would report that it is freed.

    held: a reference to each object and its value, by the object's id, for hot paths. An entry goes before its id can be another's.
    """

    __slots__ = ("__weakref__", "held")

    def __init__(self) -> None:
        self.held: dict[int, tuple[weakref.ref[Any], V]] = {}

    def __setitem__(self, thing: Any, value: V) -> None:
        try:
            self.held[id(thing)] = reference(thing, self.held), value
        except TypeError:
            return

    def setdefault(self, thing: Any, value: V) -> V:
        """The value of `thing`, which is `value` if it had none. Of two threads, one sets it.

        Raises TypeError for an object that cannot be remembered.
        """
        return self.held.setdefault(id(thing), (reference(thing, self.held), value))[1]

    def get(self, thing: Any) -> V | None:
        """The value of `thing`; None if it is not remembered."""
        entry = self.held.get(id(thing))
        return None if entry is None else entry[1]

    def pop(self, thing: Any) -> V | None:
        """Forget `thing`. Returns its value; None if it was not remembered. Of two threads, one gets it."""
        entry = self.held.pop(id(thing), None)
        return None if entry is None else entry[1]

    def __iter__(self) -> Iterator[Any]:
        """The objects that are alive at the time of this call."""
        return iter([thing for reference, _ in list(self.held.values()) if (thing := reference()) is not None])

    def __len__(self) -> int:
        return len(self.held)
