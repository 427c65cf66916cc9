# SPDX-License-Identifier: Apache-2.0
"""Waiting for a library without importing it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType

import wrapt

Undo = Callable[[], None]


def when_imported(name: str, action: Callable[[], Undo]) -> Undo:
    """Run `action` once the module `name` has been imported, at once if it has been already.

    The returned function undoes what `action` did, or, before the import, sees to it that nothing is done: wrapt
    has no way to take a hook back.
    """
    state: list[Undo] = []
    wanted = True

    def arrived(_module: ModuleType) -> None:
        if wanted:
            state.append(action())

    def undo() -> None:
        nonlocal wanted
        wanted = False
        while state:
            state.pop()()

    if name in sys.modules:
        arrived(sys.modules[name])
    else:
        wrapt.register_post_import_hook(arrived, name)
    return undo
