# SPDX-License-Identifier: Apache-2.0
"""What is remembered of objects: by which object it is, whatever its class calls equal, and for as long as it lives."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

V = TypeVar("V")


class ByIdentity(Generic[V]):
    """Object -> value. No code of an object runs (`__hash__`, `__eq__`), nothing is stored on it, and nothing keeps it alive.

    An object that cannot be referred to weakly is not remembered: nothing would say when it is gone.
    """

    __slots__ = ("__weakref__", "_held")

    def __init__(self) -> None:
        self._held: dict[int, tuple[weakref.ref[Any], V]] = {}

    def __setitem__(self, thing: Any, value: V) -> None:
        held, key, forget = self._held, id(thing), _forget  # names of this module may be gone when the object goes
        try:
            reference = weakref.ref(thing, lambda gone: forget(held, key, gone))
        except TypeError:
            return
        held[key] = reference, value

    def get(self, thing: Any) -> V | None:
        """The value of `thing`; None where it is not remembered."""
        reference, value = self._held.get(id(thing), (None, None))
        return value if reference is not None and reference() is thing else None

    def pop(self, thing: Any) -> V | None:
        """The value of `thing`, which is remembered no more; None where it was not."""
        found = self.get(thing)
        if found is not None:
            self._held.pop(id(thing), None)
        return found

    def __iter__(self) -> Iterator[Any]:
        """The objects that live, as they were when this was called."""
        return iter([thing for reference, _ in list(self._held.values()) if (thing := reference()) is not None])

    def __len__(self) -> int:
        return len(self._held)


def _forget(held: dict[int, tuple[weakref.ref[Any], Any]], key: int, gone: weakref.ref[Any]) -> None:
    entry = held.get(key)
    if entry is not None and entry[0] is gone:  # else the address is another object's by now
        del held[key]
