# SPDX-License-Identifier: Apache-2.0
"""The kind of text that names a file of source code."""

from __future__ import annotations

import os
import re
import sys

from torchspan._base.bounds import cut
from torchspan.semconv._values import UNKNOWN, Kind

_VIRTUAL = re.compile(
    r"<string>|<stdin>|<eval_with_key>\.[0-9]{1,9}|<frozen [A-Za-z_][\w.]{0,99}>"
    r"|<ipython-input-[0-9]{1,9}-[0-9a-f]{1,64}>",
    re.ASCII,
)
"""Names of code that is in no file, as Python, torch.fx and IPython give them."""
_PATH_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,127}")
_PATH_LIMIT = 256


class Place(Kind):
    """The file of a piece of code."""

    title = "place"
    leaves = (
        "The path of a source file from the folder on Python's import path that it lies in (`models/net.py`), or its "
        "name alone where it lies in none; `<string>` and the like for code that is in no file. A folder or file whose "
        "name has other characters than ASCII letters, digits, `_`, `.`, `+` and `-` is "
        f"`{UNKNOWN}`, and so is what is no file."
    )
    leaves_with_text = "The absolute path of the file, which may have the name of a user in it."

    def accepts(self, text: str) -> bool:
        """See `Kind`."""
        if _VIRTUAL.fullmatch(text):
            return True
        parts = text.split("/")
        return len(text) <= _PATH_LIMIT and all(each == UNKNOWN or _PATH_PART.fullmatch(each) for each in parts)

    def reduced(self, text: str) -> str:
        """See `Kind`."""
        virtual = _VIRTUAL.match(text)
        if virtual is not None:  # torch.fx may add where the graph was made
            return virtual[0]
        if not _is_file(text):
            return UNKNOWN
        parts = _below_import_path(text).replace(os.sep, "/").split("/")
        told = "/".join(each if _PATH_PART.fullmatch(each) else UNKNOWN for each in parts)
        return told if len(told) <= _PATH_LIMIT else UNKNOWN

    def whole(self, text: str) -> str:
        """See `Kind`."""
        return cut(text)


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
    """The entry of the import path that the file lies below, the longest; empty where it lies below none."""
    longest = ""
    for entry in list.copy(sys.path) if issubclass(type(sys.path), list) else ():
        if type(entry) is str and len(entry) > max(len(longest), 1):
            folder = entry.rstrip(os.sep)
            if folder and path.startswith(folder + os.sep):
                longest = folder
    return longest
