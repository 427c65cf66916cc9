# SPDX-License-Identifier: Apache-2.0
"""Every object of a class, as it is made: the class is named by a text, before the program imports its module."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from typing import Any

from torchspan.base import dynamo_safety, import_hooks, reading
from torchspan.base.boundaries import ErrorBoundary
from torchspan.base.by_identity import ByIdentity
from torchspan.base.errors import PROCESS_GUARD
from torchspan.base.forks import renewed
from torchspan.base.patching import unbound

EXPECTED = "module:Class, of a module that the program imports"
"""What a text that names a class looks like."""

_MAKING = ("__init__", "__setstate__")
"""What ends the making of an object: by a call of its class, and by `copy` and `pickle`."""

Made = Callable[[Any], None]


def parsed(path: str) -> str:
    """The text, if it names a class as `EXPECTED` says. Raises ValueError for any other one."""
    module, colon, name = path.partition(":") if isinstance(path, str) else ("", "", "")
    if not colon or not all(map(str.isidentifier, (*module.split("."), *name.split(".")))):
        raise ValueError(f"{path!r} is not a class: expected {EXPECTED}")
    if module == "__main__":
        raise ValueError(
            f"{path!r} is in the script that runs: put the class into a module and import it, or use "
            "torchspan.inputs.InputObserver in the script"
        )
    return path


class WatchedClass:
    """Calls a function with each object of a class, and of the classes derived from it, when the object has been made.

    From the moment on at which the program has imported the module, `__init__` of the class is replaced by a function that
    calls it, and so is `__setstate__` where the class has it: copies and unpickled objects count. Objects that were made before
    are not seen, nor are those whose class has a `__deepcopy__` or `__reduce__` that makes them without either. Each object
    counts once. Several may watch one class.

    A class that the module takes from another one is watched too. If the module exports it lazily, as transformers does, it is
    watched once the program has imported the module that defines it. Nothing is imported for that.

    Raises ValueError where `path` names no class.

    Args:
        path: `module:Class`; `module:Outer.Inner` for a nested class.
        made: Gets the object, in the thread that made it; what it raises is logged once and does not reach the program.
        refused: Gets the reason, as a clause, if the imported module has no such class.
    """

    def __init__(self, path: str, make: Made, refused: Callable[[str], None] | None = None) -> None:
        self.path = parsed(path)
        self._module, _, self._name = self.path.partition(":")
        self._made = make
        self._refused = refused
        self._boundary = ErrorBoundary(f"Observing an object of {path} failed; the program continues without it.")
        self._class: _Class | None = None
        self._count = 0
        self._problem = f"the program did not import the module {self._module}"
        self._stop_waiting: Callable[[], None] = _nothing
        self._undo = import_hooks.when_imported(self._module, self._imported)

    @property
    def problem(self) -> str | None:
        """Why no object has been seen until now, as a clause; None once there was one."""
        return None if self._count else self._problem

    def close(self) -> None:
        """See no further objects. The class is as it was, unless something else has replaced its methods since."""
        self._undo()

    def _imported(self, _late: bool) -> Callable[[], None]:
        self._boundary.attempt(self._find, self._module)
        return self._leave

    def _find(self, module_name: str) -> None:
        """Look for the class in a module that has been imported."""
        module = sys.modules.get(module_name)
        target: Any = module
        for part in self._name.split("."):
            target = reading.attribute(target, part)
            if target is None:
                defining = _lazy_exports(module).get(self._name.partition(".")[0])
                if defining is None:
                    self._refuse(
                        f"the module {self._module} has no class {self._name}; name the module that defines the class"
                    )
                else:
                    self._problem = f"the program made no object of {self.path}"
                    self._wait_for(f"{module_name}.{defining}")
                return
        if not issubclass(type(target), type):
            self._refuse(f"{self.path} is not a class")
        elif not callable(getattr(target, "forward", None)):
            self._refuse(f"the class {self.path} has no method forward, whose calls are observed")
        else:
            self._problem = f"the program made no object of {self.path}"
            self._class = _Class.of(target)
            self._class.add(self)

    def _wait_for(self, defining: str) -> None:
        """Look for the class in the module `defining` once the program has imported it."""

        def imported(_late: bool) -> Callable[[], None]:
            self._boundary.attempt(self._find, defining)
            return _nothing

        self._stop_waiting = import_hooks.when_imported(defining, imported)

    def _refuse(self, problem: str) -> None:
        self._problem = problem
        if self._refused is not None:
            self._refused(problem)

    def _leave(self) -> None:
        self._stop_waiting()
        own_class, self._class = self._class, None
        if own_class is not None:
            own_class.remove(self)

    def seen(self, thing: Any) -> None:
        """An object has been made."""
        self._count += 1
        self._boundary.attempt(self._made, thing)


class _Class:
    """The replaced methods of one class. All that watch the class share them."""

    _all: ByIdentity[_Class] = ByIdentity()

    def __init__(self, kind: type) -> None:
        self._kind = kind
        self._watching: tuple[WatchedClass, ...] = ()
        self._objects: ByIdentity[bool] = ByIdentity()
        self._replaced: dict[str, tuple[Any, Any]] = {}

    @classmethod
    def of(cls, kind: type) -> _Class:
        with _LOCK.lock:
            class_ = cls._all.get(kind)
            if class_ is None:
                class_ = cls._all[kind] = cls(kind)
            return class_

    def add(self, watched: WatchedClass) -> None:
        with _LOCK.lock:
            self._watching = (*self._watching, watched)
            for name in _MAKING:
                if name not in self._replaced and hasattr(self._kind, name):
                    self._replace(name)

    def remove(self, watched: WatchedClass) -> None:
        with _LOCK.lock:
            self._watching = tuple(other for other in self._watching if other is not watched)
            if not self._watching:
                for name in list(self._replaced):
                    self._restore(name)
            if not self._replaced:
                self._all.pop(self._kind)

    def _replace(self, name: str) -> None:
        own = vars(self._kind).get(name)
        if own is None:
            kind = self._kind

            def inherited(thing: Any, /, *args: Any, **kwargs: Any) -> Any:
                return getattr(super(kind, thing), name)(*args, **kwargs)  # of the next class, as Python looks it up

            replacement = _replacement(self, inherited, getattr(self._kind, name))
        else:
            replacement = _replacement(self, unbound(own), own)
        self._replaced[name] = own, replacement
        setattr(self._kind, name, replacement)

    def _restore(self, name: str) -> None:
        own, replacement = self._replaced[name]
        if vars(self._kind).get(name) is not replacement:  # something else calls it now: it stays, and does nothing
            return
        del self._replaced[name]
        if own is None:
            delattr(self._kind, name)
        else:
            setattr(self._kind, name, own)

    def made(self, thing: Any) -> None:
        """An object of the class has been made."""
        if not self._watching or self._objects.get(thing):
            return
        self._objects[thing] = True
        for watched in self._watching:
            watched.seen(thing)


def _replacement(of: _Class, call: Callable[..., Any], original: Any) -> Any:
    """A method that calls another one, and then says that the object has been made."""

    @functools.wraps(original)
    def method(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        result = call(self, *args, **kwargs)
        PROCESS_GUARD.call("watching a class", dynamo_safety.undisturbed, of.made, self)
        return result

    method._torchdynamo_inline = call  # type: ignore[attr-defined]  # what Dynamo reads in place of this function
    return method


class _Lock:
    """One lock for all classes."""

    def __init__(self) -> None:
        self.lock = renewed(threading.RLock())


_LOCK = _Lock()


def _lazy_exports(module: Any) -> dict[str, str]:
    """Exported name → submodule that defines it, for a module that imports what it exports when it is first used.

    transformers, diffusers and optimum have such modules, of a class `_LazyModule` with this attribute.
    """
    exports = reading.attribute(module, "_class_to_module")
    if type(exports) is not dict:
        return {}
    return {name: defining for name, defining in exports.items() if type(name) is str and type(defining) is str}


def _nothing() -> None:
    """There is nothing to undo."""


dynamo_safety.register_with_dynamo()
