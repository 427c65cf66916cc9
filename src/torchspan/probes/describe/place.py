# SPDX-License-Identifier: Apache-2.0
"""Finds the place in the program's own code from which something comes."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from traceback import FrameSummary
from types import TracebackType
from typing import Any, NamedTuple

from torchspan import semconv
from torchspan._base import reading

LIBRARIES = ("torch", "torch_tensorrt", "tensorrt", "tensorrt_rtx", "torchspan")
"""Libraries whose files are not the program's."""

_FRAME = re.compile(r'^\s*File "(?P<file>.+)", line (?P<line>\d+), in (?P<function>.+)$', re.MULTILINE)
_GENERATED = "<eval_with_key>"
"""torch.fx's name for the files of the code that it generates."""


class StackPlace(NamedTuple):
    """A line of a function in a file."""

    file: str
    line: int
    function: str

    def facts(self) -> dict[str, Any]:
        """The attributes for this place."""
        return {semconv.CODE_FILE: self.file, semconv.CODE_LINE: self.line, semconv.CODE_FUNCTION: self.function}


def of_stack(text: Any) -> StackPlace | None:
    """The innermost place of the program in a stack as text (`node.stack_trace`); None if every frame is a library's."""
    matches = _FRAME.finditer(text if type(text) is str else "")
    return _innermost(StackPlace(match["file"], int(match["line"]), match["function"]) for match in matches)


def of_traceback(entry: TracebackType | None) -> StackPlace | None:
    """The innermost place of the program in a traceback; None if every frame is a library's."""
    return _innermost(_places(entry))


def of_summaries(stack: Any) -> StackPlace | None:
    """The innermost place of the program among `traceback.FrameSummary` objects; None if there is none."""
    summaries = [summary for summary in reading.entries(stack) or () if type(summary) is FrameSummary]
    return _innermost(StackPlace(summary.filename, summary.lineno or 0, summary.name) for summary in summaries)


def _places(entry: TracebackType | None) -> Iterator[StackPlace]:
    while entry is not None:
        code = entry.tb_frame.f_code
        yield StackPlace(code.co_filename, entry.tb_lineno, code.co_name)
        entry = entry.tb_next


def _innermost(places: Iterable[StackPlace]) -> StackPlace | None:
    folders = tuple(_folders())
    mine = [place for place in places if not place.file.startswith((*folders, _GENERATED))]
    # A function that a library generated is in `<string>`, as is the program of `python -c`: files come first.
    in_files = [place for place in mine if not place.file.startswith("<")]
    return next(reversed(in_files or mine), None)


def _folders() -> Iterator[str]:
    for name in LIBRARIES:
        file = getattr(sys.modules.get(name), "__file__", None)
        if file:
            yield f"{Path(file).parent}{os.sep}"
