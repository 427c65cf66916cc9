# SPDX-License-Identifier: Apache-2.0
"""Waiting for a library without importing it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType

import wrapt

Undo = Callable[[], None]


def when_imported(name: str, action: Callable[[bool], Undo]) -> Undo:
    """Run `action` once the module `name` has been imported, at once if it has been already.

    `action` is told whether it comes late: whether the import was before this call, so that others may have taken
    names from the module. The returned function undoes what `action` did, or, before the import, sees to it that
    nothing is done: wrapt has no way to take a hook back.
    """
    state: list[Undo] = []
    wanted = True

    def arrived(_module: ModuleType, *, late: bool = False) -> None:
        if wanted:
            state.append(action(late))

    def undo() -> None:
        nonlocal wanted
        wanted = False
        while state:
            state.pop()()

    if sys.modules.get(name) is not None:  # None is how a program forbids an import
        arrived(sys.modules[name], late=True)
    else:
        wrapt.register_post_import_hook(arrived, name)
    return undo
