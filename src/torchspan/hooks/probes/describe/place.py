# SPDX-License-Identifier: Apache-2.0
"""Finds the place in the program's own code from which something comes."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from traceback import FrameSummary
from types import FrameType, TracebackType
from typing import Any, NamedTuple

from torchspan.base import reading
from torchspan.words import semconv
from torchspan.words.redaction.messages import text_of

LIBRARIES = ("torch", "torch_tensorrt", "tensorrt", "tensorrt_rtx", "torchspan")
"""Libraries whose files are not the program's."""

_FRAME = re.compile(r'^\s*File "(?P<file>.+)", line (?P<line>\d+), in (?P<function>.+)$', re.MULTILINE)
_GENERATED = "<eval_with_key>"
"""torch.fx's name for the files of the code that it generates."""
_INSTALLED = re.compile(r"[\\/](?:site|dist)-packages[\\/]|<frozen ")
"""What is in the path of code that is installed, or part of the interpreter."""
_STANDARD = f"{Path(os.__file__).parent}{os.sep}"


class StackPlace(NamedTuple):
    """A line of a function in a file."""

    file: str
    line: int
    function: str

    def facts(self) -> dict[str, Any]:
        """The attributes for this place."""
        return {semconv.CODE_FILE: self.file, semconv.CODE_LINE: self.line, semconv.CODE_FUNCTION: self.function}

    @property
    def is_of_torch(self) -> bool:
        """Whether it is in a file of PyTorch's, or of a library upon it."""
        return self.file.startswith(tuple(_folders()))


def of_stack(text: Any) -> StackPlace | None:
    """The innermost place of the program in a stack as text (`node.stack_trace`); None if every frame is a library's."""
    matches = _FRAME.finditer(text if type(text) is str else "")
    return _innermost(StackPlace(match["file"], int(match["line"]), match["function"]) for match in matches)


def of_traceback(entry: TracebackType | None) -> StackPlace | None:
    """The innermost place of the program in a traceback; None if every frame is a library's."""
    return _innermost(_places(entry))


def of_summaries(stack: Any) -> StackPlace | None:
    """The innermost place of the program among `traceback.FrameSummary` objects; None if there is none."""
    return _innermost(_summaries(stack))


def of_break(stack: Any) -> tuple[StackPlace | None, StackPlace | None]:
    """The innermost place of the user's own code, and the innermost place of all, of `FrameSummary` objects.

    If all of them are a library's, the user's place is among what has called this.
    """
    inside = list(_summaries(stack))
    return users(inside) or of_call() or _innermost(inside), inside[-1] if inside else None


def of_call() -> StackPlace | None:
    """The innermost place of the user's own code from which this is called."""
    return users(list(_callers())[::-1])


def of_error(error: BaseException) -> StackPlace | None:
    """The innermost place of the user's own code from which an error of PyTorch's comes, by what PyTorch knows of it."""
    in_text = of_stack(text_of(error))
    stack = _summaries(reading.attribute(error, "real_stack"))
    return users(stack) or in_text or users(_places(reading.traceback_of(error)))


def _summaries(stack: Any) -> Iterator[StackPlace]:
    for summary in reading.entries(stack) or ():
        if type(summary) is FrameSummary:
            yield StackPlace(summary.filename, summary.lineno or 0, summary.name)


def users(places: Iterable[StackPlace]) -> StackPlace | None:
    """The innermost place that is neither in Python's own files nor in a package that is installed."""
    return _innermost(p for p in places if not p.file.startswith(_STANDARD) and not _INSTALLED.search(p.file))


def _callers() -> Iterator[StackPlace]:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield StackPlace(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
        frame = frame.f_back


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
