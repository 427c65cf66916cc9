# SPDX-License-Identifier: Apache-2.0
"""The file of `torchspan run`, tried before the program is started."""

from __future__ import annotations

import errno
import os
import secrets
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

from torchspan.cli._command import CommandError
from torchspan.cli._terminal import printable
from torchspan.environment_variables import TORCHSPAN_FILE
from torchspan.sdk import _path

_USAGE = 2


@dataclass(frozen=True)
class Output:
    """Where the spans of a run go.

    template: absolute, `%p` for the process id. detour: why the file is not in the current folder; empty if it is.
    """

    template: str
    detour: str = ""


def named(file: str, source: str) -> Output:
    """The file that the user has named. source: how the user names it, as `--output` or TORCHSPAN_FILE.

    Raises CommandError when a regular file of that name can be neither opened nor made.
    """
    how = f"{source}=" if source == TORCHSPAN_FILE else f"{source} "
    try:
        template = _path.expand_time(_path.absolute(file), _path.start_time())
    except FileNotFoundError:
        raise CommandError(
            f"cannot write {printable(file)}: the current folder no longer exists; "
            f"name the file by its whole path: {how}<path>",
            _USAGE,
        ) from None
    path = _path.expand(template, pid=os.getpid(), time="")
    try:
        _try(path)
    except IsADirectoryError:
        raise CommandError(
            f"cannot write {printable(path)}: is a folder; name a file: {how}{printable(os.path.join(file, 'traces.jsonl'))}",  # noqa: PTH118
            _USAGE,
        ) from None
    except OSError as error:
        raise CommandError(
            f"cannot write {printable(path)}: {error.strerror or error}; name another file: {how}<file>", _USAGE
        ) from None
    return Output(template)


def default() -> Output:
    """A file in the current folder, or, where that cannot be written, in the folder for temporary files.

    Raises CommandError when neither can be written.
    """
    name = f"torchspan-{_path.start_time()}-{os.getpid()}"
    try:
        path = str(Path.cwd() / f"{name}.jsonl")
    except FileNotFoundError:
        reason = "the current folder no longer exists"
    else:
        try:
            _try(path)
        except OSError as error:
            reason = f"the current folder cannot be written: {error.strerror or error}"
        else:
            return Output(_path.escape(path))
    try:
        # A name that cannot be foreseen: other users may write into that folder too.
        path = os.path.join(tempfile.gettempdir(), f"{name}-{secrets.token_hex(4)}.jsonl")  # noqa: PTH118
        _try(path)
    except OSError:
        raise CommandError(f"{reason}, nor is there a temporary one; name a file: --output <file>", _USAGE) from None
    return Output(_path.escape(path), reason)


def _try(path: str) -> None:
    """Open the file for appending, or, where there is none yet, write and remove another one where it would be.

    Nothing is left behind, no folder is made. Raises OSError.
    """
    path = os.path.realpath(path)
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116 - raises for a name that is too long, which Path.exists() hides
    except (FileNotFoundError, NotADirectoryError):
        _try_folder(Path(path).parent)
        return
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "is not a regular file, which `torchspan run` needs to read it back")
    os.close(os.open(path, os.O_RDWR | os.O_APPEND))


def _try_folder(folder: Path) -> None:
    """Write a file into the folder, or into the nearest one above it that exists."""
    while not folder.exists():
        folder = folder.parent
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, f"{folder} is not a folder")
    with tempfile.TemporaryFile(dir=folder) as file:
        file.write(b"\n")
        file.flush()
