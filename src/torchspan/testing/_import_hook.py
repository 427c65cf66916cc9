# SPDX-License-Identifier: Apache-2.0
"""Running code around the body of a module that has yet to be imported.

wrapt's post-import hooks run after the body, in the order of registration. Here something must happen before the body of
`torch_tensorrt` runs, and the rest before anybody else's hook sees the module. So the *innermost* loader is wrapped: this
finder stands directly before the standard path finder, that is behind every hook finder, and those insert themselves first.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

Around = Callable[[], AbstractContextManager[None]]


class AroundImport(MetaPathFinder):
    """Enters a context manager right before the body of each module in `arounds` runs and leaves it right after.

    The context manager runs in the importing thread, under the module's import lock. What it raises, the import raises.
    """

    def __init__(self, arounds: dict[str, Around]) -> None:
        self._arounds = arounds

    def install(self) -> None:
        """Put this finder where it is asked last before the standard path finder. No effect on modules already imported."""
        sys.meta_path.insert(_index_of_path_finder(), self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
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
    """Shadow exec_module on this one loader object, so that its type and every other method stay what they were."""
    loader: Any = spec.loader
    original = getattr(loader, "exec_module", None)
    if loader is None or original is None:  # a namespace package has no body
        return

    @functools.wraps(original)
    def exec_module(module: ModuleType) -> None:
        del loader.exec_module
        with around():
            original(module)

    loader.exec_module = exec_module
