# SPDX-License-Identifier: Apache-2.0
"""The kind of text that names a file of source code."""

from __future__ import annotations

from torchspan._base import source_places
from torchspan._base.bounds import cut
from torchspan.semconv._values import UNKNOWN, Kind


class PlaceText(Kind):
    """The file of a piece of code."""

    title = "place"
    leaves = (
        "The path of a source file, relative to the folder on Python's import path that contains it (`models/net.py`), "
        "or only the file's name if no such folder contains it. Code without a file has `<string>` or similar. A "
        "folder or file whose name has characters other than ASCII letters, digits, `_`, `.`, `+` and `-` is "
        f"`{UNKNOWN}`, and so is anything that is not a file."
    )
    leaves_with_text = "The absolute path of the file, which may contain the name of a user."

    def accepts(self, text: str) -> bool:
        """See `Kind`."""
        return source_places.is_reduced(text)

    def reduced(self, text: str) -> str:
        """See `Kind`."""
        return source_places.reduced(text)

    def whole(self, text: str) -> str:
        """See `Kind`."""
        return cut(text)
