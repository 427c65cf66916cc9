# SPDX-License-Identifier: Apache-2.0
"""Hot paths: work that happens thousands of times a second."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Protocol

Observe = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]


class HotPath(Protocol):
    """What the privileged listener knows that decides about frequent events."""

    def closure(
        self, engine: Any, original: Any, observe: Observe, has_run: Callable[[int], bool], position: int
    ) -> Callable[..., Any]:
        """A function that stands for `original`: calls it at once unless somebody wants to know, else `observe`.

        engine: the engine whose `active` says whether anybody listens at all.
        has_run: given an object's address, whether it has run before; the object is argument number `position`.
        """

    def trace(self) -> Hashable | None:
        """What identifies the surrounding trace if an event would be recorded in it, else None."""

    def fold(self, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call `original` and count it where it belongs, without an event."""


class NobodyListens:
    """The hot path of an engine without a listener for it: every call passes."""

    def closure(
        self,
        engine: Any,  # noqa: ARG002
        original: Any,
        observe: Observe,  # noqa: ARG002
        has_run: Callable[[int], bool],  # noqa: ARG002
        position: int,  # noqa: ARG002
    ) -> Callable[..., Any]:
        def passing(*args: Any, **kwargs: Any) -> Any:
            return original(*args, **kwargs)

        return passing

    def trace(self) -> Hashable | None:
        return None

    def fold(self, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return original(*args, **kwargs)
