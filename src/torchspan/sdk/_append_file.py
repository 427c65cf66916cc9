# SPDX-License-Identifier: Apache-2.0
"""A file to which several processes append whole lines."""

from __future__ import annotations

import contextlib
import errno
import re
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep  # the real ones, also where a program replaces them later

from torchspan._base.forks import in_each_child
from torchspan._files.opening import Descriptor, check_size, flock, open_for_appending, refused, system, write_some

try:
    import fcntl
except ImportError:  # Windows: O_APPEND alone keeps lines of different processes apart
    fcntl = None  # type: ignore[assignment]

PATIENCE_S = 0.1
"""Seconds for which a lock of another process is waited for: once."""

_START = re.compile(rb'\s*\{"resource(?:Spans|Metrics|Logs)"\s*:')
"""What a file of OTLP JSON begins with. Files of other kinds begin with `{"resourceType":` or `{"resources":`."""

_TORN_START = b'{"resourceSpans":'
"""What a write that was cut off has left the beginning of."""

_LAST = 64
"""Bytes at the end of the line that a process wrote last, by which it recognizes the file."""


class FileIsFullError(Exception):
    """The line would have made the file larger than its limit. The exporter catches it."""


class AppendFile:
    """Appends lines, each by one write on an O_APPEND descriptor under a lock that all writers share.

    Args:
        path: The name of the file, asked for at every opening, so that a forked child gets the file of its own process id.
        max_size: Bytes that the file may have after a write.
        mode: Permissions of a file that is made.

    It must be a regular file. A link is never followed, and nothing is appended to a file that contains something else than
    OTLP JSON.

    The file and its folders are created at the first line, and again when the file was deleted meanwhile. A line
    is written whole or not at all: what a full disk cut off is taken back, and a torn line that another program
    left at the end is closed with a newline first. A program may close all descriptors, this one included: then the
    file is opened again, and a file of the program's that has got the same number, or the inode of a deleted file, is left alone.

    Another process that holds the lock is waited for once, for PATIENCE_S. From then on this process writes without the lock where
    it is held: O_APPEND keeps whole lines apart in all but the rarest case.

    A signal handler may run in the middle of a write of its own thread. What it writes comes after that line, and what it
    closes is closed then.
    """

    def __init__(self, path: Callable[[], str], max_size: int, mode: int) -> None:
        self._path = path
        self._max_size = max_size
        self._mode = mode
        self._descriptor: Descriptor | None = None
        self._end: int | None = None
        self._waits = True
        self._start_process()
        in_each_child(self._reset_after_fork)

    @property
    def path(self) -> str:
        """The file that this process writes."""
        return self._path()

    def mode_for_others(self) -> int:
        """The rights that the file gives to its group and to others, opened if it is not; 0 if it is the owner's alone.

        Raises OSError if the file cannot be opened.
        """
        with self._thread_lock:
            return system.fstat(self._open()).st_mode & 0o077

    def append(self, line: bytes) -> None:
        """Write one line, or several that stay together, the last newline included.

        Raises FileIsFullError when the limit would be exceeded, OSError when the file cannot be opened or written.
        """
        with self._thread_lock:
            self._lines.append(line)
            if not self._is_writing:
                self._write_lines()

    def close(self) -> None:
        """Close the file; a later `append` opens it again."""
        with self._thread_lock:
            if self._is_writing:
                self._closes = True
                return
            with contextlib.suppress(OSError, FileIsFullError):
                self._write_lines()  # what a signal handler left that ended the program
            self._close()

    def _write_lines(self) -> None:
        while self._lines:  # again for what a signal handler adds at the end of the loop inside
            self._is_writing = True
            try:
                while self._lines:
                    self._write(self._lines.popleft())
            finally:
                self._is_writing = False
                if self._closes:
                    self._closes = False
                    self._close()

    def _write(self, line: bytes) -> None:
        descriptor = self._open()
        is_locked = self._lock(descriptor)
        try:
            self._append_line(descriptor, line)
        finally:
            if is_locked and flock is not None:
                flock(descriptor, fcntl.LOCK_UN)

    def _append_line(self, descriptor: int, line: bytes) -> None:
        size = system.fstat(descriptor).st_size
        # Where the file ends as this process left it, the last byte is known.
        if size != self._end and _is_torn(descriptor, size):
            line = b"\n" + line
        if size + len(line) > self._max_size:
            raise FileIsFullError
        check_size(size + len(line))
        self._end = None
        view = memoryview(line)
        try:
            while view:
                view = write_some(descriptor, view)
        except OSError:
            with contextlib.suppress(OSError):
                # Unless another program has appended meanwhile.
                if system.fstat(descriptor).st_size == size + len(line) - len(view):
                    system.ftruncate(descriptor, size)
            raise
        self._end = size + len(line)
        if self._descriptor is not None:
            last = line[-_LAST:]
            self._descriptor.mark = (last, self._end - len(last))

    def _open(self) -> int:
        """The descriptor of the file that is at the path."""
        if self._descriptor is not None:
            status = self._descriptor.status()
            if status is not None and status.st_nlink:
                return self._descriptor.number
            self._close()
        path = self.path
        try:
            try:
                opened = open_for_appending(path, self._mode)
            except (FileNotFoundError, NotADirectoryError):
                _make_folder(Path(path).parent)
                opened = open_for_appending(path, self._mode)
        except ValueError as error:  # a NUL character, or one that the system's encoding lacks
            raise OSError(errno.EINVAL, f"it is not a name that a file can have ({error})") from None
        try:
            self._descriptor = Descriptor(opened, path)
            check_is_of_traces(self._descriptor.number, path)
        except BaseException:
            self._close()
            raise
        return self._descriptor.number

    def _lock(self, descriptor: int) -> bool:
        """Take the lock that all writers of this file share. False: there is none, or another process does not release it."""
        if flock is None:
            return False
        pause, deadline = 0.00005, monotonic() + PATIENCE_S
        while True:
            try:
                flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self._waits = self._waits and monotonic() <= deadline
                if not self._waits:
                    return False
                sleep(pause)
                pause = min(pause * 2, 0.002)
            except OSError:  # a file system without locks
                return False
            else:
                return True

    def _close(self) -> None:
        descriptor, self._descriptor, self._end = self._descriptor, None, None
        if descriptor is not None:
            descriptor.close()

    def _start_process(self) -> None:
        self._thread_lock = threading.RLock()
        self._lines: deque[bytes] = deque()
        self._is_writing = self._closes = False

    def _reset_after_fork(self) -> None:
        # A thread of the parent may have held the lock, and the lock on the file belongs to the shared descriptor.
        self._start_process()
        self._close()


def check_is_of_traces(descriptor: int, name: str) -> None:
    """Raises OSError for a file that contains something else than OTLP JSON: a line at its end would damage it."""
    if not hasattr(system, "pread"):
        return
    start = system.pread(descriptor, 64, 0)
    if not (_START.match(start) or _TORN_START.startswith(start.strip())):
        raise refused(name, "is not a file of traces, and torchspan appends to no other file")


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:  # true, and of no help to a reader
        raise NotADirectoryError(errno.ENOTDIR, f"{folder} is not a folder") from None


def _is_torn(descriptor: int, size: int) -> bool:
    with contextlib.suppress(OSError, AttributeError):  # Windows has no `pread`
        return size > 0 and system.pread(descriptor, 1, size - 1) != b"\n"
    return False
