# SPDX-License-Identifier: Apache-2.0
"""The file of spans, which all that torchspan writes of them goes through."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from time import monotonic, sleep  # the real ones, also where a program replaces them later
from typing import Any

from torchspan.base.files.opening import (
    Descriptor,
    check_is_of_traces,
    check_size,
    flock,
    open_for_appending,
    system,
    write_some,
)
from torchspan.base.forks import in_each_child
from torchspan.output.sdk import _path
from torchspan.output.sdk._otlp_json import Encoded, Encoder, lines
from torchspan.words.environment_variables import TORCHSPAN_FILE_MAX_SIZE, TORCHSPAN_FILE_MODE
from torchspan.words.settings import value_of

try:
    import fcntl
except ImportError:  # Windows: O_APPEND alone keeps lines of different processes apart
    fcntl = None  # type: ignore[assignment]

PATIENCE_S = 0.1
"""Seconds for which a lock of another process is waited for: once."""

_LAST = 64
"""Bytes at the end of the line that a process wrote last, by which it recognizes the file."""


class FileIsFullError(Exception):
    """The line would have made the file larger than its limit."""


Lost = list[tuple[Exception, int]]
"""Why spans are not in the file, and how many."""


class SpanFile:
    """A file to which threads and processes append spans, each time by one write on an O_APPEND descriptor under a lock that all writers share.

    Args:
        path: Its name, with the placeholders of `_path`: a forked child has the file of its own process id.
        max_size: Bytes that the file may have after a write. None: TORCHSPAN_FILE_MAX_SIZE.
        mode: Permissions of a file that is made. None: TORCHSPAN_FILE_MODE.
        resource: Returns attributes that every resource gets. It is called once in each process.

    It must be a regular file. A link is never followed, and nothing is appended to a file that contains something else than
    OTLP JSON.

    The file and its folders are created at the first line, and again when the file was deleted meanwhile. A line
    is written whole or not at all: what a full disk cut off is taken back, and a torn line that another program
    left at the end is closed with a newline first. A program may close all descriptors, this one included: then the
    file is opened again, and a file of the program's that has got the same number, or the inode of a deleted file, is left alone.

    Another process that holds the lock is waited for once, for PATIENCE_S. From then on this process writes without the lock where
    it is held: O_APPEND keeps whole lines apart in all but the rarest case.

    A signal handler or a finalizer may run in the middle of a write of its own thread. What it writes comes after that write, and what
    it closes is closed then.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        max_size: int | None = None,
        mode: int | None = None,
        *,
        resource: Callable[[], Mapping[str, Any]] = dict,
    ) -> None:
        self._template = _path.absolute(os.fspath(path))
        self._time = _path.start_time()
        self.max_size = value_of(TORCHSPAN_FILE_MAX_SIZE) if max_size is None else max_size
        self._mode = value_of(TORCHSPAN_FILE_MODE) if mode is None else mode
        self._resource = resource
        self._descriptor: Descriptor | None = None
        self._end: int | None = None
        self._waits = True
        self._start_process()
        in_each_child(self._start_process)

    def _start_process(self) -> None:
        # What waits belongs to the parent, and so does the lock on the file, which goes with the descriptor. Another thread of the
        # parent may have held the lock of the threads.
        self._lock = threading.RLock()
        self.waiting: deque[tuple[Encoded, int]] = deque()
        """Spans that are written with the next ones, each with the number of spans in it that have ended: 0 for the start of one."""
        self.ended = 0
        """The number of spans that are in the file, or lost."""
        self._is_writing = self._closes = False
        self.encoder = Encoder(self._resource())
        self._close()

    @property
    def path(self) -> str:
        """The file that this process writes."""
        return _path.expand(self._template, pid=system.getpid(), time=self._time)

    def mode_for_others(self) -> int:
        """The rights that the file gives to its group and to others, opened if it is not; 0 if it is the owner's alone.

        Raises OSError if the file cannot be opened.
        """
        with self._lock:
            return system.fstat(self._open()).st_mode & 0o077

    def append(self, spans: Iterable[Encoded], ended: int = 1) -> Lost:
        """Write spans, behind those that wait. When this returns they are in the file; the result says which are lost."""
        with self._lock:
            self.waiting.extend([(span, ended) for span in spans])
            return self.write()

    def write(self) -> Lost:
        """Write all that waits, whichever thread has added it. Inside another write of this thread, that one writes it."""
        lost: Lost = []
        if not (self.waiting or self._closes):  # a fork waits for no write in which it has no part
            return lost
        with self._lock:
            while self.waiting and not self._is_writing:
                self._is_writing = True
                try:
                    spans = [self.waiting[place] for place in range(len(self.waiting))]
                    error = self._written(lines(encoded for encoded, _ in spans))
                    # Only now: after Ctrl-C they wait again. A reader takes what is there twice once.
                    for _ in spans:
                        self.waiting.popleft()
                    ended = sum(count for _, count in spans)
                    self.ended += ended
                    lost += [] if error is None else [(error, ended)]
                finally:
                    self._is_writing = False
            if self._closes and not self._is_writing:
                self._close()
        return lost

    def close(self) -> Lost:
        """Write what waits, and close the file. A later write opens it again."""
        with self._lock:
            self._closes = True
            return self.write()

    def why(self, error: Exception) -> str:
        """Why spans are lost, as a clause for a person."""
        if isinstance(error, FileIsFullError):
            return f"{self.path} has reached its limit of {self.max_size} bytes ({TORCHSPAN_FILE_MAX_SIZE})"
        if isinstance(error, OSError):
            return f"{self.path} cannot be written: {error.strerror or type(error).__name__}"
        return f"spans could not be written to {self.path} ({type(error).__name__})"

    def _written(self, line: bytes) -> Exception | None:
        """Write a line, or several that stay together. Returns what was raised."""
        try:
            descriptor = self._open()
            is_locked = self._take_lock(descriptor)
            try:
                self._append_line(descriptor, line)
            finally:
                if is_locked and flock is not None:
                    flock(descriptor, fcntl.LOCK_UN)
        except Exception as error:
            return error
        return None

    def _append_line(self, descriptor: int, line: bytes) -> None:
        size = system.fstat(descriptor).st_size
        # Where the file ends as this process left it, the last byte is known.
        if size != self._end and _is_torn(descriptor, size):
            line = b"\n" + line
        if size + len(line) > self.max_size:
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

    def _take_lock(self, descriptor: int) -> bool:
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
        self._closes = False
        if descriptor is not None:
            descriptor.close()


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:  # true, and of no help to a reader
        raise NotADirectoryError(errno.ENOTDIR, f"{folder} is not a folder") from None


def _is_torn(descriptor: int, size: int) -> bool:
    with contextlib.suppress(OSError, AttributeError):  # Windows has no `pread`
        return size > 0 and system.pread(descriptor, 1, size - 1) != b"\n"
    return False
