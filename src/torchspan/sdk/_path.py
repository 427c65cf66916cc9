# SPDX-License-Identifier: Apache-2.0
"""File names with `%p` (process id), `%t` (start time) and `%%` (a percent sign)."""

from __future__ import annotations

import datetime as dt
import glob
import os
import re
from pathlib import Path

_PLACEHOLDER = re.compile(r"%([pt%])")


def start_time() -> str:
    """Now, in UTC, as `20261121T104240Z`: sorts by time and is a valid part of a file name everywhere."""
    return dt.datetime.now(dt.timezone.utc).strftime("%Y%m%dT%H%M%SZ")


def expand(template: str, *, pid: int, time: str) -> str:
    """The file name for one process. A percent sign before any other character stays as it is."""
    values = {"p": str(pid), "t": time, "%": "%"}
    return _PLACEHOLDER.sub(lambda match: values[match[1]], template)


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
    texts = [""]
    for index, piece in enumerate(_PLACEHOLDER.split(template)):
        if index % 2 == 0:
            texts[-1] += piece
        elif piece == "p":
            texts.append("")
        else:
            texts[-1] += "%"
    pattern = re.compile(r"\d+".join(map(re.escape, texts)))
    found = glob.glob("*".join(map(glob.escape, texts)))  # noqa: PTH207 - Path.glob takes no absolute pattern
    return sorted(path for path in found if pattern.fullmatch(path))
