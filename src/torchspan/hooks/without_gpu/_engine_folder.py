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
import os
import re
import threading
from pathlib import Path

import torch
from torch.utils._python_dispatch import _disable_current_modes

from torchspan.base.files import user_folder
from torchspan.base.files.folders import Folder
from torchspan.base.forks import renewed
from torchspan.base.logs import Log
from torchspan.hooks.without_gpu._reference import Binding, Reference

logger = Log("torchspan")

KEY_NAME = "engines.key"
"""Of the file with the key."""

FORMAT = 4
"""Of an entry. Another number is another folder."""

MOST_ENGINES, MOST_BYTES = 500, 2 << 30
"""What a folder may hold."""

_DIGEST = hashlib.sha256().digest_size
_FILES = re.compile(r"[0-9a-f]{64}\.pt(?:\.\d+\.\d+\.new)?")
"""Entries, and what a process that was killed left of one."""


def default_folder() -> Path | None:
    """The folder below the user's folder for caches. None for a user without a home."""
    folder = user_folder.caches()
    return None if folder is None else folder / f"engines-{FORMAT}"


class EngineFolder:
    """Entries by the SHA-256 of the engine's bytes. Any number of processes may read and write at once.

    A folder that cannot be used, an entry that is torn, one that another version wrote and one that this user's torchspan
    did not write are as good as none.

    Args:
        path: The folder; it is made when the first entry is written, for its owner alone.
        most_engines, most_bytes: Of all entries together; those used longest ago are removed.
    """

    def __init__(self, path: Path, *, most_engines: int = MOST_ENGINES, most_bytes: int = MOST_BYTES) -> None:
        self.path = path
        self._most_engines, self._most_bytes = most_engines, most_bytes

    def read(self, key: str) -> Reference | None:
        """The entry of the engine with this digest, if there is one that torchspan wrote for this user."""
        try:
            folder = user_folder.private(self.path)
            with _disable_current_modes():
                pickled = _entry(folder, key)
                if pickled is None:
                    return None
                with _lock:
                    graph, bindings, *others = torch.load(pickled, weights_only=False)
        except FileNotFoundError:
            return None
        except (
            Exception
        ) as error:  # an unusable folder; whatever a torn file or one of another version makes of unpickling
            logger.debug("Ignoring the engine %s in %s: %s", key, self.path, error)
            return None
        return Reference(graph, {name: Binding(*fields) for name, fields in bindings.items()}, *others)

    def write(self, key: str, reference: Reference) -> None:
        """Store an entry, unless there is one; then remove what exceeds the bounds."""
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder = user_folder.private(self.path)
            with contextlib.suppress(OSError):
                if _entry(folder, key) is not None:
                    return
            bindings = {name: dataclasses.astuple(binding) for name, binding in reference.bindings.items()}
            content = (reference.graph, bindings, reference.profiles, reference.outputs, reference.weights)
            pickled = io.BytesIO()
            with _disable_current_modes():  # of torch.compile's: there, tensors have no data
                torch.save(content, pickled)
            folder.write(_name(key), _digest(folder, key, pickled.getvalue()) + pickled.getvalue())
            self._remove_excess()
        except Exception as error:  # a full disk, a file system without permissions, a graph that cannot be pickled
            logger.debug("Engines are not kept in %s: %s: %s", self.path, type(error).__name__, error)

    def _remove_excess(self) -> None:
        files = []
        for path in self.path.iterdir():
            with contextlib.suppress(FileNotFoundError):  # another process removes, too
                if _FILES.fullmatch(path.name):
                    status = path.stat()
                    files.append((status.st_mtime_ns, status.st_size, path))
        count, size = len(files), sum(size for _, size, _ in files)
        for _, own, path in sorted(files):
            if count <= self._most_engines and size <= self._most_bytes:
                return
            path.unlink(missing_ok=True)
            count, size = count - 1, size - own


def _entry(folder: Folder, key: str) -> io.BytesIO | None:
    """The pickle of an entry, noted as used; None if torchspan did not write it here. Raises OSError if there is none."""
    with os.fdopen(folder.open(_name(key), os.O_RDONLY), "rb") as file:
        if not user_folder.is_own(os.fstat(file.fileno())):
            return None
        digest, content = file.read(_DIGEST), file.read()
    if not hmac.compare_digest(digest, _digest(folder, key, content)):
        return None
    folder.touch(_name(key))
    return io.BytesIO(content)


def _digest(folder: Folder, key: str, content: bytes) -> bytes:
    """Of an entry: its name is part of it, so that one entry cannot stand for another."""
    return hmac.digest(user_folder.key_in(folder, KEY_NAME), f"{key}\n".encode() + content, "sha256")


def _name(key: str) -> str:
    return f"{key}.pt"


_lock = renewed(threading.RLock())
"""Held while a graph is read: torch.fx traces it and replaces `torch.nn.Module.__call__` meanwhile. Two threads that do so
at once restore each other's replacements, and one stays for good."""
