# SPDX-License-Identifier: Apache-2.0
"""Where a process below `torchspan run` crashed, read from what `faulthandler` wrote."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import PurePath
from typing import NamedTuple

from torchspan.base.files.folders import Folder
from torchspan.start.launched.faults import SUFFIX

_LARGEST = 1_000_000
"""Bytes that are read of a file."""


class Crash(NamedTuple):
    """What `faulthandler` wrote when a process crashed.

    Attributes:
        pid: The process.
        reason: Its first line, such as `Segmentation fault`.
        file, line, function: The user's innermost frame in the thread that crashed, with the file's base name. None
            if all of its frames belong to PyTorch, Torch-TensorRT, TensorRT, torchspan and the standard library, or
            if it has no frames.
    """

    pid: int
    reason: str
    file: str | None = None
    line: int | None = None
    function: str | None = None


def read_crash(folder: Folder, pid: int) -> Crash | None:
    """What the process wrote into the folder when it crashed; None if it did not crash, or wrote to another file."""
    try:
        lines = folder.read(f"{pid}{SUFFIX}", _LARGEST).decode("utf-8", errors="replace").splitlines()
    except OSError:
        return None
    # A process may have several, of signals that it survived. The last one ended it.
    starts = [number for number, line in enumerate(lines) if _REASON.match(line)]
    if not starts:
        return None
    reason = _REASON.sub("", lines[starts[-1]]).strip()
    return Crash(pid, reason, *next(_users_frames(lines[starts[-1] :]), (None, None, None)))


def read_crashes(folder: Folder) -> list[Crash]:
    """The crashes of all processes that wrote one into the folder, by process id."""
    try:
        names = [PurePath(name) for name in folder.names()]
    except OSError:
        return []
    pids = sorted(int(path.stem) for path in names if path.suffix == SUFFIX and _is_number(path.stem))
    crashes = (read_crash(folder, pid) for pid in pids)
    return [crash for crash in crashes if crash is not None]


_REASON = re.compile(r"(?:Fatal Python error|Windows fatal exception): ")
_CRASHED = re.compile(r"Current thread .*\(most recent call first\)")
_FRAME = re.compile(r' {2}File "(?P<path>.*)", line (?P<line>\d+|\?+) in (?P<function>.*)')

_LIBRARIES = "torch|torchgen|torch_tensorrt|tensorrt\\w*|torchspan|opentelemetry|wrapt"
_NOT_THE_USERS = re.compile(
    rf"""
    <(?:frozen|eval_with_key|torch_)            # the interpreter's own, and code that PyTorch generated
    | (?:site|dist)-packages/(?:{_LIBRARIES})/
    | /lib(?:64)?/python\d[^/]*/(?!(?:site|dist)-packages/)
    | /python\d+\.zip/
    | /Lib/(?!site-packages/)                   # on Windows
    """,
    re.VERBOSE,
)
_OWN = PurePath(__file__).parents[2].as_posix() + "/"


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 20


def _users_frames(lines: Iterable[str]) -> Iterator[tuple[str, int | None, str]]:
    """File, line and function of the user's frames in the thread that crashed, innermost first."""
    is_crashed = False
    for line in lines:
        match = _FRAME.fullmatch(line)
        if _CRASHED.match(line):
            is_crashed = True
        elif is_crashed and match is not None:
            path, number = match["path"].replace("\\", "/"), match["line"]
            if _is_users(path):
                yield PurePath(path).name, int(number) if number.isdecimal() else None, match["function"]
        elif is_crashed and not line.startswith("  "):
            return


def _is_users(path: str) -> bool:
    return not path.startswith(_OWN) and _NOT_THE_USERS.search(path) is None
