# SPDX-License-Identifier: Apache-2.0
"""The temporary folder of one `torchspan run`, which does not stay behind when the run is killed."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from torchspan.cli._command import CommandError

try:
    import fcntl
except ImportError:  # Windows: a folder whose run was killed stays
    fcntl = None  # type: ignore[assignment]

_PREFIX = "torchspan-run-"


@contextlib.contextmanager
def scratch_folder() -> Iterator[str]:
    """A new folder that is removed at the end. Folders of runs that were killed are removed first.

    The lock on a folder says whether its run still goes on: the system releases it with the last process that has
    inherited the descriptor. Raises CommandError where no temporary folder can be made.
    """
    try:
        parent = tempfile.gettempdir()
        _sweep(parent)
        path, lock = _locked_folder(parent)
    except OSError as error:
        raise CommandError(
            f"cannot make a temporary folder: {error.strerror or error}; name one that can be written: TMPDIR=<folder>"
        ) from None
    try:
        yield path
    finally:
        remove(path)
        if lock is not None:
            os.close(lock)


def remove(path: str) -> None:
    """Remove a folder with all that is in it. Raises nothing."""
    shutil.rmtree(path, ignore_errors=True)


def _locked_folder(parent: str) -> tuple[str, int | None]:
    while True:
        path = tempfile.mkdtemp(prefix=_PREFIX, dir=parent)
        if fcntl is None:
            return path, None
        lock = os.open(path, os.O_RDONLY)
        if _is_held(lock) and Path(path).exists():
            return path, lock
        os.close(lock)  # another run took it for a left one before it was locked


def _is_held(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks: no other run gets one there either
        return True
    return True


def _sweep(parent: str) -> None:
    """Remove this user's folders without a run."""
    if fcntl is None:
        return
    for path in Path(parent).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                if os.fstat(lock).st_uid != os.getuid():
                    continue
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises where its run goes on, and without locks
                remove(str(path))
            finally:
                os.close(lock)
