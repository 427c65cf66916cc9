# SPDX-License-Identifier: Apache-2.0
"""Scratch space of an event, under typed keys that are declared alongside the functions that use them."""

from __future__ import annotations

from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class Key(Generic[T]):
    """Names one value in a `Scratch`, of type `T`. Two keys are never the same, whatever their names."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"Key({self.name!r})"


class Scratch:
    """The values that are counted in an event until it ends.

    failed_child: class of the last exception that ended an event inside this one. None if there was none.
    """

    __slots__ = ("_values", "failed_child")

    def __init__(self) -> None:
        self._values: dict[Key[Any], Any] = {}
        self.failed_child: type[BaseException] | None = None

    @overload
    def get(self, key: Key[T]) -> T | None: ...
    @overload
    def get(self, key: Key[T], default: T) -> T: ...
    def get(self, key: Key[T], default: T | None = None) -> T | None:
        """The value under `key`, or `default`."""
        return self._values.get(key, default)

    def __getitem__(self, key: Key[T]) -> T:
        value: T = self._values[key]
        return value

    def __setitem__(self, key: Key[T], value: T) -> None:
        self._values[key] = value

    def setdefault(self, key: Key[T], value: T) -> T:
        """The value under `key`. If there is none, `value` is stored."""
        present: T = self._values.setdefault(key, value)
        return present

    def __contains__(self, key: Key[Any]) -> bool:
        return key in self._values

    def __repr__(self) -> str:
        return f"Scratch({ {key.name: value for key, value in self._values.items()} })"
