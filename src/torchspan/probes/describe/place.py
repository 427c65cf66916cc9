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
    found = _FRAME.finditer(text if type(text) is str else "")
    return _innermost(StackPlace(each["file"], int(each["line"]), each["function"]) for each in found)


def of_traceback(entry: TracebackType | None) -> StackPlace | None:
    """The innermost place of the program in a traceback; None if every frame is a library's."""
    return _innermost(_places(entry))


def of_summaries(stack: Any) -> StackPlace | None:
    """The innermost place of the program among `traceback.FrameSummary` objects; None if there is none."""
    found = [each for each in reading.entries(stack) or () if type(each) is FrameSummary]
    return _innermost(StackPlace(each.filename, each.lineno or 0, each.name) for each in found)


def _places(entry: TracebackType | None) -> Iterator[StackPlace]:
    while entry is not None:
        code = entry.tb_frame.f_code
        yield StackPlace(code.co_filename, entry.tb_lineno, code.co_name)
        entry = entry.tb_next


def _innermost(places: Iterable[StackPlace]) -> StackPlace | None:
    folders = tuple(_folders())
    mine = [place for place in places if not place.file.startswith((*folders, _GENERATED))]
    # A function that a library generated is in `<string>`, as is the program of `python -c`: files come first.
    in_files = [each for each in mine if not each.file.startswith("<")]
    return next(reversed(in_files or mine), None)


def _folders() -> Iterator[str]:
    for name in LIBRARIES:
        file = getattr(sys.modules.get(name), "__file__", None)
        if file:
            yield f"{Path(file).parent}{os.sep}"
