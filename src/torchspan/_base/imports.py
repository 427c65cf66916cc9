# SPDX-License-Identifier: Apache-2.0
"""Running code around the body of a module that has yet to be imported, and timing first imports.

wrapt's post-import hooks run after the body, in the order of registration. Code that must run before the body, and before
any other hook sees the module, is put around the *innermost* loader. Therefore the finder is directly before the standard path
finder, and so behind every hook finder, because those insert themselves first.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from contextvars import Context, copy_context
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType, TracebackType
from typing import Any

from torchspan._base.logs import Log

logger = Log("torchspan")

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
        sys.meta_path.insert(_index_of_path_finder(), self)

        def remove() -> None:
            sys.meta_path[:] = [finder for finder in sys.meta_path if finder is not self]

        return remove

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """See `importlib.abc.MetaPathFinder`. What the finders behind this one find, with its loader's body wrapped."""
        around = self._arounds.get(fullname)
        if around is None:
            return None
        for finder in sys.meta_path[sys.meta_path.index(self) + 1 :]:
            spec = finder.find_spec(fullname, path, target)
            if spec is not None:
                _wrap_loader(spec, around)
                return spec
        return None


def _index_of_path_finder() -> int:
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


class Import:
    """The first import of a module.

    start_ns, end_ns: nanoseconds since the epoch. An import inside another lies inside its times.
    error: the exception that ended it. version: the module's `__version__` afterwards, None without one.
    inside: imports during this one. context: the context variables at its start. pid: the process that imported.
    """

    def __init__(self, name: str, clock: _Clock) -> None:
        self.name = name
        self.clock = clock
        self.start_ns = clock.now_ns()
        self.end_ns = self.start_ns
        self.error: BaseException | None = None
        self.version: str | None = None
        self.inside: list[Import] = []
        self.context: Context = copy_context()
        self.pid = os.getpid()

    @property
    def has_failed(self) -> bool:
        """Whether this import or one inside it ended with an error."""
        return self.error is not None or any(each.has_failed for each in self.inside)


class _Clock:
    """Wall clock and monotonic clock, read together where an outermost import starts."""

    def __init__(self) -> None:
        self._wall_ns, self._start_ns = time.time_ns(), time.perf_counter_ns()

    def now_ns(self) -> int:
        return self._wall_ns + time.perf_counter_ns() - self._start_ns


class FirstImports:
    """Times the first import of each module. Modules that have been imported already are left out.

    names: the modules. ended: called with each import that is not inside another one, when it has ended, in its thread and
    under its import lock.
    """

    def __init__(self, names: Iterable[str], ended: Callable[[Import], None]) -> None:
        self._names = {name for name in names if name not in sys.modules}
        self._ended = ended
        self._local = threading.local()

    def install(self) -> Undo:
        """Begin; the returned function ends it."""
        return AroundImport({name: functools.partial(_Timed, self, name) for name in self._names}).install()

    def begin(self, name: str) -> Import | None:
        """The body of `name` starts. Returns None if it is not the first time: a reload, or another try after a failure."""
        if name not in self._names:
            return None
        self._names.discard(name)
        open_imports = self._open()
        outer = open_imports[-1] if open_imports else None
        begun = Import(name, _Clock() if outer is None else outer.clock)
        if outer is not None:
            outer.inside.append(begun)
        open_imports.append(begun)
        return begun

    def end(self, begun: Import, error: BaseException | None) -> None:
        """The body has run, or raised."""
        begun.end_ns, begun.error = begun.clock.now_ns(), error
        version = getattr(sys.modules.get(begun.name), "__version__", None)
        begun.version = str(version) if isinstance(version, str) else None  # torch's is of a subclass
        open_imports = self._open()
        open_imports.remove(begun)
        if not open_imports:
            self._ended(begun)

    def _open(self) -> list[Import]:
        found: list[Import] | None = getattr(self._local, "open", None)
        if found is None:
            found = self._local.open = []
        return found


class _Timed:
    """Around one body. An exception passes unchanged."""

    def __init__(self, imports: FirstImports, name: str) -> None:
        self._imports, self._name = imports, name
        self._begun: Import | None = None

    def __enter__(self) -> None:
        self._begun = self._guarded(self._imports.begin, self._name)

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        if self._begun is not None:
            self._guarded(self._imports.end, self._begun, error)

    @staticmethod
    def _guarded(function: Callable[..., Any], *args: Any) -> Any:
        try:
            return function(*args)
        except Exception:  # it would come out of the program's import
            logger.debug("torchspan failed to take the time of an import.", exc_info=True)
            return None
