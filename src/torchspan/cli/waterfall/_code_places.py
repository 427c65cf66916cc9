# SPDX-License-Identifier: Apache-2.0
"""Where in the program something is, as a reader finds it."""

from __future__ import annotations

import os
from pathlib import Path

from torchspan import semconv
from torchspan.traces import Attributes


def source_line(attributes: Attributes) -> str:
    """`model.py:12`, the path from the current folder on if the file is below it; empty without a file."""
    file, line = attributes.get(semconv.CODE_FILE), attributes.get(semconv.CODE_LINE)
    if not file:
        return ""
    shown = str(file).removeprefix(_current_folder())
    return shown if line is None else f"{shown}:{line}"


def _current_folder() -> str:
    """What the paths below the current folder begin with; empty where there is none."""
    try:
        return str(Path.cwd()).rstrip(os.sep) + os.sep
    except OSError:  # it was deleted
        return ""
