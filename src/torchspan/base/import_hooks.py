# SPDX-License-Identifier: Apache-2.0
"""Waiting for a library without importing it.

wrapt cannot remove a hook. So there is one hook for each module name and process, with a list of the actions that wait for it.
Actions can be removed from that list, so instrumenting again and again registers nothing more.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import wrapt
import wrapt.importer

from torchspan.base import forks

Undo = Callable[[], None]
Action = Callable[[bool], Undo]


def when_imported(name: str, action: Action) -> Undo:
    """Run `action` once the module `name` has been imported: at once if that has happened. An import that has begun in any thread, but
    not ended, does not count.

    The argument of `action` is True if it comes late, that is, if the import was before this call. Others may then have
    taken names from the module. Actions that wait for the same module run in the order of these calls. An action must not
    raise, because the import would fail. The returned function undoes what `action` did, or, before the import, removes it.
    """
    waiting = _Waiting(name, action)
    module = sys.modules.get(name)  # None is how a program forbids an import
    if module is not None and not _is_being_imported(module):
        waiting.run(late=True)
        return waiting.undo
    with forks.SWITCHING:
        is_first = name not in _WAITING
        _WAITING.setdefault(name, []).append(waiting)
    if module is not None:
        _watch_import(module)
    elif is_first:
        _register(name)
    return waiting.undo


def _register(name: str) -> None:
    # Without the lock: it may run the hook at once.
    wrapt.register_post_import_hook(functools.partial(_arrived, name), name)


class _Waiting:
    """One action, before and after the import."""

    def __init__(self, name: str, action: Action) -> None:
        self._name = name
        self._action: Action | None = action
        self._undo: Undo | None = None
        self._is_undone = False

    def run(self, *, late: bool) -> None:
        action, self._action = self._action, None
        if action is not None:
            self._undo = action(late)
            if self._is_undone:  # meanwhile, by another thread
                self.undo()

    def undo(self) -> None:
        self._is_undone, self._action = True, None
        with forks.SWITCHING:
            waiting = _WAITING.get(self._name, [])
            if self in waiting:
                waiting.remove(self)
        undo = self._undo
        if undo is not None:
            undo()
            self._undo = None  # at the end: a second call does what an interrupt left undone


# --- in the middle of an import ---------------------------------------------------------------------------------------
# wrapt, like the program's own `import`, finds the module in `sys.modules` from the beginning of its import. importlib itself uses an
# attribute of the specification, `_initializing`, which it sets when the import begins and when it has ended
# (importlib/_bootstrap.py, `_load_unlocked`). A specification of another class is not looked at: its module counts as imported.


def is_imported(name: str) -> bool:
    """Whether the module `name` can be used: to import it while another thread does so is to wait for that thread."""
    module = sys.modules.get(name)
    return module is not None and not _is_being_imported(module)


def _is_being_imported(module: ModuleType) -> bool:
    spec: Any = getattr(module, "__spec__", None)
    return type(spec) in (ModuleSpec, _WatchedSpec) and getattr(spec, "_initializing", False) is True


def _watch_import(module: ModuleType) -> None:
    """Have `_ended` called when the import of the module has ended, in the thread in which it ends."""
    spec: Any = module.__spec__
    spec.__class__ = _WatchedSpec
    if not spec._initializing:  # it has ended meanwhile
        spec._initializing = False


class _WatchedSpec(ModuleSpec):
    """The specification of a module that is being imported. When importlib notes the end of the import there, it becomes a plain one."""

    __slots__ = ()

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == "_initializing" and not value:
            self.__class__ = ModuleSpec  # type: ignore[assignment]
            _ended(self.name)


def _ended(name: str) -> None:
    module = sys.modules.get(name)
    if module is None:  # it has failed: wait for the next one
        _register(name)
    else:
        _arrived(name, module)


def _arrived(name: str, _module: ModuleType) -> None:
    """The import has ended. If the module is removed and imported again, the next action needs a new hook."""
    with forks.SWITCHING:
        arrived = _WAITING.pop(name, [])
    for arrival in arrived:
        arrival.run(late=False)


_WAITING: dict[str, list[_Waiting]] = {}
"""The actions that wait, by module. A name stays here, with no action, because its hook does."""


forks.renewed(vars(wrapt.importer).get("_post_import_hooks_lock"))
"""Every import takes this lock for a moment."""
