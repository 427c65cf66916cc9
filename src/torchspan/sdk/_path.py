# SPDX-License-Identifier: Apache-2.0
"""File names with `%p` (process id), `%t` (start time) and `%%` (a percent sign)."""

from __future__ import annotations

import datetime as dt
import glob
import os
import re
from pathlib import Path, PurePath

_PLACEHOLDER = re.compile(r"%([pt%])")
_MARK = "-[0-9a-f]{8}"


def start_time() -> str:
    """Now, in UTC, as `20261121T104240Z`: sorts by time and is a valid part of a file name everywhere."""
    return dt.datetime.now(dt.timezone.utc).strftime("%Y%m%dT%H%M%SZ")


def expand(template: str, *, pid: int, time: str, mark: str = "") -> str:
    """The file name for one process. A percent sign before any other character stays as it is.

    Args:
        template: The name with its placeholders.
        pid: The number of the process.
        time: When the process began, for `%t`.
        mark: Put in front of the name's suffix, where the template gives it one: `-1a2b3c4d` makes another file
            alongside it.
    """
    *texts, last = _texts(template, time)
    before, suffix = _suffix_apart(last)
    return str(pid).join([*texts, f"{before}{mark}{suffix}"])


def is_literal(template: str) -> bool:
    """Whether it stands for one file, whatever the process and the time."""
    return expand(template, pid=1, time="1") == expand(template, pid=2, time="2")


def new_mark() -> str:
    """A mark that cannot be foreseen: other users may write into the folder, too."""
    return f"-{os.urandom(4).hex()}"


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
    """The existing files that a template (its `%t` already expanded) stands for, whatever the process, sorted.

    Those with a mark are among them.
    """
    *texts, last = _texts(template, "")
    before, suffix = _suffix_apart(last)
    numbers = r"\d+".join(map(re.escape, [*texts, before]))
    pattern = re.compile(f"{numbers}(?:{_MARK})?{re.escape(suffix)}")
    names = "*".join(map(glob.escape, [*texts, before]))
    paths = glob.glob(f"{names}*{glob.escape(suffix)}")  # noqa: PTH207 - Path.glob takes no absolute pattern
    return sorted(path for path in paths if pattern.fullmatch(path))


def _texts(template: str, time: str) -> list[str]:
    """What stands around each `%p`."""
    texts = [""]
    for index, piece in enumerate(_PLACEHOLDER.split(template)):
        if index % 2 == 0:
            texts[-1] += piece
        elif piece == "p":
            texts.append("")
        else:
            texts[-1] += time if piece == "t" else "%"
    return texts


def _suffix_apart(text: str) -> tuple[str, str]:
    """The end of a template without its suffix, and the suffix."""
    suffix = PurePath(f"0{text}").suffix
    return (text.removesuffix(suffix), suffix) if text.endswith(suffix) else (text, "")
