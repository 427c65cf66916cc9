# SPDX-License-Identifier: Apache-2.0
"""A folder in which the engines of one user's processes are kept, each with the graph that it was built from.

Reading an entry runs code (it is a pickle), so nothing is read that another user could have written.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import re
import stat
import sys
import threading
import time
from pathlib import Path

import torch
from torch.utils._python_dispatch import _disable_current_modes

from torchspan.testing._reference import Binding, Reference

logger = logging.getLogger("torchspan")

FORMAT = 1
"""Of an entry. Another number is another subfolder."""

MOST_ENGINES = 500
"""Entries in the folder, those for all versions together; the ones used longest ago are removed."""

MOST_BYTES = 2 << 30
"""Bytes of all entries together."""

_ABANDONED_S = 3600.0
"""Age in seconds at which an unfinished entry is removed: the process that wrote it is gone."""

_ENTRY = re.compile(r"[0-9a-f]{64}\.pt")
_UNFINISHED = re.compile(r"[0-9a-f]{64}\.\d+\.\d+")
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

    A folder that cannot be used, an entry that is torn and one that another version wrote are as good as none.

    path: the folder; it is made when the first entry is written, for its owner alone.
    is_chosen: the user named it, and is warned where it cannot be used.
    """

    def __init__(self, path: Path, *, is_chosen: bool) -> None:
        self.path = path
        self._is_chosen = is_chosen
        self._has_warned = False

    def read(self, key: str) -> Reference | None:
        """The entry of the engine with this digest, if there is one that only this user could have written."""
        path = self._entry(key)
        try:
            if not self._is_private(path.parent):
                return None
            with os.fdopen(os.open(path, os.O_RDONLY | _NO_LINK | _BINARY), "rb") as file, _disable_current_modes():
                if not _is_own(os.fstat(file.fileno())):
                    return None
                with _lock:
                    graph, bindings, profiles, outputs = torch.load(file, weights_only=False)
            os.utime(path)
        except FileNotFoundError:
            return None
        except Exception as error:  # whatever a torn file or one of another version makes of unpickling
            logger.debug("Ignoring %s: %s", path, error)
            return None
        return Reference(graph, {name: Binding(*fields) for name, fields in bindings.items()}, profiles, outputs)

    def write(self, key: str, reference: Reference) -> None:
        """Store an entry, unless there is one; then remove what exceeds the bounds."""
        path = self._entry(key)
        unfinished = path.with_suffix(f".{os.getpid()}.{threading.get_ident()}")
        try:
            for folder in (self.path, path.parent):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not self._is_private(path.parent):
                return
            if path.exists():
                os.utime(path)
                return
            bindings = {name: dataclasses.astuple(binding) for name, binding in reference.bindings.items()}
            try:
                with _disable_current_modes():  # of torch.compile's, under which tensors have no data
                    torch.save((reference.graph, bindings, reference.profiles, reference.outputs), unfinished)
                unfinished.chmod(0o600)
                unfinished.replace(path)
            finally:
                unfinished.unlink(missing_ok=True)
            self._remove_excess()
        except Exception as error:  # a full disk, a file system without permissions, a graph that cannot be pickled
            self._complain(f"{type(error).__name__}: {error}")

    def _entry(self, key: str) -> Path:
        tensorrt = sys.modules.get("tensorrt") or sys.modules["tensorrt_rtx"]
        return self.path / f"engines-{FORMAT}-{tensorrt.__version__}" / f"{key}.pt"

    def _is_private(self, folder: Path) -> bool:
        if _is_own(folder.lstat()):
            return True
        self._complain(f"{folder.name} must belong to this user, and no other user may write to it")
        return False

    def _complain(self, why: str) -> None:
        if not self._has_warned:
            self._has_warned = True
            logger.log(
                logging.WARNING if self._is_chosen else logging.DEBUG,
                "Engines are not kept in %s: %s. Other processes will not know the engines that are built here.",
                self.path,
                why,
            )

    def _remove_excess(self) -> None:
        entries = []
        for path in self.path.glob("*/*"):
            if not _SUBFOLDER.fullmatch(path.parent.name):
                continue
            with contextlib.suppress(FileNotFoundError):  # another process removes, too
                status = path.stat()
                if _ENTRY.fullmatch(path.name):
                    entries.append((status.st_mtime_ns, status.st_size, path))
                elif _UNFINISHED.fullmatch(path.name) and time.time() - status.st_mtime > _ABANDONED_S:
                    path.unlink()
        count, size = len(entries), sum(size for _, size, _ in entries)
        for _, own, path in sorted(entries):
            if count <= MOST_ENGINES and size <= MOST_BYTES:
                return
            path.unlink(missing_ok=True)
            count, size = count - 1, size - own


def _is_own(status: os.stat_result) -> bool:
    """Whether this user owns it and no other may write to it. Windows keeps a user's folders from others by itself."""
    if sys.platform == "win32":
        return True
    return status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


_lock = threading.Lock()
"""Held while a graph is read: torch.fx traces it and replaces `torch.nn.Module.__call__` meanwhile. Two threads that do so
at once put back each other's replacements, and one stays for good."""


def _renew_lock() -> None:
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)  # another thread of the parent may have held it

_NO_LINK: int = getattr(os, "O_NOFOLLOW", 0)
_BINARY: int = getattr(os, "O_BINARY", 0)
