# SPDX-License-Identifier: Apache-2.0
"""A secret of one user's, by which torchspan recognizes what it wrote itself."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import sys
import time
from pathlib import Path

from torchspan._files.folders import Folder, open_folder
from torchspan._files.opening import check_size, refused

NAME = "engines.key"
"""Of the file."""

SIZE = 32
"""Bytes of the key."""

_ATTEMPTS = 50
_PAUSE_S = 0.01


def user_key(folder: Path) -> bytes:
    """The key in a folder, which is made where there is none yet. Only this user can read it.

    Raises OSError where it cannot be made or read, and where another user could have read or written it.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    opened = open_folder(os.path.realpath(folder))
    try:
        for _ in range(_ATTEMPTS):
            with contextlib.suppress(FileExistsError):
                return _made(opened)
            key = _read(opened)
            if len(key) == SIZE:
                return key
            time.sleep(_PAUSE_S)  # another process has made the file and not yet written it
    finally:
        opened.close()
    raise refused(folder / NAME, "contains no key; remove it")


def _made(folder: Folder) -> bytes:
    key = secrets.token_bytes(SIZE)
    check_size(SIZE)
    with os.fdopen(folder.open(NAME, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
        file.write(key)
    return key


def _read(folder: Folder) -> bytes:
    with os.fdopen(folder.open(NAME, os.O_RDONLY), "rb") as file:
        mode = os.fstat(file.fileno()).st_mode
        if sys.platform != "win32" and mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise refused(Path(folder.path, NAME), "may be read by other users; remove it")
        return file.read(SIZE + 1)
