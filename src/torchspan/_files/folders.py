# SPDX-License-Identifier: Apache-2.0
"""A folder that stays the same one, even if others put something else in place of its name."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from io import FileIO
from pathlib import Path

from torchspan._files.opening import CAREFULLY, PRIVATE, Descriptor, is_own, refused, replace_file, system

_REMOVALS = 100
"""Attempts to empty a folder in which another process makes files meanwhile."""


MARKER = ".torchspan-run"
"""The file by which the folder of a run is recognized."""


class _FolderDescriptor(Descriptor):
    __slots__ = ()

    def _has_mark(self) -> bool:
        return bool(system.stat(MARKER, dir_fd=self.number))


class Folder:
    """A folder of this user's, reached through a descriptor that is kept from here on.

    Names are those of entries, without a path. No link is followed, neither in place of the folder nor of an
    entry. If the program has closed the descriptor, the folder is opened again if it is still the same one: this user's,
    with the same device and inode. The descriptor is used while the path leads to the folder, or while the folder has `MARKER` in it.

    Raises OSError if there is none, or if it belongs to another user.

    Args:
        path: Where it is now.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._descriptor = self._opened()

    @property
    def number(self) -> int:
        """The descriptor. Raises OSError if it was closed and the folder is no longer at its path."""
        if self._descriptor.status() is None:
            again = self._opened()
            if again.identity != self._descriptor.identity:
                again.close()
                raise refused(self.path, "was replaced by another folder")
            self._descriptor = again
        return self._descriptor.number

    def open(self, name: str, flags: int) -> int:
        """A descriptor of a regular file of this user's. A file that is made is private to its owner. Raises OSError."""
        opened = system.open(name, flags | CAREFULLY, PRIVATE, dir_fd=self.number)
        try:
            status = system.fstat(opened)
            if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1 or not is_own(status, self.path):
                raise refused(name, "is not a regular file of this user, or has a second name (a hard link)")
        except BaseException:
            system.close(opened)
            raise
        return opened

    def read(self, name: str, limit: int) -> bytes:
        """The first `limit` bytes of a file. Raises OSError."""
        with FileIO(self.open(name, os.O_RDONLY), "rb") as file:
            return file.read(limit)

    def write(self, name: str, content: bytes) -> None:
        """Write a file with this content, in place of any that has the name. Raises OSError."""
        replace_file(name, content, PRIVATE, self.number)

    def unlink(self, name: str) -> None:
        """Remove a file. Raises OSError."""
        system.unlink(name, dir_fd=self.number)

    def touch(self, name: str) -> None:
        """Set the times of a file to now. Raises OSError."""
        system.utime(name, dir_fd=self.number)

    def status(self) -> os.stat_result:
        """The status of the folder itself. Raises OSError."""
        return system.fstat(self.number)

    def names(self) -> list[str]:
        """The names of its entries. Raises OSError."""
        return system.listdir(self.number)

    def remove(self, names: re.Pattern[str]) -> None:
        """Remove the files whose whole name matches, then the folder, unless it contains anything else. Raises nothing.

        If something else was put in place of its name, that stays.
        """
        with contextlib.suppress(OSError):
            for _ in range(_REMOVALS):
                for name in sorted(
                    filter(names.fullmatch, self.names()), key=MARKER.__eq__
                ):  # it last: it is the proof
                    with contextlib.suppress(OSError):
                        self.unlink(name)
                if not self._descriptor.is_in_place():
                    return
                with contextlib.suppress(OSError):  # a process that outlives the run has made a file meanwhile
                    Path(self.path).rmdir()
                    return

    def close(self) -> None:
        """Close the descriptor."""
        self._descriptor.close()

    def _opened(self) -> Descriptor:
        opened = system.open(self.path, os.O_RDONLY | CAREFULLY | getattr(os, "O_DIRECTORY", 0))
        try:
            if not is_own(system.fstat(opened), self.path):
                raise refused(self.path, "belongs to another user")
        except BaseException:
            system.close(opened)
            raise
        return _FolderDescriptor(opened, self.path)
