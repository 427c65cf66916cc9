# SPDX-License-Identifier: Apache-2.0
"""Replacing names in somebody else's library, and putting them back."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import Any

Wrap = Callable[[Any], Any]


class Patches:
    """What has been replaced in one library, and the way back.

    A function is replaced in every module of the library that holds it, found by identity: `from x import f`
    made copies of the reference that a list of names would have to follow from version to version. With
    `everywhere` other people's modules are searched as well: those that took a name before we came. So it is for what
    belongs to PyTorch, which was there, and may have been taken from, before the library was imported. A method is
    replaced on its class. `undo` puts back the original objects, last replaced first, but only where ours is still
    the one bound: what somebody put over it is theirs, and our wrapper passes calls through.
    """

    def __init__(self, library: str, *, everywhere: bool = False) -> None:
        self._prefix = library + "."
        self._everywhere = everywhere
        self._replaced: list[tuple[Any, str, Any, Any]] = []

    def _modules(self) -> Iterator[ModuleType]:
        return (each for each in _modules() if f"{vars(each)['__name__']}.".startswith(self._prefix))

    def replace_functions(self, wrappers: Iterable[tuple[Any, Any]], *, everywhere: bool = False) -> None:
        """Bind the wrapper of each pair (original, wrapper) wherever the original is bound, in one pass.

        everywhere: of these functions, what others have taken too.
        """
        wanted = {id(original): (original, wrapper) for original, wrapper in wrappers}
        if not wanted:
            return  # looking through every module of a program takes a tenth of a second
        for module in _modules() if everywhere or self._everywhere else self._modules():
            for name, value in list(vars(module).items()):
                if id(value) in wanted:
                    self._set(module, name, *wanted[id(value)])

    def replace_attribute(self, holder: Any, name: str, wrap: Wrap) -> None:
        """Replace an attribute defined by `holder` itself by `wrap(function)`; a static or class method stays one."""
        original = vars(holder)[name]
        if isinstance(original, (staticmethod, classmethod)):
            self._set(holder, name, original, type(original)(wrap(original.__func__)))
        else:
            self._set(holder, name, original, wrap(original))

    def replace_in_module(self, holder: ModuleType, inner: str, name: str, wrap: Wrap) -> None:
        """Replace `inner.name` as `holder` sees it, where `inner` is a module that others use as well.

        `holder` gets a copy of that module which differs in this one name; the module itself stays as it is.
        """
        original = vars(holder)[inner]
        view = ModuleType(original.__name__, original.__doc__)
        vars(view).update(vars(original))
        setattr(view, name, wrap(vars(original)[name]))
        self._set(holder, inner, original, view)

    def _set(self, holder: Any, name: str, original: Any, replacement: Any) -> None:
        setattr(holder, name, replacement)
        self._replaced.append((holder, name, original, replacement))

    def undo(self, *, above: Iterable[Patches] = ()) -> None:
        """Put everything back, in modules imported since as well.

        above: what may have been put over these; it will put back what these would have.
        """
        if not self._replaced:
            return
        originals = {id(ours): (ours, original) for _, _, original, ours in self._replaced}
        for each in above:
            each._replaced = [
                (holder, name, originals.get(id(below), (below, below))[1], theirs)
                for holder, name, below, theirs in each._replaced
            ]
        for holder, name, original, ours in reversed(self._replaced):
            if vars(holder).get(name) is ours:
                setattr(holder, name, original)
        for module in _modules() if self._everywhere else self._modules():
            for name, value in list(vars(module).items()):
                ours, original = originals.get(id(value), (None, None))
                if ours is value and ours is not None:
                    setattr(module, name, original)
        self._replaced.clear()


def _modules() -> Iterator[ModuleType]:
    """What is in sys.modules and really is a module: even asking other objects for their class may run code."""
    return (
        each for each in list(sys.modules.values()) if issubclass(type(each), ModuleType) and "__name__" in vars(each)
    )
