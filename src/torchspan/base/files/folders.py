# SPDX-License-Identifier: Apache-2.0
"""A folder of this user's, which is looked at again before each use."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from io import FileIO
from pathlib import Path

from torchspan.base.files.opening import CAREFULLY, PRIVATE, checked, refused, replace_file, system

_REMOVALS = 100
"""Attempts to empty a folder in which another process makes files meanwhile."""

MARKER = ".torchspan-run"
"""The file by which the folder of a run is recognized."""


class Folder:
    """A folder of this user's.

    Names are those of entries, without a path. No link is followed, neither in place of the folder nor of an entry. Each method
    raises OSError where the folder is gone, or where another user has put something in its place. Nobody else can do so between that
    look and the use: in a folder for all users, such as /tmp, only its owner may rename it.

    Raises OSError if there is none, or if it belongs to another user.

    Args:
        path: Where it is.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.status()

    def status(self) -> os.stat_result:
        """The status of the folder itself. Raises OSError."""
        status = system.lstat(self.path)
        if not stat.S_ISDIR(status.st_mode):
            raise NotADirectoryError(f"{self.path} is not a folder")
        if hasattr(system, "geteuid") and status.st_uid != system.geteuid():
            raise refused(self.path, "belongs to another user")
        return status

    def path_of(self, name: str) -> str:
        """The path of an entry. Raises OSError."""
        self.status()
        return os.path.join(self.path, name)  # noqa: PTH118 - pathlib is slower, and a program may replace its methods

    def open(self, name: str, flags: int) -> int:
        """A descriptor of a regular file of this user's. A file that is made is private to its owner. Raises OSError."""
        path = self.path_of(name)
        return checked(system.open(path, flags | CAREFULLY, PRIVATE), path)

    def read(self, name: str, limit: int) -> bytes:
        """The first `limit` bytes of a file. Raises OSError."""
        with FileIO(self.open(name, os.O_RDONLY), "rb") as file:
            return file.read(limit)

    def write(self, name: str, content: bytes) -> None:
        """Write a file with this content, in place of any that has the name. Raises OSError."""
        replace_file(self.path_of(name), content, PRIVATE)

    def unlink(self, name: str) -> None:
        """Remove a file. Raises OSError."""
        system.unlink(self.path_of(name))

    def touch(self, name: str) -> None:
        """Set the times of a file to now. Raises OSError."""
        system.utime(self.path_of(name))

    def names(self) -> list[str]:
        """The names of its entries. Raises OSError."""
        self.status()
        return system.listdir(self.path)

    def remove(self, names: re.Pattern[str]) -> None:
        """Remove the files whose whole name matches, then the folder, unless it contains anything else. Raises nothing."""
        for _ in range(_REMOVALS):
            with contextlib.suppress(OSError):  # also where a process that outlives the run has made a file meanwhile
                # The marker last: it is the proof.
                for name in sorted(filter(names.fullmatch, self.names()), key=MARKER.__eq__):
                    with contextlib.suppress(OSError):
                        self.unlink(name)
                Path(self.path).rmdir()
                return
