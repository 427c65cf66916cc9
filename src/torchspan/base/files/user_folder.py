# SPDX-License-Identifier: Apache-2.0
"""torchspan's folder below the user's folder for caches, and the keys of this user in it."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import time
from functools import lru_cache
from io import FileIO
from pathlib import Path

from torchspan.base.files.folders import Folder
from torchspan.base.files.opening import system

KEY_SIZE = 32
"""Bytes of a key."""

DIGESTS_KEY = "digests.key"
"""Name of the file with the key of digests that leave the process."""

_READS = 20
"""Attempts to read a key that another process has begun to write."""


class UnusableError(Exception):
    """Nothing can be kept, or read, safely. The message is a clause."""


def caches() -> Path | None:
    """`torchspan` below XDG_CACHE_HOME, else below `~/.cache`. None for a user without a home."""
    folder = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not folder.is_absolute():  # the specification says to ignore a relative path
        try:
            folder = Path.home() / ".cache"
        except RuntimeError:
            return None
    return folder / "torchspan"


def private(path: Path) -> Folder:
    """A folder to which only this user may write. Raises UnusableError for another one, OSError for none."""
    folder = Folder(os.path.realpath(path))
    if not is_own(folder.status()):
        raise UnusableError("it must belong to this user, and no other user may write to it")
    return folder


def is_own(status: os.stat_result) -> bool:
    """Whether this user owns it and no other may write to it."""
    return status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def key_in(folder: Folder, name: str) -> bytes:
    """The key in a file of a folder, which is made where there is none yet. Only this user can read it.

    Processes that make it at once get the same key. Raises OSError where it cannot be made or read, and UnusableError where
    another user could have read it.
    """
    with contextlib.suppress(FileExistsError), FileIO(folder.open(name, _NEW), "wb") as file:
        file.write(secrets.token_bytes(KEY_SIZE))
    for _ in range(_READS):
        with FileIO(folder.open(name, os.O_RDONLY), "rb") as file:
            mode, key = system.fstat(file.fileno()).st_mode, file.read(KEY_SIZE + 1)
        if mode & (stat.S_IRWXG | stat.S_IRWXO) or len(key) > KEY_SIZE:
            break
        if len(key) == KEY_SIZE:
            return key
        time.sleep(0.001)
    raise UnusableError(f"{name} may be read by other users, or contains no key; remove it")


_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL
_OF_THIS_PROCESS = secrets.token_bytes(KEY_SIZE)


@lru_cache(maxsize=1)
def digests_key() -> bytes:
    """The key of digests that leave the process. Where none can be kept, it is one of this process and those forked from it."""
    path = caches()
    try:
        if path is None:
            return _OF_THIS_PROCESS
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        return key_in(private(path), DIGESTS_KEY)
    except Exception:  # a full disk, a file system without permissions
        return _OF_THIS_PROCESS
