# SPDX-License-Identifier: Apache-2.0
"""A folder in which the engines of one user's processes are kept, each with the graph that it was built from.

Reading an entry runs code (it is a pickle). So an entry begins with a digest under a key that only this user can read, and
nothing without the right digest is read, even if this user owns it. Nor is anything in a folder that others may write to.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import hmac
import io
import logging
import os
import re
import secrets
import stat
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch.utils._python_dispatch import _disable_current_modes

from torchspan._base.forks import renewed
from torchspan._base.logs import Log
from torchspan._files.folders import Folder, open_folder
from torchspan._files.opening import check_size, refused
from torchspan.testing._reference import Binding, Reference

# --- a secret of the user's -----------------------------------------------------------------------------------------
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


# ------------------------------------------------------------------------------------------------------------------
logger = Log("torchspan")

FORMAT = 2
"""Of an entry. Another number is another subfolder."""

MOST_ENGINES, MOST_BYTES = 500, 2 << 30
"""What a folder may hold."""

_ABANDONED_S = 3600.0
"""Age in seconds at which an unfinished entry is removed: the process that wrote it is gone."""

_ENTRY = re.compile(r"[0-9a-f]{64}\.pt")
_UNFINISHED = re.compile(r"[0-9a-f]{64}\.(?:pt\.)?\d+\.\d+(?:\.new)?")
_SUBFOLDER = re.compile(r"engines-\d+-.*")


def default_folder() -> Path | None:
    """`torchspan` in the user's folder for caches: XDG_CACHE_HOME, else the platform's. None for a user without a home."""
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if named.is_absolute():  # the specification says to ignore a relative path
        return named / "torchspan"
    try:
        home = Path.home()
    except RuntimeError:
        return None
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local", "torchspan")
    return home / ("Library/Caches" if sys.platform == "darwin" else ".cache") / "torchspan"


class EngineFolder:
    """Entries by the SHA-256 of the engine's bytes. Any number of processes may read and write at once.

    A folder that cannot be used, an entry that is torn, one that another version wrote and one that this user's torchspan
    did not write are as good as none.

    Args:
        path: The folder; it is made when the first entry is written, for its owner alone.
        is_chosen: The user named it, and is warned where it cannot be used.
        most_engines, most_bytes: Of the entries for all versions together; those used longest ago are removed.
    """

    def __init__(
        self, path: Path, *, is_chosen: bool, most_engines: int = MOST_ENGINES, most_bytes: int = MOST_BYTES
    ) -> None:
        self.path = path
        self._is_chosen = is_chosen
        self._most_engines, self._most_bytes = most_engines, most_bytes
        self._has_warned = False
        self._secret: bytes | None = None

    def read(self, key: str) -> Reference | None:
        """The entry of the engine with this digest, if there is one that torchspan wrote for this user."""
        try:
            with self._opened() as folder, _disable_current_modes():
                entry = self._entry(folder, key)
                if entry is None:
                    return None
                with _lock:
                    graph, bindings, profiles, outputs = torch.load(entry, weights_only=False)
        except FileNotFoundError:
            return None
        except _UnusableError as error:
            self._complain(str(error))
            return None
        except Exception as error:  # whatever a torn file or one of another version makes of unpickling
            logger.debug("Ignoring %s: %s", self._subfolder() / _name(key), error)
            return None
        return Reference(graph, {name: Binding(*fields) for name, fields in bindings.items()}, profiles, outputs)

    def write(self, key: str, reference: Reference) -> None:
        """Store an entry, unless there is one; then remove what exceeds the bounds."""
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            with _private(os.path.realpath(self.path)) as top:
                Path(top.path, self._subfolder().name).mkdir(mode=0o700, exist_ok=True)
            with self._opened() as folder:
                if self._has(folder, key):
                    return
                bindings = {name: dataclasses.astuple(binding) for name, binding in reference.bindings.items()}
                content = (reference.graph, bindings, reference.profiles, reference.outputs)
                with folder.writing(_name(key)) as file, _disable_current_modes():  # of torch.compile's: there, tensors
                    self._write(file, key, content)  # have no data
            self._remove_excess()
        except _UnusableError as error:
            self._complain(str(error))
        except Exception as error:  # a full disk, a file system without permissions, a graph that cannot be pickled
            self._complain(f"{type(error).__name__}: {error}")

    def _write(self, file: BinaryIO, key: str, content: Any) -> None:
        signed = _Signed(file, self._mac(key))
        check_size(_DIGEST)
        file.write(bytes(_DIGEST))
        torch.save(content, signed)
        file.seek(0)
        file.write(signed.mac.digest())

    def _has(self, folder: Folder, key: str) -> bool:
        with contextlib.suppress(OSError):
            return self._entry(folder, key) is not None
        return False

    def _entry(self, folder: Folder, key: str) -> io.BytesIO | None:
        """The pickle of an entry, noted as used; None if torchspan did not write it here. Raises OSError if there is none."""
        with os.fdopen(folder.open(_name(key), os.O_RDONLY), "rb") as file:
            if not _is_own(os.fstat(file.fileno())):
                return None
            digest, content = file.read(_DIGEST), file.read()
        mac = self._mac(key)
        mac.update(content)
        if not hmac.compare_digest(digest, mac.digest()):
            logger.debug("Ignoring %s: this user's torchspan did not write it.", self._subfolder() / _name(key))
            return None
        folder.touch(_name(key))
        return io.BytesIO(content)

    def _mac(self, key: str) -> hmac.HMAC:
        """Of an entry: its place is part of it, so that one entry cannot stand for another."""
        return hmac.new(self._user_key(), f"{self._subfolder().name}/{key}\n".encode(), hashlib.sha256)

    def _user_key(self) -> bytes:
        if self._secret is None:
            caches = default_folder()
            if caches is None:
                raise _UnusableError("the key by which they are recognized needs a folder: set XDG_CACHE_HOME")
            try:
                self._secret = user_key(caches)
            except OSError as error:
                raise _UnusableError(
                    f"the key by which they are recognized, in {caches}, cannot be used: {error.strerror or error}"
                ) from None
        return self._secret

    def _subfolder(self) -> Path:
        tensorrt = sys.modules.get("tensorrt") or sys.modules["tensorrt_rtx"]
        return self.path / f"engines-{FORMAT}-{tensorrt.__version__}"

    @contextlib.contextmanager
    def _opened(self) -> Iterator[Folder]:
        """The subfolder for this version. Raises _UnusableError where others may write, FileNotFoundError for none."""
        with (
            _private(os.path.realpath(self.path)) as top,
            _private(str(Path(top.path, self._subfolder().name))) as folder,
        ):
            yield folder

    def _complain(self, why: str) -> None:
        if not self._has_warned:
            self._has_warned = True
            logger.log(
                logging.WARNING if self._is_chosen else logging.DEBUG,
                "Engines are not kept in %s: %s. Other processes cannot run the engines that are built here.",
                self.path,
                why,
            )

    def _remove_excess(self) -> None:
        entries = []
        for path in self.path.glob("*/*"):
            if not _SUBFOLDER.fullmatch(path.parent.name) or path.parent.is_symlink():
                continue
            with contextlib.suppress(FileNotFoundError):  # another process removes, too
                status = path.stat()
                if _ENTRY.fullmatch(path.name):
                    entries.append((status.st_mtime_ns, status.st_size, path))
                elif _UNFINISHED.fullmatch(path.name) and time.time() - status.st_mtime > _ABANDONED_S:
                    path.unlink()
        count, size = len(entries), sum(size for _, size, _ in entries)
        for _, own, path in sorted(entries):
            if count <= self._most_engines and size <= self._most_bytes:
                return
            path.unlink(missing_ok=True)
            count, size = count - 1, size - own


class _UnusableError(Exception):
    """Nothing can be kept, or read, safely. The message is a clause."""


class _Signed(io.RawIOBase):
    """Writes to a file, and takes the digest of what it writes."""

    def __init__(self, file: BinaryIO, mac: hmac.HMAC) -> None:
        super().__init__()
        self._file = file
        self.mac = mac

    def write(self, data: Any) -> int:
        """See `io.RawIOBase.write`."""
        check_size(self._file.tell() + len(data))
        self.mac.update(data)
        return self._file.write(data)


@contextlib.contextmanager
def _private(path: str) -> Iterator[Folder]:
    """A folder to which only this user may write. Raises _UnusableError for another one."""
    name = Path(path).name
    try:
        folder = open_folder(path)
    except PermissionError:
        raise _UnusableError(_NOT_PRIVATE.format(name)) from None
    try:
        if not _is_own(folder.status()):
            raise _UnusableError(_NOT_PRIVATE.format(name))
        yield folder
    finally:
        folder.close()


def _is_own(status: os.stat_result) -> bool:
    """Whether this user owns it and no other may write to it. Windows keeps a user's folders from others by itself."""
    if sys.platform == "win32":
        return True
    return status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _name(key: str) -> str:
    return f"{key}.pt"


_NOT_PRIVATE = "{} must belong to this user, and no other user may write to it"
_DIGEST = hashlib.sha256().digest_size

_lock = renewed(sys.modules[__name__], "_lock", threading.Lock)
"""Held while a graph is read: torch.fx traces it and replaces `torch.nn.Module.__call__` meanwhile. Two threads that do so
at once restore each other's replacements, and one stays for good."""
