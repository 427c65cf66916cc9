# SPDX-License-Identifier: Apache-2.0
"""A file to which several processes append whole lines."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep  # the real ones, also where a program replaces them later

from torchspan._base.forks import in_each_child
from torchspan._files.opening import Descriptor, Judge, check_size, is_descriptor, open_for_appending, refused, regular
from torchspan.sdk import _path

try:
    import fcntl
except ImportError:  # Windows: O_APPEND alone keeps lines of different processes apart
    fcntl = None  # type: ignore[assignment]

PATIENCE_S = 0.1
"""Seconds for which a lock of another process, or a pipe that nothing reads, is waited for: once."""

LONGEST_WRITE_S = 1.0
"""Seconds that one line may take on its way into a pipe or a terminal."""


_START = b'{"resource'
"""What a file of OTLP JSON begins with."""


class FileIsFullError(Exception):
    """The line would have made the file larger than its limit. The exporter catches it."""


class AppendFile:
    """Appends lines, each by one `os.write` on an O_APPEND descriptor under a lock that all writers share.

    Args:
        path: The name of the file, with a mark in it that makes it another one; asked for at every opening, so that
            a forked child gets the file of its own process id.
        max_size: Bytes that the file may have after a write.
        mode: Permissions of a file that is made.
        judge: What may be written to. What it refuses is not opened, and a link is never followed. Nothing is
            appended to a regular file that contains something else than OTLP JSON.

    The file and its folders are created at the first line, and again when the file was deleted meanwhile. A line
    is written whole or not at all: what a full disk cut off is taken back, and a torn line that another program
    left at the end is closed with a newline first. A program may close all descriptors, this one included: then the
    file is opened again, and a file of the program's that has got the same number is left alone.

    Nothing waits for another process for longer than PATIENCE_S, and that once: where the lock is held for so long, this
    process writes to another file from then on; what a pipe or a terminal does not take is an OSError.

    A signal handler may run in the middle of a write of its own thread. What it writes comes after that line, and what it
    closes is closed then.
    """

    def __init__(self, path: Callable[[str], str], max_size: int, mode: int, judge: Judge = regular) -> None:
        self._path = path
        self._max_size = max_size
        self._mode = mode
        self._judge = judge
        self._descriptor: Descriptor | None = None
        self._end: int | None = None
        self._is_torn = False
        self._waits = True
        self._locked: str | None = None
        self._mark = ""
        self._notice: str | None = None
        self._start_process()
        in_each_child(self._reset_after_fork)

    @property
    def path(self) -> str:
        """The file that this process writes."""
        path = self._path("")
        return self._path(self._mark) if path == self._locked else path

    def notice(self) -> str | None:
        """What happened since the last call that a user should know: a sentence without a full stop."""
        notice, self._notice = self._notice, None
        return notice

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
        descriptor, mode = self._open()
        if not stat.S_ISREG(mode):
            self._append_to_stream(descriptor, line)
            return
        lock = self._lock(descriptor)
        if lock is None:
            descriptor, lock = self._elsewhere(descriptor)
        try:
            self._append_to_regular_file(descriptor, line)
        finally:
            if lock:
                fcntl.flock(descriptor, fcntl.LOCK_UN)

    def _append_to_regular_file(self, descriptor: int, line: bytes) -> None:
        size = os.fstat(descriptor).st_size
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
                view = view[os.write(descriptor, view) :]
        except OSError:
            with contextlib.suppress(OSError):
                # Unless another program has appended meanwhile.
                if os.fstat(descriptor).st_size == size + len(line) - len(view):
                    os.ftruncate(descriptor, size)
            raise
        self._end = size + len(line)

    def _append_to_stream(self, descriptor: int, line: bytes) -> None:
        """Write to a pipe or a device, which takes what fits into its buffer.

        One whose reader stops is waited for once; from then on lines that do not fit are lost until one does.
        """
        view = memoryview(b"\n" + line if self._is_torn else line)
        start = last = monotonic()
        while view:
            try:
                view = view[os.write(descriptor, view) :]
                last = monotonic()
            except BlockingIOError:
                now = monotonic()
                if not self._waits or now - last > PATIENCE_S or now - start > LONGEST_WRITE_S:
                    self._waits = False
                    self._is_torn |= len(view) < len(line)
                    raise OSError(errno.EAGAIN, "its reader does not read from it") from None
                sleep(0.002)
        self._waits, self._is_torn = True, False

    def _open(self) -> tuple[int, int]:
        """The descriptor of the file that is at the path, and its mode."""
        if self._descriptor is not None:
            status = self._descriptor.status()
            if status is not None and status.st_nlink:
                return self._descriptor.number, status.st_mode
            self._close()
        path = self.path
        try:
            _make_folder(Path(path).parent)
            opened = open_for_appending(path, self._judge, self._mode)
        except ValueError as error:  # a NUL character, or one that the system's encoding lacks
            raise OSError(errno.EINVAL, f"is not a name that a file can have ({error})") from None
        self._descriptor = Descriptor(opened)
        number = self._descriptor.number
        try:
            check_is_of_traces(number, path)
        except OSError:
            self._close()
            raise
        return number, os.fstat(number).st_mode

    def _lock(self, descriptor: int) -> bool | None:
        """Take the lock that all writers of this file share. None: another process holds it and does not release it.

        False where none is available (a file system without locks, no other file to go to): O_APPEND keeps whole
        lines apart in all but the rarest case.
        """
        if fcntl is None:
            return False
        pause, deadline = 0.00005, None
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                now = monotonic()
                deadline = now + PATIENCE_S if deadline is None else deadline
                if not self._waits:
                    return False
                if now > deadline:
                    return None
                sleep(pause)
                pause = min(pause * 2, 0.002)
            except OSError:
                return False
            else:
                return True

    def _elsewhere(self, locked: int) -> tuple[int, bool]:
        """Continue in another file, which no other process writes; where none can be made, in this one without the lock."""
        before = self._path("")
        self._locked, self._mark = before, _path.new_mark()
        try:
            other = Descriptor(open_for_appending(self.path, self._judge, self._mode))
        except OSError:
            self._locked, self._waits = None, False
            return locked, False
        self._close()
        self._descriptor = other
        self._note_move()
        return other.number, False

    def _note_move(self) -> None:
        self._notice = f"{self._locked} is locked by another process, so this process writes to {self.path}"

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
        self._mark = _path.new_mark()
        if self._locked == self._path(""):
            self._note_move()
        self._close()


def check_is_of_traces(descriptor: int, name: str) -> None:
    """Raises OSError for a regular file that contains something else than OTLP JSON: a line at its end would damage it."""
    if is_descriptor(name) or not hasattr(os, "pread") or not stat.S_ISREG(os.fstat(descriptor).st_mode):
        return
    start = os.pread(descriptor, 64, 0).lstrip()[: len(_START)]
    if not _START.startswith(start):
        raise refused(name, "is not a file of traces, and torchspan appends to no other file")


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
