# SPDX-License-Identifier: Apache-2.0
"""Scratch space of an event, under typed keys that are declared alongside the functions that use them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

T = TypeVar("T")


class Key(Generic[T]):
    """Names one value in a `Scratch`, of type `T`. Two keys are never the same, whatever their names."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"Key({self.name!r})"


class Scratch(dict[Key[Any], Any]):
    """The values that are counted in an event until it ends, each under its key."""

    if TYPE_CHECKING:  # a key says of which type its value is

        @overload  # type: ignore[override]
        def get(self, key: Key[T]) -> T | None: ...
        @overload
        def get(self, key: Key[T], default: T) -> T: ...
        def get(self, key: Key[T], default: T | None = None) -> T | None: ...

        def __getitem__(self, key: Key[T]) -> T: ...
        def setdefault(self, key: Key[T], value: T) -> T: ...  # type: ignore[override]


FAILED_CHILD: Key[type[BaseException]] = Key("failed child")
"""The class of the last exception that ended an event inside this one."""
