# SPDX-License-Identifier: Apache-2.0
"""The file of `torchspan run`, tried before the program is started."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from torchspan.base.files.opening import check_is_of_traces, open_existing, refused
from torchspan.cli._command import CommandError
from torchspan.output.sdk import _path
from torchspan.reading.answers.lines import printable
from torchspan.words.environment_variables import TORCHSPAN_FILE

_USAGE = 2


@dataclass(frozen=True)
class Output:
    """Where the spans of a run go.

    Attributes:
        template: Absolute, `%p` for the process id.
        detour: Why the file is neither the one that TORCHSPAN_FILE names nor in the current folder; empty if it is
            one of these.
    """

    template: str
    detour: str = ""


def named(file: str, source: str) -> Output:
    """The file that the user has named.

    Raises CommandError when a regular file of that name can be neither opened nor made, and when what has the name is
    something else, or not this user's.

    Args:
        source: How the user names it, as `--output` or TORCHSPAN_FILE.
    """
    path = file
    try:
        if file == "-":
            raise refused(file, "is the standard output, and traces are appended to a file")
        template = _path.expand_time(_path.absolute(file), _path.start_time())
        path = _path.expand(template, pid=os.getpid(), time="")
        try_file(path)
    except OSError as error:
        how = f"{source}=<file>" if source == TORCHSPAN_FILE else f"{source} <file>"
        message = f"cannot write {printable(path)}: {error.strerror or error}; name another file: {how}"
        raise CommandError(message, _USAGE) from None
    return Output(template)


def from_environment(file: str) -> Output:
    """The file of TORCHSPAN_FILE, or the default one where that file cannot be written.

    The variable may belong to a job, in which the program must start all the same. Raises CommandError when no file can be written.
    """
    try:
        return named(file, TORCHSPAN_FILE)
    except CommandError as error:
        instead = default()
        return Output(instead.template, "; ".join(filter(None, [str(error), instead.detour])))


def default() -> Output:
    """A file in the current folder, or, where that cannot be written, in the folder for temporary files.

    Raises CommandError when neither can be written.
    """
    name = f"torchspan-{_path.start_time()}-{os.getpid()}"
    try:
        path = str(Path.cwd() / f"{name}.jsonl")
        try_file(path)
        return Output(_path.escape(path))
    except OSError as error:
        reason = f"the current folder cannot be written: {error.strerror or error}"
    try:
        # A name that cannot be foreseen: other users may write into that folder too.
        path = os.path.join(tempfile.gettempdir(), f"{name}-{secrets.token_hex(4)}.jsonl")  # noqa: PTH118
        try_file(path)
    except OSError:
        raise CommandError(
            f"{reason}, and neither can the temporary folder be used; name a file: --output <file>", _USAGE
        ) from None
    return Output(_path.escape(path), reason)


def sizes(output: Output) -> Mapping[str, int]:
    """The bytes that stand in the files of a run before it. Names of something else have none."""
    values = {}
    for path in _path.written_files(output.template):
        with contextlib.suppress(OSError):
            values[path] = os.lstat(path).st_size
    return values


def relative(path: str) -> str:
    """The path as seen from the current folder, where that is inside it."""
    try:
        inside = os.path.relpath(path)
    except FileNotFoundError:  # there is no current folder any more
        return path
    return path if inside.startswith(os.pardir) else inside


def opened(path: str) -> BinaryIO:
    """A file of a run, to be read. Raises OSError for what is not a regular file of this user's, which no run has written."""
    return os.fdopen(open_existing(path, os.O_RDONLY), "rb")


def happened(output: Output) -> str:
    """What happened to the file of a run if spans that were written to it are missing: a clause."""
    path = _path.expand(output.template, pid=os.getpid(), time="")
    if not _path.is_literal(output.template):
        return "the files were removed, renamed, truncated or replaced while the program ran"
    try:
        os.close(open_existing(path, os.O_RDONLY))
    except FileNotFoundError:
        return f"{path} was removed or renamed while the program ran"
    except OSError as error:
        return f"{path} was replaced while the program ran: {error.strerror or 'it cannot be read'}"
    return f"{path} was removed, truncated or replaced while the program ran"


def try_file(path: str) -> None:
    """Open the file for appending, or, where there is none yet, write and remove another one where it would be.

    Nothing is left behind, no folder is made. Raises OSError.
    """
    try:
        opened = open_existing(path, os.O_APPEND)
    except (FileNotFoundError, NotADirectoryError):
        _try_folder(Path(path).parent)
        return
    try:
        check_is_of_traces(opened, path)
    finally:
        os.close(opened)


def _try_folder(folder: Path) -> None:
    """Write a file into the folder, or into the nearest one above it that exists."""
    while not folder.exists():
        folder = folder.parent
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, f"{folder} is not a folder")
    with tempfile.TemporaryFile(dir=folder) as file:
        file.write(b"\n")
        file.flush()
