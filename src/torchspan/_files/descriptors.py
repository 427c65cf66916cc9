# SPDX-License-Identifier: Apache-2.0
"""Files that torchspan keeps open in a program, which may close every descriptor that it finds."""

from __future__ import annotations

import contextlib
import os

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


class Descriptor:
    """An open file.

    Its number is never 0, 1 or 2. In a program without a stdout the number 1 is free, and processes that it starts would print into
    the file. If the program has closed the descriptor, and perhaps given the number to one of its own files, nothing is done to that
    file.

    opened: the descriptor that `os.open` returned. If its number is 0, 1 or 2, it is closed and replaced by a duplicate.
    """

    __slots__ = ("identity", "number")

    def __init__(self, opened: int) -> None:
        self.number = _above_streams(opened)
        self.identity = identity(os.fstat(self.number))
        """Device and inode of the file."""

    def status(self) -> os.stat_result | None:
        """The status of the file; None if the descriptor has been closed."""
        with contextlib.suppress(OSError):
            status = os.fstat(self.number)
            if identity(status) == self.identity:
                return status
        return None

    def close(self) -> None:
        """Close it, unless it has been closed."""
        if self.status() is not None:
            os.close(self.number)


def identity(status: os.stat_result) -> tuple[int, int]:
    """What two descriptors of one file have in common."""
    return status.st_dev, status.st_ino


def _above_streams(descriptor: int) -> int:
    if descriptor > 2 or fcntl is None:
        return descriptor
    try:
        return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)
    finally:
        os.close(descriptor)
