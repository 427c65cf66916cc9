# SPDX-License-Identifier: Apache-2.0
"""A file to which several processes append whole lines."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic, sleep  # the real ones, also where a program replaces them later

from torchspan._base.descriptors import Descriptor

try:
    import fcntl
except ImportError:  # Windows: O_APPEND alone keeps lines of different processes apart
    fcntl = None  # type: ignore[assignment]

_LOCK_PATIENCE_S = 5.0
_BINARY = getattr(os, "O_BINARY", 0)


class FileIsFullError(Exception):
    """The line would have made the file larger than its limit. The exporter catches it."""


class AppendFile:
    """Appends lines, each by one `os.write` on an O_APPEND descriptor under a lock that all writers share.

    path: asked for at every opening, so that a forked child gets the file of its own process id.
    max_size: bytes that the file may have after a write.

    The file and its folders are created at the first line, and again when the file was deleted meanwhile. A line
    is written whole or not at all: what a full disk cut off is taken back, and a torn line that another program
    left at the end is closed with a newline first. A program may close all descriptors, this one included: then the
    file is opened again, and a file of the program's that has got the same number is left alone.
    """

    def __init__(self, path: Callable[[], str], max_size: int) -> None:
        self._path = path
        self._max_size = max_size
        self._descriptor: Descriptor | None = None
        self._end: int | None = None
        self._thread_lock = threading.Lock()
        if hasattr(os, "register_at_fork"):
            this = weakref.ref(self)
            os.register_at_fork(after_in_child=lambda: _reset(this()))

    def append(self, line: bytes) -> None:
        """Write one line, or several that stay together, the last newline included.

        Raises FileIsFullError when the limit would be exceeded, OSError when the file cannot be opened or written.
        """
        with self._thread_lock:
            descriptor, mode = self._open()
            if not stat.S_ISREG(mode):
                _write_all(descriptor, line)
                return
            with _locked(descriptor):
                self._append_to_regular_file(descriptor, line)

    def close(self) -> None:
        """Close the file; a later `append` opens it again."""
        with self._thread_lock:
            self._close()

    def _append_to_regular_file(self, descriptor: int, line: bytes) -> None:
        size = os.fstat(descriptor).st_size
        # Where the file ends as this process left it, the last byte is known.
        if size != self._end and _is_torn(descriptor, size):
            line = b"\n" + line
        if size + len(line) > self._max_size:
            raise FileIsFullError
        self._end = None
        try:
            _write_all(descriptor, line)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(descriptor, size)
            raise
        self._end = size + len(line)

    def _open(self) -> tuple[int, int]:
        """The descriptor of the file that is at the path, and its mode."""
        if self._descriptor is not None:
            status = self._descriptor.status()
            if status is not None and status.st_nlink:
                return self._descriptor.number, status.st_mode
            self._close()
        path = Path(self._path())
        _make_folder(path.parent)
        # Reading is for the last byte of a regular file; a pipe or a terminal may refuse it.
        access = os.O_RDWR if path.is_file() or not path.exists() else os.O_WRONLY
        opened = self._descriptor = Descriptor(path, access | os.O_APPEND | os.O_CREAT | _BINARY)
        return opened.number, os.fstat(opened.number).st_mode

    def _close(self) -> None:
        descriptor, self._descriptor, self._end = self._descriptor, None, None
        if descriptor is not None:
            descriptor.close()

    def _reset_after_fork(self) -> None:
        # A thread of the parent may have held the lock, and the lock on the file belongs to the shared descriptor.
        self._thread_lock = threading.Lock()
        self._close()


def _reset(file: AppendFile | None) -> None:
    if file is not None:
        file._reset_after_fork()


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:  # true, and of no help to a reader
        raise NotADirectoryError(errno.ENOTDIR, f"{folder} is not a folder") from None


def _is_torn(descriptor: int, size: int) -> bool:
    if size == 0 or not hasattr(os, "pread"):
        return False
    try:
        return os.pread(descriptor, 1, size - 1) != b"\n"
    except OSError:
        return False


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


@contextlib.contextmanager
def _locked(descriptor: int) -> Iterator[None]:
    """Hold the lock that all writers of this file share.

    After five seconds, or on a file system without locks, go on without it: a program that was stopped inside its
    write must not stop others, and O_APPEND keeps whole lines apart in all but the rarest case.
    """
    held = _acquire(descriptor)
    try:
        yield
    finally:
        if held:
            fcntl.flock(descriptor, fcntl.LOCK_UN)


def _acquire(descriptor: int) -> bool:
    if fcntl is None:
        return False
    deadline = monotonic() + _LOCK_PATIENCE_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if monotonic() > deadline:
                return False
            sleep(0.002)
        except OSError:
            return False
        else:
            return True
