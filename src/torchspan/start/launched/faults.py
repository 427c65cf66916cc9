# SPDX-License-Identifier: Apache-2.0
"""A crash of a process below `torchspan run`: Python's `faulthandler` writes into a file of torchspan's."""

from __future__ import annotations

import contextlib
import faulthandler
import functools
import os
from typing import Any

from torchspan.base.files.folders import Folder
from torchspan.base.files.opening import WHEN_LOST, Descriptor, system
from torchspan.base.forks import in_each_child
from torchspan.base.patching import Function, Patches

SUFFIX = ".crash"
"""Of the file; its stem is the process id."""


def catch_crashes(folder: Folder) -> None:
    """Write a crash of this process to `<pid>.crash` in the folder, and crashes of its forked children to files of their own.

    Does nothing if `faulthandler` is already enabled (PYTHONFAULTHANDLER, `-X faulthandler`, `-X dev`, code).
    As soon as the program calls `faulthandler.enable()` or `disable()`, its call is in effect and torchspan's file is removed.
    Until then `faulthandler.is_enabled()` is False, as without torchspan: pytest, for example, enables it again on stderr at
    its end if it was enabled at its start.

    `faulthandler` writes to a number, and looks at nothing when the process crashes. So the number is a high one, and it is checked
    whenever another descriptor of torchspan's turns out to be closed.

    The file is empty unless the process crashes, and stays until the folder is removed: many crashes come after the
    last of Python's exit handlers.
    """
    if faulthandler.is_enabled():
        return
    catcher = _Catcher(folder)
    if catcher.begin():
        in_each_child(functools.partial(catcher.begin_in_child))  # which keeps it alive
        WHEN_LOST.append(catcher.check)


class _Catcher:
    """faulthandler on a file of torchspan's, until the program uses it itself."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._file: Descriptor | None = None
        self._enable, self._disable = faulthandler.enable, faulthandler.disable
        self._patches = Patches()

    def begin(self) -> bool:
        """Enable it. Returns False if the file cannot be made."""
        if not self._open():
            return False
        for name in ("enable", "disable", "is_enabled"):
            self._patches.replace_shared(faulthandler, name, functools.partial(self._instead_of, name))
        return True

    def _instead_of(self, name: str, original: Function) -> Function:
        def instead(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            is_own = self._file is not None if name == "is_enabled" else self._leave()
            return False if is_own and name != "enable" else result

        return instead

    def begin_in_child(self) -> None:
        """In a forked child of a process in which it is enabled: continue in a file of the child's own."""
        parents = self._file
        if parents is None:
            return
        if not self._open():
            self._disable()
            self._file = None
        parents.close()

    def check(self) -> None:
        """Leave a descriptor that the program has closed: its number may be that of a file of the program's."""
        file, self._file = self._file, None  # while its status is asked for, which may end here
        if file is not None and file.status() is not None:
            self._file = file
        elif file is not None and not self._open():
            self._disable()

    def _open(self) -> bool:
        try:
            opened = self._folder.open(_name(), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            file = Descriptor(opened, os.path.join(self._folder.path, _name()))  # noqa: PTH118 - as in `Folder`
        except OSError:
            return False
        try:
            self._enable(file=file.number, all_threads=True)
        except Exception:
            file.close()
            return False
        self._file = file
        return True

    def _leave(self) -> bool:
        """Restore everything once the program has made its own call. Returns whether that was the first one."""
        file, self._file = self._file, None
        if file is None:
            return False
        self._patches.undo()
        with contextlib.suppress(OSError):
            file.close()
            self._folder.unlink(_name())
        return True


def _name() -> str:
    return f"{system.getpid()}{SUFFIX}"
