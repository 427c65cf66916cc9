# SPDX-License-Identifier: Apache-2.0
"""What is remembered of objects, by identity and for as long as each object lives. What its class calls equal does not matter."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from functools import partial
from typing import Any, Generic, TypeVar

V = TypeVar("V")


class ByIdentity(Generic[V]):
    """Object -> value. No code of an object runs (`__hash__`, `__eq__`), nothing is stored on it, and nothing keeps it alive.

    An object that cannot be referenced weakly is not remembered, because nothing would report that it is freed.
    """

    __slots__ = ("__weakref__", "_held")

    def __init__(self) -> None:
        self._held: dict[int, tuple[weakref.ref[Any], V]] = {}

    def __setitem__(self, thing: Any, value: V) -> None:
        try:
            self._held[id(thing)] = self._entry(thing, value)
        except TypeError:
            return

    def setdefault(self, thing: Any, value: V) -> V:
        """The value of `thing`, which is `value` if it had none. Of two threads, one sets it.

        Raises TypeError for an object that cannot be remembered.
        """
        return self._held.setdefault(id(thing), self._entry(thing, value))[1]

    def _entry(self, thing: Any, value: V) -> tuple[weakref.ref[Any], V]:
        # No code of Python runs when the object is freed: Python drops what a signal handler raises inside it.
        return weakref.ref(thing, partial(self._held.pop, id(thing))), value  # the reference is the default of `pop`

    def get(self, thing: Any) -> V | None:
        """The value of `thing`; None if it is not remembered."""
        reference, value = self._held.get(id(thing), (None, None))
        return value if reference is not None and reference() is thing else None

    def pop(self, thing: Any) -> V | None:
        """Forget `thing`. Returns its value; None if it was not remembered."""
        present = self.get(thing)
        if present is not None:
            self._held.pop(id(thing), None)
        return present

    def __iter__(self) -> Iterator[Any]:
        """The objects that are alive at the time of this call."""
        return iter([thing for reference, _ in list(self._held.values()) if (thing := reference()) is not None])

    def __len__(self) -> int:
        return len(self._held)
