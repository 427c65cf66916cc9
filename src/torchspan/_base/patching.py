# SPDX-License-Identifier: Apache-2.0
"""Replacing names of the standard library, and putting them back."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar

logger = logging.getLogger("torchspan")

T = TypeVar("T")
Function = Callable[..., Any]


class Guarded:
    """Whose failures never reach the program: the first is logged, the program's call goes on as it would have.

    consequence: what is logged with it.
    """

    def __init__(self, consequence: str) -> None:
        self._consequence = consequence
        self._failed = False

    def attempt(self, ours: Callable[..., T], *args: Any) -> T | None:
        """What `ours(*args)` returns; None when it raised."""
        try:
            return ours(*args)
        except Exception:
            if not self._failed:
                self._failed = True
                logger.exception(self._consequence)
            return None


class Names(Guarded):
    """What has been replaced, whether it is to do anything, and the way back.

    The rules are those of what is hooked: `undo` puts back the original only where ours is still the one bound, and what
    somebody put over it passes through ours. consequence: see `Guarded`.
    """

    def __init__(self, consequence: str) -> None:
        super().__init__(consequence)
        self.active = True
        """False after `undo`: replacements that are still bound somewhere pass straight through."""
        self._replaced: list[tuple[Any, str, Function, Function]] = []

    def replace(self, holder: Any, name: str, make: Callable[[Function], Function]) -> None:
        """Bind `make(original)`, dressed as the original, where `holder` itself defines `name`; else nothing happens."""
        original = vars(holder).get(name)
        if original is None:
            logger.debug("%r has no %s; nothing is carried there.", holder, name)
            return
        replacement = functools.wraps(original)(make(_unbound(original) if isinstance(holder, type) else original))
        setattr(holder, name, replacement)
        self._replaced.append((holder, name, original, replacement))

    def replace_late(
        self, holder: Any, name: str, make: Callable[[Function], Function], is_needed: Callable[[], object]
    ) -> None:
        """As `replace`, where only calls are of interest at which `is_needed()` is true: `make` waits for the first."""

        def make_late(original: Function) -> Function:
            ours: Function | None = None

            def call(*args: Any, **kwargs: Any) -> Any:
                nonlocal ours
                if not self.active or not is_needed():
                    return original(*args, **kwargs)
                if ours is None:
                    ours = self.attempt(make, original) or original
                return ours(*args, **kwargs)

            return call

        self.replace(holder, name, make_late)

    def attempt(self, ours: Callable[..., T], *args: Any) -> T | None:
        """What `ours(*args)` returns; None when it raised, or when this has ended."""
        return super().attempt(ours, *args) if self.active else None

    def undo(self) -> None:
        """Put every original back, last replaced first."""
        self.active = False
        while self._replaced:
            holder, name, original, replacement = self._replaced.pop()
            if vars(holder).get(name) is replacement:
                setattr(holder, name, original)


def _unbound(method: Any) -> Function:
    """A function that calls `method` of its first argument.

    What somebody else put there may not be a function: a wrapper of wrapt's that is called without being bound takes the
    object for an argument.
    """
    if type(method) is FunctionType:  # isinstance believes what such a wrapper says of itself
        return method
    return lambda self, /, *args, **kwargs: method.__get__(self, type(self))(*args, **kwargs)
