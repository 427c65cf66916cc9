# SPDX-License-Identifier: Apache-2.0
"""What a library was built for, and where a library lies that may be loaded into this process."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import platform
import re
import stat
import sys
from collections.abc import Iterator
from io import FileIO
from pathlib import Path
from typing import Any, NamedTuple

from torchspan.base.files.opening import CAREFULLY, system
from torchspan.base.files.user_folder import caches

COMMAND = "python -m torchspan.native build"
"""Builds a library."""

PACKAGE = "torchspan_native"
"""What the wheel with a library installs."""

LIBRARY, MANIFEST = "_torchspan_native.abi3.so", "manifest.json"
SOURCES = ("operators.cpp", "recording.h", "templates.h")
SOURCE_FOLDER = Path(__file__).parent

_REMOVE = f"remove it and run {COMMAND}"
_WHAT = {
    "torch": "PyTorch's version",
    "git_version": "PyTorch's commit",
    "cxx11_abi": "PyTorch's C++ ABI",
    "header": "PyTorch's header ATen/record_function.h",
    "source": "the source in torchspan",
    "machine": "the machine",
}
"""Field of `TorchBuild` -> what differs."""


class UnavailableError(RuntimeError):
    """No library can be loaded. The message is one line: why, and what to do.

    Args:
        reason: A clause.
        remedy: What to do, as a clause.
    """

    def __init__(self, reason: str, remedy: str = f"run {COMMAND}") -> None:
        super().__init__(f"{reason}; {remedy}")
        self.reason, self.remedy = reason, remedy


class TorchBuild(NamedTuple):
    """What a library is built for. A library fits where all of it is the same.

    Attributes:
        torch: Version of PyTorch.
        git_version: The commit that PyTorch was built from.
        cxx11_abi: Whether PyTorch was built with the newer ABI of libstdc++.
        header: Digest of PyTorch's header whose classes are compiled into the library.
        source: Digest of the library's source.
        machine: Operating system and processor.
    """

    torch: str
    git_version: str
    cxx11_abi: bool
    header: str
    source: str
    machine: str

    @classmethod
    def imported(cls) -> TorchBuild:
        """For the PyTorch of this process, which is imported. Raises UnavailableError."""
        try:
            import torch
        except ImportError as error:
            raise UnavailableError("PyTorch is not installed", "install it") from error
        folder = Path(torch.__file__).parent
        return cls._of(folder, str(torch.__version__), str(torch.version.git_version), torch.compiled_with_cxx11_abi())

    @classmethod
    def installed(cls) -> TorchBuild | None:
        """For the PyTorch that a program would import, by its files; None without one. Raises UnavailableError.

        The ABI is the newer one: PyTorch is built with no other since 2.7.
        """
        package = importlib.util.find_spec("torch")
        if package is None or package.origin is None:
            return None
        folder = Path(package.origin).parent
        try:
            text = (folder / "version.py").read_text(encoding="utf-8")
        except OSError as error:
            raise UnavailableError(
                f"PyTorch's version.py cannot be read ({error.strerror})", "install PyTorch again"
            ) from error
        names = dict(re.findall(r"^(__version__|git_version)[^=\n]*= *'([^'\n]+)'", text, re.MULTILINE))
        return cls._of(folder, names.get("__version__", ""), names.get("git_version", ""), True)

    @classmethod
    def _of(cls, folder: Path, torch: str, git_version: str, cxx11_abi: bool) -> TorchBuild:
        if sys.platform != "linux":
            raise UnavailableError("the library needs Linux", "do without operators")
        try:
            header = digest((folder / "include/ATen/record_function.h").read_bytes())
            source = digest("".join(digest((SOURCE_FOLDER / name).read_bytes()) for name in SOURCES).encode())
        except OSError as error:
            raise UnavailableError(
                f"{error.filename} cannot be read ({error.strerror})", "install its package again"
            ) from error
        return cls(torch, git_version, bool(cxx11_abi), header, source, f"{platform.system()} {platform.machine()}")

    def difference(self, manifest: dict[str, Any]) -> str | None:
        """The first difference from the target in a manifest, as a clause; None if there is none."""
        for field, value in self._asdict().items():
            if manifest.get(field) != value:
                return f"{_WHAT[field]} was {_short(manifest.get(field))} when it was built, and is {_short(value)}"
        return None


class LibraryFolder(NamedTuple):
    """A folder with a library.

    Attributes:
        folders: The folder, and those around it that are torchspan's.
        owners: Users that they, and the files, may belong to.
    """

    folders: tuple[Path, ...]
    owners: frozenset[int]

    def check(self, target: TorchBuild) -> Path:
        """The path of the library, if it fits and no other user may have written it. Raises UnavailableError."""
        folder = self.folders[0]
        try:
            self.check_folders()
        except OSError as error:
            raise UnavailableError(f"no library is built for PyTorch {target.torch}") from error
        try:
            manifest = json.loads(self._read(folder / MANIFEST))
            library = digest(self._read(folder / LIBRARY))
        except (OSError, ValueError, RecursionError) as error:
            raise UnavailableError(f"the library in {folder} is not complete") from error
        difference = target.difference(manifest) if isinstance(manifest, dict) else "its manifest is not one"
        if difference is None and manifest.get("library") != library:
            difference = "its bytes are not those that were built"
        if difference is not None:
            raise UnavailableError(f"the library in {folder} does not fit: {difference}")
        return folder / LIBRARY

    def check_folders(self) -> None:
        """Raises UnavailableError if others may write to one of the folders, and OSError where one is missing."""
        for folder in reversed(self.folders):
            self._check_status(folder, folder.stat())

    def _read(self, path: Path) -> bytes:
        with FileIO(system.open(path, os.O_RDONLY | CAREFULLY), "rb") as file:
            self._check_status(path, system.fstat(file.fileno()))
            return file.readall()

    def _check_status(self, path: Path, status: os.stat_result) -> None:
        if status.st_uid not in self.owners:
            raise UnavailableError(f"{path} belongs to another user", _REMOVE)
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise UnavailableError(f"other users may write to {path}", _REMOVE)


def fitting(target: TorchBuild) -> Path:
    """The library that is loaded for a target: that of the installed package, or the one in the folder for caches.

    Raises UnavailableError if none of them fits.
    """
    refusals = []
    for place in _places(target):
        try:
            return place.check(target)
        except UnavailableError as error:
            refusals.append(error)
    raise refusals[0]


def in_caches(target: TorchBuild) -> LibraryFolder:
    """Where this user's library for a target lies once it is built. Raises UnavailableError for a user without a folder for caches."""
    folder = caches()
    if folder is None:
        raise UnavailableError("this user has no folder for caches", "set XDG_CACHE_HOME")
    libraries = folder / "native"
    key = digest(json.dumps(target).encode())[:32]
    return LibraryFolder((libraries / key, libraries, folder), frozenset({os.geteuid()}))


def check_installed() -> str | None:
    """The version of the installed PyTorch if a library fits it, by files alone; None without PyTorch. Raises UnavailableError."""
    target = TorchBuild.installed()
    if target is None:
        return None
    fitting(target)
    return target.torch


def digest(content: bytes) -> str:
    """SHA-256 as 64 hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def _places(target: TorchBuild) -> Iterator[LibraryFolder]:
    package = importlib.util.find_spec(PACKAGE)
    for folder in (package and package.submodule_search_locations) or ():
        yield LibraryFolder((Path(folder),), frozenset({os.geteuid(), 0}))
    yield in_caches(target)


def _short(value: object) -> str:
    text = " ".join(str(value).split())
    return text[: 12 if re.fullmatch(r"[0-9a-f]{40,}", text) else 80]
