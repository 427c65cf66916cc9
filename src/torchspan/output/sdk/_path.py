# SPDX-License-Identifier: Apache-2.0
"""File names with `%p` (process id), `%t` (start time) and `%%` (a percent sign)."""

from __future__ import annotations

import datetime as dt
import glob
import os
import re
from collections.abc import Callable
from pathlib import Path

_PLACEHOLDER = re.compile(r"%([pt%])")


def start_time() -> str:
    """Now, in UTC, as `20261121T104240Z`: sorts by time and is a valid part of a file name everywhere."""
    return dt.datetime.now(dt.timezone.utc).strftime("%Y%m%dT%H%M%SZ")


def expand(template: str, *, pid: int, time: str) -> str:
    """The file name for one process. A percent sign before any other character stays as it is.

    Args:
        template: The name with its placeholders.
        pid: The number of the process.
        time: When the process began, for `%t`.
    """
    texts = {"p": str(pid), "t": time, "%": "%"}
    return _PLACEHOLDER.sub(lambda match: texts[match[1]], template)


def is_literal(template: str) -> bool:
    """Whether it stands for one file, whatever the process and the time."""
    return expand(template, pid=1, time="1") == expand(template, pid=2, time="2")


def expand_time(template: str, time: str) -> str:
    """The template with `%t` alone expanded."""
    return _PLACEHOLDER.sub(lambda match: time if match[1] == "t" else match[0], template)


def escape(path: str) -> str:
    """The template that expands to exactly this path."""
    return path.replace("%", "%%")


def absolute(template: str) -> str:
    """The template with the current folder in front where it is relative (the program may change folders later)."""
    if Path(template).is_absolute():
        return template
    return f"{escape(str(Path.cwd()))}{os.sep}{template}"


def written_files(template: str) -> list[str]:
    """The existing files that a template (its `%t` already expanded) stands for, whatever the process, sorted."""
    pattern = re.compile(_for_any_process(template, re.escape, r"\d+"))
    paths = glob.glob(_for_any_process(template, glob.escape, "*"))  # noqa: PTH207 - Path.glob takes no absolute pattern
    return sorted(path for path in paths if pattern.fullmatch(path))


def _for_any_process(template: str, escape: Callable[[str], str], number: str) -> str:
    """A pattern: the text of the template escaped, and `number` for each process id."""
    texts = {"p": number, "%": "%"}
    pieces = enumerate(_PLACEHOLDER.split(template))  # text and placeholders by turns
    return "".join(escape(piece) if index % 2 == 0 else texts.get(piece, "") for index, piece in pieces)
