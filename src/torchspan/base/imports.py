# SPDX-License-Identifier: Apache-2.0
"""Running code around the body of a module that has yet to be imported, and timing imports.

wrapt's post-import hooks run after the body, in the order of registration. Code that must run before the body, and before
any other hook sees the module, is put around the *innermost* loader. Therefore the finder is directly before the standard path
finder, and so behind every hook finder, because those insert themselves first.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from contextvars import Context, copy_context
from importlib.machinery import ModuleSpec, PathFinder
from time import perf_counter_ns, time_ns  # the real ones, also where a test of the program replaces them later
from types import ModuleType
from typing import Any

from torchspan.base.boundaries import ErrorBoundary
from torchspan.base.forks import ThisProcess

_FAILED = ErrorBoundary("An import is not observed.")

Undo = Callable[[], None]
Around = Callable[[], AbstractContextManager[None]]


class AroundImport:
    """A finder for `sys.meta_path`: enters a context manager right before the body of each module in `arounds` runs, and
    leaves it right after.

    The context manager runs in the importing thread, under the module's import lock. Its exceptions come out of the import.
    """

    def __init__(self, arounds: dict[str, Around]) -> None:
        self._arounds = arounds

    def install(self) -> Undo:
        """Put this finder directly before the standard path finder. The returned function removes it.

        No effect on modules already imported.
        """
        sys.meta_path.insert(index_of_path_finder(), self)

        def remove() -> None:
            # Another list: a thread that imports meanwhile goes through this one, and would pass over the finder after the removed one.
            sys.meta_path = [finder for finder in sys.meta_path if finder is not self]

        return remove

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """See `importlib.abc.MetaPathFinder`. What the finders behind this one find, with its loader's body wrapped."""
        around = _FAILED.attempt(self.around, fullname)
        if around is None:
            return None
        spec = spec_behind(self, fullname, path, target)
        if spec is not None:
            _FAILED.attempt(_wrap_loader, spec, around)
        return spec

    def around(self, fullname: str) -> Around | None:
        """What runs around the body of the module that is about to be imported; None for nothing."""
        return self._arounds.get(fullname)


def spec_behind(
    finder: object, fullname: str, path: Sequence[str] | None, target: ModuleType | None
) -> ModuleSpec | None:
    """What the finders behind this one in `sys.meta_path` find; None where a program has wrapped it, or taken it out."""
    behind = list(sys.meta_path)
    while behind and behind.pop(0) is not finder:
        pass
    found = (other.find_spec(fullname, path, target) for other in behind)
    return next((spec for spec in found if spec is not None), None)


def index_of_path_finder() -> int:
    """The position of the standard path finder in `sys.meta_path`."""
    return next((i for i, finder in enumerate(sys.meta_path) if finder is PathFinder), len(sys.meta_path))


def _wrap_loader(spec: ModuleSpec, around: Around) -> None:
    """Shadow exec_module on this one loader object, so that its type and every other method stay unchanged.

    The shadow is removed before the body runs. Another one may lie below it, or above.
    """
    loader: Any = spec.loader
    original = getattr(loader, "exec_module", None)
    if isinstance(loader, type) or not hasattr(loader, "__dict__") or original is None:  # such as namespace packages
        return
    below = vars(loader).get("exec_module")

    @functools.wraps(original)
    def exec_module(module: ModuleType) -> None:
        if vars(loader).get("exec_module") is exec_module:
            del loader.exec_module
            if below is not None:
                loader.exec_module = below
        run_body(original, around, module)

    loader.exec_module = exec_module


def run_body(original: Callable[[ModuleType], None], around: Around, module: ModuleType) -> None:
    """Run the body of `module`. Its frame is in the traceback of each import that an error passed."""
    with around():
        original(module)


LONG_NS = 100_000_000
"""The time from which an import of a library's module is reported."""


class Import:
    """The first import of a module, or a long import of a library's module.

    Args:
        name: The module, or the library.
        is_first: Whether it is a first import. It is reported however short it is.
        offset_ns: Added to `perf_counter_ns`, it is the time since the epoch. That of the outermost import, for those inside.

    Attributes:
        start_ns, end_ns: Nanoseconds since the epoch. An import inside another lies inside its times.
        error: The exception that ended a first import.
        version: The module's `__version__` after it, None without one.
        inside: Imports during this one.
        context: The context variables at its start.
        process, thread_id: Where it was imported.
    """

    def __init__(self, name: str, offset_ns: int, *, is_first: bool) -> None:
        self.name, self.offset_ns, self.is_first = name, offset_ns, is_first
        self.start_ns = self.end_ns = offset_ns + perf_counter_ns()
        self.error: BaseException | None = None
        self.version: str | None = None
        self.inside: list[Import] = []
        self.context: Context = copy_context()
        self.process, self.thread_id = ThisProcess.generation, threading.get_ident()

    @property
    def has_failed(self) -> bool:
        """Whether this import or one inside it ended with an error."""
        return self.error is not None or any(inner.has_failed for inner in self.inside)

    @property
    def is_reported(self) -> bool:
        """Whether it is long enough, or contains one that is."""
        return self.is_first or self.end_ns - self.start_ns >= LONG_NS or bool(self.inside)


class FirstImports(AroundImport):
    """Times the first import of each module in `names`, and imports of modules of `libraries`.

    Modules that have been imported already are left out. Of a library's modules the outermost import counts: what it imports of the
    same library is part of it.

    Args:
        ended: Called with each import that is reported and is not inside another one. An import lock may be held then.
    """

    def __init__(self, names: Iterable[str], ended: Callable[[Import], None], libraries: Iterable[str] = ()) -> None:
        self._names = {name for name in names if name not in sys.modules}
        super().__init__({name: functools.partial(self._timed, name, is_first=True) for name in self._names})
        self._libraries = tuple(libraries)
        self._ended = ended
        self._local = threading.local()

    def around(self, fullname: str) -> Around | None:
        """See `AroundImport.around`."""
        first = super().around(fullname)
        if first is not None or not fullname.startswith(self._libraries):
            return first
        library = next((name for name in self._libraries if f"{fullname}.".startswith(f"{name}.")), None)
        open_imports = self._open()
        if library is None or (open_imports and open_imports[-1].name == library):
            return None
        return functools.partial(self._timed, library, is_first=False)

    @contextlib.contextmanager
    def _timed(self, name: str, *, is_first: bool) -> Iterator[None]:
        """Around one body. An exception passes unchanged."""
        begun, error = _FAILED.attempt(self._begin, name, is_first), None
        try:
            yield
        except BaseException as raised:
            error = raised
            raise
        finally:
            if begun is not None:
                _FAILED.attempt(self._end, begun, error)

    def _begin(self, name: str, is_first: bool) -> Import | None:
        """The body of a module starts. Returns None for a first import that is not one: a reload, or another try after a failure."""
        if is_first and name not in self._names:
            return None
        self._names.discard(name)
        open_imports = self._open()
        offset_ns = open_imports[-1].offset_ns if open_imports else time_ns() - perf_counter_ns()
        begun = Import(name, offset_ns, is_first=is_first)
        open_imports.append(begun)
        return begun

    def _end(self, begun: Import, error: BaseException | None) -> None:
        """The body has run, or raised."""
        begun.end_ns = begun.offset_ns + perf_counter_ns()
        if begun.is_first:
            begun.error = error
            version = getattr(sys.modules.get(begun.name), "__version__", None)
            begun.version = str(version) if isinstance(version, str) else None  # torch's is of a subclass
        open_imports = self._open()
        open_imports.remove(begun)
        if begun.is_reported:
            report = open_imports[-1].inside.append if open_imports else self._ended
            report(begun)

    def _open(self) -> list[Import]:
        open_imports: list[Import] = vars(self._local).setdefault("open", [])
        return open_imports
