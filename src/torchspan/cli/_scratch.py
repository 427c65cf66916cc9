# SPDX-License-Identifier: Apache-2.0
"""The temporary folder of one `torchspan run`, which does not stay behind when the run is killed."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from torchspan._base.folders import Folder, open_folder
from torchspan.cli._command import CommandError

try:
    import fcntl
except ImportError:  # Windows: a folder whose run was killed stays
    fcntl = None  # type: ignore[assignment]

_PREFIX = "torchspan-run-"


@contextlib.contextmanager
def scratch_folder() -> Iterator[Folder]:
    """A new folder that is removed at the end. Folders of runs that were killed are removed first.

    The lock on a folder says whether its run has ended: the system releases it with the last process that has
    inherited the descriptor. Raises CommandError where no temporary folder can be made.
    """
    try:
        parent = tempfile.gettempdir()
        _sweep(parent)
        folder = _locked_folder(parent)
    except OSError as error:
        raise CommandError(
            f"cannot make a temporary folder: {error.strerror or error}; name one that can be written: TMPDIR=<folder>"
        ) from None
    try:
        yield folder
    finally:
        folder.remove()
        folder.close()


def _locked_folder(parent: str) -> Folder:
    while True:
        folder = open_folder(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
        if fcntl is None or (_is_held(folder.number) and folder.is_in_place()):
            return folder
        folder.close()  # another run took it for a left one before it was locked


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
            folder = open_folder(str(path))
            try:
                fcntl.flock(
                    folder.number, fcntl.LOCK_EX | fcntl.LOCK_NB
                )  # raises while its run lasts, or without locks
                folder.remove()
            finally:
                folder.close()
