# SPDX-License-Identifier: Apache-2.0
"""Compiling the library."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shlex
import shutil
import subprocess
import sysconfig
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from torchspan.base.version import __version__
from torchspan.hooks.native._manifest import (
    COMMAND,
    LIBRARY,
    MANIFEST,
    SOURCE_FOLDER,
    SOURCES,
    TorchBuild,
    UnavailableError,
    digest,
    in_caches,
)

COMPILERS = ("c++", "g++", "clang++")
"""Those that are tried in this order where CXX is not set."""

WRITABLE = f"make the folder writable, or set XDG_CACHE_HOME to another one, and run {COMMAND}"
INSTALL = f"install g++ 11 or clang++ 14, or a later version, and Python's headers, and run {COMMAND}"

_REASON = re.compile(r"error:|cannot find|undefined reference")
"""What a line of a compiler or linker contains that says why. The linker's comes before the compiler's own `error:`."""


def build(target: TorchBuild, progress: Callable[[str], object] = lambda _line: None) -> Path:
    """The path of the library for the imported PyTorch in this user's folder for caches. It is built where none fits there.

    Processes that build at once build once. A build that fails leaves nothing behind.

    Args:
        target: That of the imported PyTorch.
        progress: Called with a line before the build, and one after it.

    Raises:
        UnavailableError: There is no compiler, it reports an error, or the folder cannot be written to.
    """
    place = in_caches(target)
    folder, parent = place.folders[0], place.folders[1]
    try:
        for outer in reversed(place.folders[1:]):
            outer.mkdir(mode=0o700, parents=True, exist_ok=True)
        place._replace(folders=place.folders[1:]).check_folders()
        with (parent / "lock").open("wb") as lock, contextlib.ExitStack() as undo:
            fcntl.flock(lock, fcntl.LOCK_EX)
            with contextlib.suppress(UnavailableError):
                path = place.check(target)
                progress(f"The library for PyTorch {target.torch} is built: {path}")
                return path
            for abandoned in parent.glob("new-*"):  # by a builder that was killed
                shutil.rmtree(abandoned, ignore_errors=True)
            new = Path(undo.enter_context(tempfile.TemporaryDirectory(prefix="new-", dir=parent)), folder.name)
            new.mkdir(mode=0o700)
            _compile(new / LIBRARY, target, progress)
            manifest = {**target._asdict(), "library": digest((new / LIBRARY).read_bytes()), "torchspan": __version__}
            (new / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
            for file in new.iterdir():
                file.chmod(0o600)
            if folder.exists():  # it does not fit
                folder.rename(new.with_name("old"))
            new.rename(folder)
            return place.check(target)
    except OSError as error:
        raise UnavailableError(
            f"the library cannot be written: {error.strerror}: {error.filename or parent}", WRITABLE
        ) from error


def _compile(path: Path, target: TorchBuild, progress: Callable[[str], object]) -> None:
    import torch

    compiler, torch_folder = _compiler(), Path(torch.__file__).parent
    headers = torch_folder / "include"
    command = [
        *compiler,
        *("-std=c++20", "-O3", "-fno-plt", "-g0", "-DNDEBUG", "-shared", "-fPIC", "-fvisibility=hidden", "-s"),
        *(f"-D_GLIBCXX_USE_CXX11_ABI={int(target.cxx11_abi)}", f'-DTORCHSPAN_SOURCE="{target.source}"'),
        *(f"-I{headers}", f"-I{headers / 'torch/csrc/api/include'}", f"-I{sysconfig.get_path('include')}"),
        *(str(SOURCE_FOLDER / SOURCES[0]), "-o", str(path)),
        *(f"-L{torch_folder / 'lib'}", "-lc10", "-ltorch_cpu"),
    ]
    progress(f"Building the library for PyTorch {target.torch} with {shlex.join(compiler)} (10 to 30 seconds) ...")
    start = time.monotonic()
    try:
        result = subprocess.run(
            command, env={**os.environ, "LC_ALL": "C"}, stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
    except OSError as error:
        raise UnavailableError(f"{compiler[0]} cannot be started ({error.strerror})", INSTALL) from error
    if result.returncode:
        lines = result.stderr.decode("utf-8", "replace").splitlines() or [f"exit status {result.returncode}"]
        reason = next((line for line in lines if _REASON.search(line)), lines[-1])
        raise UnavailableError(f"{compiler[0]} cannot compile the library: {reason.strip()}", INSTALL)
    progress(f"Built in {time.monotonic() - start:.0f} s, {path.stat().st_size / 1000:.0f} kB.")


def _compiler() -> list[str]:
    """CXX with its arguments, or the first compiler on the path. Raises UnavailableError."""
    try:
        named = shlex.split(os.environ.get("CXX", ""))
    except ValueError as error:
        raise UnavailableError(f"CXX is not a command ({error})", INSTALL) from error
    for command in [named] if named else [[name] for name in COMPILERS]:
        if shutil.which(command[0]):
            return command
    raise UnavailableError(f"{named[0] if named else 'a C++ compiler'} is not installed", INSTALL)
