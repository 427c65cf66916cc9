# SPDX-License-Identifier: Apache-2.0
"""The temporary folder of one `torchspan run`. That of a run that was killed is removed by the next one."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

from torchspan.base.files.folders import MARKER, Folder
from torchspan.cli._command import CommandError

_PREFIX = "torchspan-run-"
_NAME = re.compile(rf"{_PREFIX}[a-z0-9_]{{8}}")
"""What `mkdtemp` makes of the prefix."""

_MARK = b"torchspan run made this folder, and removes it together with the files that it wrote.\n"
"""The content of the file by which a folder is recognized."""

_FILES = re.compile(
    rf"(?:{re.escape(MARKER)}|gave-up|\d+\.(?:json|spare|crash|inputs))(?:\.\d+\.\d+\.new)?|demo(?:-[0-9a-f]{{8}})?\.jsonl"
)
"""The names that torchspan gives to files in the folder. Everything else in it is the user's."""


@contextlib.contextmanager
def scratch_folder() -> Iterator[Folder]:
    """A new folder that is removed at the end. Folders of runs that were killed are removed first.

    A marker in it says that torchspan made the folder, and the lock on the marker whether its run has ended: the system releases the
    lock with the last process that has inherited the descriptor. Raises CommandError where no temporary folder can be made.
    """
    try:
        parent = tempfile.gettempdir()
        _sweep(parent)
        folder, lock = _locked_folder(parent)
    except OSError as error:
        raise CommandError(
            f"cannot make a temporary folder: {error.strerror or error}; name one that can be written: TMPDIR=<folder>"
        ) from None
    try:
        yield folder
    finally:
        folder.remove(_FILES)
        os.close(lock)


def _locked_folder(parent: str) -> tuple[Folder, int]:
    """A new folder, and the descriptor that locks its marker."""
    while True:
        folder = Folder(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
        lock = folder.open(MARKER, os.O_RDWR | os.O_CREAT)
        if _is_held(lock):
            os.write(lock, _MARK)  # under the lock: no other run takes it for a left one
            return folder, lock
        os.close(lock)


def _is_held(lock: int) -> bool:
    import fcntl  # Windows has none, and `torchspan run` refuses to start there

    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks: no other run gets one there either
        return True
    return True


def _sweep(parent: str) -> None:
    """Remove this user's folders without a run that torchspan made."""
    import fcntl

    for path in Path(parent).glob(f"{_PREFIX}*"):
        if _NAME.fullmatch(path.name):
            with contextlib.suppress(OSError):
                folder = Folder(str(path))
                with os.fdopen(folder.open(MARKER, os.O_RDWR), "rb") as marker:
                    if marker.read() == _MARK:
                        # Raises while its run lasts, or without locks.
                        fcntl.flock(marker, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        folder.remove(_FILES)
