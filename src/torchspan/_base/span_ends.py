# SPDX-License-Identifier: Apache-2.0
"""Sees spans end, for those who want to write to them before."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from torchspan._base.patching import Function, Names


class SpanEnds:
    """Calls callbacks immediately before the spans that they watch end."""

    def __init__(self) -> None:
        self._names = Names("Watching the ends of spans failed; counts on spans may lag.")
        self._watched: weakref.WeakKeyDictionary[Any, list[Callable[[Any], None]]] = weakref.WeakKeyDictionary()
        self._classes: set[type] = set()

    def watch(self, span: Any, callback: Callable[[Any], None]) -> None:
        """Call `callback(span)` before `span` ends."""
        kind = next((each for each in type(span).__mro__ if "end" in vars(each)), None)
        if kind is not None and kind not in self._classes:
            self._classes.add(kind)
            self._names.replace(kind, "end", self._ending)
        self._watched.setdefault(span, []).append(callback)

    def undo(self) -> None:
        """Watch no more."""
        self._names.undo()

    def _ending(self, original: Function) -> Function:
        def end(span: Any, *args: Any, **kwargs: Any) -> Any:
            if self._watched:
                for callback in self._watched.pop(span, ()):
                    self._names.attempt(callback, span)
            return original(span, *args, **kwargs)

        return end
