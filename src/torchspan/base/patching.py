# SPDX-License-Identifier: Apache-2.0
"""Replacing names of other packages, and restoring the originals.

The rules are the same for every name. A function is found by identity. An original is restored only where torchspan's
replacement is still bound. If another package has put something over it, that stays, and the replacement below passes calls
through. Such a replacement is retired. If it is found again, it is not wrapped a second time: the next replacement wraps its
original. So enabling and disabling any number of times leaves at most one retired replacement.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Iterator
from types import FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

import wrapt

from torchspan.base.by_identity import ByIdentity
from torchspan.base.logs import Log

logger = Log("torchspan")

Function = Callable[..., Any]
Wrap = Callable[[Any], Any]

_PROXY: type = getattr(wrapt, "BaseObjectProxy", wrapt.ObjectProxy)
"""The class that OpenTelemetry's `unwrap` looks for. Before wrapt 2, `ObjectProxy`."""


class _Replacement(NamedTuple):
    """One name: what it was bound to before, and what torchspan bound it to."""

    holder: Any
    name: str
    original: Any
    replacement: Any


class Patches:
    """The names that have been replaced for one purpose, with their originals.

    `from x import f` copies a reference. So a function is replaced in every module that contains it, instead of following a
    list of names from version to version. A method is replaced on its class.

    Args:
        library: The package whose modules are searched for functions.
        everywhere: Search the modules of other packages, too, because the library was imported earlier and they may
            have taken a name from it.
    """

    def __init__(self, library: str = "", *, everywhere: bool = False) -> None:
        self._prefix = "" if everywhere else f"{library}."
        self._replaced: list[_Replacement] = []
        self._has_functions = False

    def replace_functions(
        self, wrappers: Iterable[tuple[Any, Any]], *, everywhere: Iterable[tuple[Any, Any]] = ()
    ) -> None:
        """Bind the wrapper of each pair (original, wrapper) wherever the original is bound, in one pass over all modules.

        Args:
            everywhere: Pairs whose original is replaced in the modules of other packages as well. These are functions
                of PyTorch, which was imported before the library, so that other packages may have taken names from it.
        """
        anywhere, in_library = _by_id(everywhere), _by_id(wrappers)
        if not (anywhere or in_library):
            return
        self._has_functions = True
        for name_of_module, module in _modules():
            wanted = {**in_library, **anywhere} if name_of_module.startswith(self._prefix) else anywhere
            for name, value in list(vars(module).items()) if wanted else ():
                if id(value) in wanted:
                    original, wrapper = wanted[id(value)]
                    self._bind(module, name, original, wrapper)

    def replace_attribute(self, holder: Any, name: str, wrap: Wrap) -> None:
        """Bind `name` of `holder`, which defines it, to `wrap(function)`. A static or class method stays one."""
        original = in_use(vars(holder)[name])
        if isinstance(original, (staticmethod, classmethod)):
            self._bind(holder, name, original, type(original)(wrap(original.__func__)))
        else:
            self._bind(holder, name, original, wrap(original))

    def replace_shared(self, holder: Any, name: str, make: Callable[[Function], Function]) -> None:
        """Bind `name` of `holder` to `make(function)`, where other instrumentations wrap the same name.

        The replacement has the name, signature and docstring of the original. OpenTelemetry's instrumentations remove their
        wrapper by `unwrap`, which binds what is below the proxy that it finds. Over such a proxy torchspan binds a proxy as
        well, with `make` of what is below theirs below it. So `unwrap` removes their wrapper, and torchspan's stays. `make` is
        called once for each of the two. A name that `holder` itself does not define is left alone.
        """
        original = vars(holder).get(name)
        if original is None:
            if not hasattr(holder, name):
                logger.debug("%r has no %s, which is not replaced.", holder, name)
            return
        setattr(holder, name, self._shared(holder, name, original, make))

    def _shared(self, holder: Any, name: str, original: Any, make: Callable[[Function], Function]) -> Any:
        original = in_use(original)
        function = unbound(original) if isinstance(holder, type) else original
        over = functools.wraps(original)(make(function))
        if not issubclass(type(original), _PROXY):
            return self._keep(holder, name, original, over)
        return self._keep(holder, name, original, _Over(self._shared(holder, name, original.__wrapped__, make), over))

    def replace_in_module(self, holder: ModuleType, inner: str, name: str, wrap: Wrap) -> None:
        """Replace `inner.name` as `holder` sees it, where `inner` is a module that others use as well.

        `holder` gets a copy of that module which differs in this one name. The module itself stays unchanged.
        """
        original = in_use(vars(holder)[inner])
        view = ModuleType(original.__name__, original.__doc__)
        vars(view).update(vars(original))
        setattr(view, name, wrap(vars(original)[name]))
        self._bind(holder, inner, original, view)

    def _bind(self, holder: Any, name: str, original: Any, replacement: Any) -> None:
        self._keep(holder, name, original, replacement)  # before: what an interrupt stops can be undone
        setattr(holder, name, replacement)

    def _keep(self, holder: Any, name: str, original: Any, replacement: Any) -> Any:
        self._replaced.append(_Replacement(holder, name, original, replacement))
        _RETIRED.pop(replacement)
        return replacement

    def undo(self, *, above: Iterable[Patches] = ()) -> None:
        """Restore every original, last replaced first. Functions are restored in modules imported since as well.

        Args:
            above: Replacements that may have been put over these. They will restore what these would have restored.
        """
        originals = {id(replaced.replacement): replaced for replaced in self._replaced}
        for patches in above:
            patches._replaced = [
                replaced._replace(original=originals[id(replaced.original)].original)
                if id(replaced.original) in originals
                else replaced
                for replaced in patches._replaced
            ]
        for replaced in reversed(self._replaced):
            if in_use(replaced.original) is not replaced.replacement:  # a program may have replaced two by each other
                _RETIRED[replaced.replacement] = replaced.original
            if vars(replaced.holder).get(replaced.name) is replaced.replacement:
                setattr(replaced.holder, replaced.name, replaced.original)
        for name_of_module, module in _modules() if self._has_functions else ():
            if name_of_module.startswith(self._prefix):
                for name, value in list(vars(module).items()):
                    if id(value) in originals:
                        setattr(module, name, originals[id(value)].original)
        self._replaced.clear()


def in_use(bound: Any) -> Any:
    """What a wrapper of `bound` should call: `bound` itself, or the original of a retired replacement."""
    while (original := _RETIRED.get(bound)) is not None:
        bound = original
    return bound


_RETIRED: ByIdentity[Any] = ByIdentity()
"""The originals of the retired replacements that still exist."""


class _Over(_PROXY):  # type: ignore[misc]  # the base class is untyped
    """torchspan's wrapper over a proxy of wrapt's. Calls go to `over`; `unwrap` binds `below`."""

    def __init__(self, below: Any, over: Function) -> None:
        super().__init__(below)
        self._self_over = over

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else MethodType(self._self_over, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._self_over(*args, **kwargs)


def unbound(method: Any) -> Function:
    """A function that calls `method` of its first argument.

    Another package may have bound something that is not a function to the name. A wrapper of wrapt's that is called without
    being bound treats the object as an argument.
    """
    if type(method) is FunctionType:  # isinstance believes the class that such a wrapper claims
        return method
    return lambda self, /, *args, **kwargs: method.__get__(self, type(self))(*args, **kwargs)


def _by_id(pairs: Iterable[tuple[Any, Any]]) -> dict[int, tuple[Any, Any]]:
    """Pairs (what to restore, wrapper) by the ids of everything that the wrapper replaces."""
    references: dict[int, tuple[Any, Any]] = {}
    for original, wrapper in pairs:
        below = in_use(original)
        references[id(original)] = references[id(below)] = (below, wrapper)
    return references


def _modules() -> Iterator[tuple[str, ModuleType]]:
    """The entries of sys.modules that really are modules, with their names and a dot: reading the class of others may run code."""
    return (
        (f"{vars(module)['__name__']}.", module)
        for module in list(sys.modules.values())
        if issubclass(type(module), ModuleType) and "__name__" in vars(module)
    )
