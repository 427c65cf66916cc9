# SPDX-License-Identifier: Apache-2.0
"""Files that are checked through their descriptor: the file behind a name may change between a check and the opening."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import threading
from collections.abc import Callable, Iterable
from io import FileIO

try:
    import fcntl
    import posix
    import resource
except ImportError:  # Windows
    import nt as posix  # type: ignore[no-redef]

    fcntl = resource = None  # type: ignore[assignment]

# `os` takes its functions from there. A test of the program puts mocks into `os`, and what they return is not a descriptor.
system = posix
flock = None if fcntl is None else fcntl.flock
_control = None if fcntl is None else fcntl.fcntl
_getrlimit = None if resource is None else resource.getrlimit

# --- descriptors that a program may close ---------------------------------------------------------------------------
_NUMBERS = (700, 200, 50, 20, 3)
"""From which number on a descriptor is kept, the first that the limit of the process permits. A program that closes descriptors at
its start closes the low numbers, and its next files get the lowest that are free. 0, 1 and 2 are never used: in a program without a
stdout the number 1 is free, and processes that it starts would print into the file."""

WHEN_LOST: list[Callable[[], object]] = []
"""Called when the program turns out to have closed a descriptor of torchspan's: it may have closed others, too."""


class Descriptor:
    """An open file of torchspan's. It is used only while it is proven to be that one.

    A program may close the descriptor and give its number to a file of its own, and that file may get the inode of a deleted
    one. So device and inode do not prove it. The file must be at its path, or contain what only torchspan has written there.

    Args:
        opened: The descriptor that `system.open` returned. It is closed, and replaced by a duplicate with another number. Where this
            raises, it is closed as well.
        path: That of the file. None: the system gives its inode to no other file, as with a pipe.
        mark: Bytes that only this file has, and where.
    """

    __slots__ = ("_path", "identity", "mark", "number")

    def __init__(self, opened: int, path: str | None, mark: tuple[bytes, int] | None = None) -> None:
        self._path, self.mark = path, mark
        try:
            self.identity = identity(system.fstat(opened))
            """Device and inode of the file."""
            self.number = _high(opened)
        except BaseException:
            system.close(opened)
            raise

    def status(self) -> os.stat_result | None:
        """The status of the file; None if the descriptor has been closed, or may have another file."""
        with contextlib.suppress(OSError):
            status = system.fstat(self.number)
            if identity(status) == self.identity and (self.is_in_place() or self._has_mark()):
                return status
        for action in WHEN_LOST:
            action()
        return None

    def is_in_place(self) -> bool:
        """Whether the path leads to the file."""
        with contextlib.suppress(OSError):
            return self._path is None or identity(system.lstat(self._path)) == self.identity
        return False

    def _has_mark(self) -> bool:
        return self.mark is not None and system.pread(self.number, len(self.mark[0]), self.mark[1]) == self.mark[0]

    def close(self) -> None:
        """Close it, unless it has been closed."""
        if self.status() is not None:
            system.close(self.number)


def identity(status: os.stat_result) -> tuple[int, int]:
    """What two descriptors of one file have in common."""
    return status.st_dev, status.st_ino


def _high(descriptor: int) -> int:
    for lowest in _NUMBERS if _control is not None else ():
        with contextlib.suppress(OSError):  # above the limit, or none is free from there on
            duplicate: int = _control(descriptor, fcntl.F_DUPFD_CLOEXEC, lowest)
            system.close(descriptor)
            return duplicate
    if descriptor < 3:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    return descriptor


def write_some(number: int, content: memoryview) -> memoryview:
    """Write to a descriptor, and return what it has not taken. Raises OSError where it takes nothing."""
    written = system.write(number, content)
    if not written:
        raise OSError(errno.EIO, os.strerror(errno.EIO))
    return content[written:]


def replace_file(name: str, content: bytes, mode: int | None) -> None:
    """Write a file with this content. One that has the name stays as it is until all of the new one is there. Raises OSError.

    Args:
        mode: Permissions of the file, whatever the umask. None: those of any new file.
    """
    check_size(len(content))
    folder, base = os.path.split(name)
    unfinished = os.path.join(folder, f"{base[:100]}.{system.getpid()}.{threading.get_ident()}.new")  # noqa: PTH118
    with contextlib.suppress(FileNotFoundError):  # of an earlier process with this number
        system.unlink(unfinished)
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | CAREFULLY
        with FileIO(system.open(unfinished, flags, 0o666 if mode is None else mode), "wb") as file:
            if mode is not None and hasattr(system, "fchmod"):
                system.fchmod(file.fileno(), mode)
            left = memoryview(content)
            while left:
                left = write_some(file.fileno(), left)
        system.replace(unfinished, name)
    except BaseException:
        with contextlib.suppress(OSError):
            system.unlink(unfinished)
        raise


# ------------------------------------------------------------------------------------------------------------------
PRIVATE = 0o600
"""Permissions of a file that its owner alone reads and writes."""

CAREFULLY: int = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_NOCTTY", "O_BINARY"))
"""Flags of every opening: no link is followed, no call blocks, no child inherits the file, no terminal is acquired."""

_START = 4096
"""Bytes of a file by which it is recognized."""

_KINDS = (
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def refused(name: str | os.PathLike[str], why: str) -> OSError:
    """The error for a file that is not used.

    Args:
        why: What it is or has: the `strerror` of the error is `it` and this.
    """
    return OSError(errno.EPERM, f"it {why}", os.fspath(name))


def checked(opened: int, name: str) -> int:
    """The descriptor `opened`, of the file `name`. Raises OSError, and closes it, where it is not a regular file of this user's that has one name."""
    try:
        status = system.fstat(opened)
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
        if not stat.S_ISREG(status.st_mode):
            raise refused(name, f"is {_kind(status)}, and not a regular file")
        if not _is_own(status, name):
            raise refused(name, "belongs to another user")
        if status.st_nlink > 1:
            raise refused(name, "has a second name (a hard link)")
    except BaseException:
        system.close(opened)
        raise
    return opened


def _is_own(status: os.stat_result, name: str) -> bool:
    """Whether the file belongs to this user, or to the owner of its folder.

    A file system without owners (a share, a FAT disk) gives everything the same one. In a folder for all users, such as /tmp, a file
    that another user has put there belongs to neither.
    """
    own = not hasattr(system, "geteuid") or status.st_uid == system.geteuid()
    return own or status.st_uid == system.stat(os.path.dirname(name) or os.curdir).st_uid  # noqa: PTH120


def open_for_appending(name: str, mode: int = PRIVATE) -> int:
    """A descriptor at the end of the file, which is made if it does not exist. It is never inherited.

    Raises OSError for what is not a regular file of this user's that has one name. No link is followed.

    Args:
        mode: Permissions of a file that is made, whatever the umask.
    """
    try:
        opened = system.open(name, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | CAREFULLY, mode)
    except FileExistsError:
        return open_existing(name, os.O_APPEND)
    if hasattr(system, "fchmod"):
        with contextlib.suppress(OSError):  # a file system without permissions
            system.fchmod(opened, mode)
    return opened


def open_existing(name: str, flags: int) -> int:
    """A descriptor of an existing file: for reading with `os.O_RDONLY`, for reading and writing at its end with `os.O_APPEND`.

    Raises OSError, as `open_for_appending` does.
    """
    try:
        opened = system.open(name, flags | CAREFULLY | (os.O_RDWR if flags & os.O_APPEND else 0))
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK):
            raise refused(name, "is a link, which torchspan does not follow") from None
        raise
    return checked(opened, name)


def open_own(name: str, start: re.Pattern[bytes], what: str, inputs: Iterable[str] = ()) -> int:
    """A descriptor of an existing file that may be replaced: one that torchspan wrote, or an empty one.

    Raises OSError.

    Args:
        start: What the content of such a file begins with.
        what: Names such a file in messages.
        inputs: Files that are not replaced in any case.
    """
    if name == "-":
        raise refused(name, "is the standard output, and torchspan replaces a file")
    opened = open_existing(name, os.O_APPEND)
    try:
        status = system.fstat(opened)
        if any(_is_file(input_, status) for input_ in inputs):
            raise refused(name, "is one of the files that are read")
        if status.st_size and not start.match(system.read(opened, _START)):
            raise refused(name, f"is not {what}, and torchspan replaces no other file")
    except BaseException:
        system.close(opened)
        raise
    return opened


def _is_file(name: str, status: os.stat_result) -> bool:
    with contextlib.suppress(OSError):
        return os.path.samestat(os.stat(name), status)  # noqa: PTH116 - pathlib has no stat of a str
    return False


def check_size(size: int) -> None:
    """Raises OSError if this process may not write a file of this size.

    A write beyond the limit (RLIMIT_FSIZE) sends SIGXFSZ, which ends a program that does not ignore it as Python does.
    """
    if _getrlimit is not None:
        limit = _getrlimit(resource.RLIMIT_FSIZE)[0]
        if limit != resource.RLIM_INFINITY and size > limit:
            reason = f"this process may write files of at most {limit} bytes (RLIMIT_FSIZE, ulimit -f)"
            raise OSError(errno.EFBIG, f"{os.strerror(errno.EFBIG)}: {reason}")


def _kind(status: os.stat_result) -> str:
    return next((kind for test, kind in _KINDS if test(status.st_mode)), "none of the known kinds")


# --- files of traces ---------------------------------------------------------------------------------------------------
_OF_TRACES = re.compile(rb'\s*\{"resource(?:Spans|Metrics|Logs)"\s*:')
"""What a file of OTLP JSON begins with. Files of other kinds begin with `{"resourceType":` or `{"resources":`."""

_TORN_START = b'{"resourceSpans":'
"""What a write that was cut off has left the beginning of."""


def check_is_of_traces(descriptor: int, name: str) -> None:
    """Raises OSError for a file that contains something else than OTLP JSON: a line at its end would damage it."""
    if not hasattr(system, "pread"):
        return
    start = system.pread(descriptor, 64, 0)
    if not (_OF_TRACES.match(start) or _TORN_START.startswith(start.strip())):
        raise refused(name, "is not a file of traces, and torchspan appends to no other file")
