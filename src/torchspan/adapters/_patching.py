# SPDX-License-Identifier: Apache-2.0
"""Replacing names in somebody else's library, and putting them back."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

Wrap = Callable[[Any], Any]


class Patches:
    """What has been replaced in one library, and the way back.

    A function is replaced in every module of the library that holds it, found by identity: `from x import f`
    made copies of the reference that a list of names would have to follow from version to version. A method is
    replaced on its class. `undo` puts back the original objects, last replaced first, but only where ours is still
    the one bound: what somebody put over it is theirs, and our wrapper passes calls through.
    """

    def __init__(self, library: str) -> None:
        self._prefix = library + "."
        self._library = library
        self._index: dict[int, list[tuple[ModuleType, str]]] = defaultdict(list)
        for module in self._modules():
            for name, value in list(vars(module).items()):
                self._index[id(value)].append((module, name))
        self._replaced: list[tuple[Any, str, Any, Any]] = []

    def _modules(self) -> Iterator[ModuleType]:
        for name, module in list(sys.modules.items()):
            # Libraries put other objects into sys.modules; even asking such a one for its class may run code.
            inside = name == self._library or name.startswith(self._prefix)
            if inside and issubclass(type(module), ModuleType):
                yield module

    def replace_function(self, original: Any, wrapper: Any) -> None:
        """Bind `wrapper` wherever a module of the library binds `original`."""
        for module, name in self._index.get(id(original), ()):
            if vars(module).get(name) is original:
                self._set(module, name, original, wrapper)

    def replace_attribute(self, holder: Any, name: str, wrap: Wrap) -> None:
        """Replace an attribute defined by `holder` itself by `wrap(function)`; a static method stays one."""
        original = vars(holder)[name]
        if isinstance(original, staticmethod):
            self._set(holder, name, original, staticmethod(wrap(original.__func__)))
        else:
            self._set(holder, name, original, wrap(original))

    def _set(self, holder: Any, name: str, original: Any, replacement: Any) -> None:
        setattr(holder, name, replacement)
        self._replaced.append((holder, name, original, replacement))

    def undo(self) -> None:
        """Put everything back, in modules imported since as well."""
        originals = {id(ours): (ours, original) for _, _, original, ours in self._replaced}
        for holder, name, original, ours in reversed(self._replaced):
            if vars(holder).get(name) is ours:
                setattr(holder, name, original)
        for module in self._modules():
            for name, value in list(vars(module).items()):
                ours, original = originals.get(id(value), (None, None))
                if ours is value and ours is not None:
                    setattr(module, name, original)
        self._replaced.clear()
