# SPDX-License-Identifier: Apache-2.0
"""Places in source code as they may leave the process: files relative to the import path, and where a callback failed."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import sys
from types import CodeType

from torchspan.base import reading

UNKNOWN = "?"
"""Replaces a path, or a part of one, that may not leave the process."""

_VIRTUAL = re.compile(
    r"<string>|<stdin>|<eval_with_key>\.[0-9]{1,9}|<frozen [A-Za-z_][\w.]{0,99}>"
    r"|<ipython-input-[0-9]{1,9}-[0-9a-f]{1,64}>",
    re.ASCII,
)
"""Names of code that is in no file, as Python, torch.fx and IPython set them."""
_PATH_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,127}")
_PATH_LIMIT = 256


def is_reduced(path: str) -> bool:
    """Whether a text is one that `reduced` may return."""
    if _VIRTUAL.fullmatch(path):
        return True
    return len(path) <= _PATH_LIMIT and all(part == UNKNOWN or _PATH_PART.fullmatch(part) for part in path.split("/"))


def reduced(path: str) -> str:
    """The path of a source file relative to the entry of the import path that contains it, otherwise its name alone.

    Parts with unusual characters are `?`, and so is a path that is not a file.
    """
    virtual = _VIRTUAL.match(path)
    if virtual is not None:  # torch.fx may add where the graph was made
        return virtual[0]
    if not _is_file(path):
        return UNKNOWN
    parts = _below_import_path(path).replace(os.sep, "/").split("/")
    shown = "/".join(part if _PATH_PART.fullmatch(part) else UNKNOWN for part in parts)
    return shown if len(shown) <= _PATH_LIMIT else UNKNOWN


def _is_file(path: str) -> bool:
    """Whether there is such a file, on disk or in an archive on the import path."""
    try:
        if os.path.isfile(path):  # noqa: PTH113 - a text of any kind
            return True
        archive = _folder_of(path)
        return bool(archive) and os.path.isfile(archive)  # noqa: PTH113
    except ValueError:  # a NUL
        return False


def _below_import_path(path: str) -> str:
    folder = _folder_of(path)
    return path[len(folder) :].lstrip(os.sep) if folder else os.path.basename(path)  # noqa: PTH119


def _folder_of(path: str) -> str:
    """The longest entry of the import path that contains the file. Empty if none does."""
    longest = ""
    for entry in list.copy(sys.path) if issubclass(type(sys.path), list) else ():
        if type(entry) is str and len(entry) > max(len(longest), 1):
            folder = entry.rstrip(os.sep)
            if folder and path.startswith(folder + os.sep):
                longest = folder
    return longest


def of_failure(error: BaseException, function: object) -> str:
    """Where a callback failed: `app.py, line 12`. Empty if that is not known.

    It is the innermost place that the exception passed in the file in which the callback begins. If the callback did not
    begin, for instance because it takes other arguments, it is the callback's definition.

    Args:
        error: What the callback raised.
        function: The callback.
    """
    file, line = "", 0
    entry = reading.traceback_of(error)
    while entry is not None:
        code = entry.tb_frame.f_code
        if not file and not _is_torchspans(entry.tb_frame.f_globals.get("__name__")):
            file = code.co_filename
        if file and code.co_filename == file:
            line = entry.tb_lineno
        entry = entry.tb_next
    if not file:
        definition = _code_of(function)
        if definition is None:
            return ""
        file, line = definition.co_filename, definition.co_firstlineno
    return f"{reduced(file)}, line {line}"


def _is_torchspans(module: object) -> bool:
    return type(module) is str and module.split(".")[0] == "torchspan"


def _code_of(function: object) -> CodeType | None:
    """The code of a function or method, also below `functools.partial`. None for another callable."""
    while type(function) is functools.partial:
        function = function.func
    with contextlib.suppress(Exception):  # a property of a library's
        code = reading.attribute(reading.unwrapped(function), "__code__")
        if type(code) is CodeType:
            return code
    return None
