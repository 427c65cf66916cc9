# SPDX-License-Identifier: Apache-2.0
"""Modules that torchspan has imported before the program began, such as `calendar`, in a program that may have its own of that name."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

from torchspan.base.imports import index_of_path_finder, spec_behind

_KEPT = {"collections", "enum", "importlib", "re", "threading", "types", "typing", "weakref"}
"""Packages that stay in `sys.modules`, where Python itself looks for some, and so do those that spans go through."""


class EarlyModules:
    """A finder for `sys.meta_path`. It takes these modules out of `sys.modules` until the program imports them.

    Then the program gets what it would get alone. Where that is the same file, it gets the module that has been imported, so
    that there is one of each.

    Args:
        programs: The names of the modules that Python itself has imported. They stay.
    """

    def __init__(self, programs: Collection[str]) -> None:
        imported = {name: module for name, module in sys.modules.items() if _is_from_file(module)}
        packages = imported.keys() - _KEPT - set(programs)
        self._modules = {
            name: module
            for name, module in imported.items()
            if (package := name.partition(".")[0]) in packages
            and not package.startswith(("_", "opentelemetry", "torchspan"))
        }
        for name in self._modules:
            del sys.modules[name]
        sys.meta_path.insert(index_of_path_finder(), self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """See `importlib.abc.MetaPathFinder`. What is found without this finder, with a loader that loads nothing again."""
        early = self._modules.get(fullname)
        spec = None if early is None else spec_behind(self, fullname, path, target)
        if early is None or spec is None or spec.origin != early.__file__ or not hasattr(spec.loader, "__dict__"):
            return spec
        own = early.__spec__

        def exec_module(module: ModuleType) -> None:
            module.__spec__ = own
            self._modules.pop(fullname, None)

        vars(spec.loader).update(create_module=lambda _spec: early, exec_module=exec_module)
        return spec


def _is_from_file(module: ModuleType) -> bool:
    spec = getattr(module, "__spec__", None)
    return type(spec) is ModuleSpec and spec.has_location and spec.origin == getattr(module, "__file__", None)
