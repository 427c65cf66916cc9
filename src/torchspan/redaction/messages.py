# SPDX-License-Identifier: Apache-2.0
"""Messages of exceptions and lines of logs: what of them may leave the process, and the whole text for the user's own file."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import TYPE_CHECKING

from torchspan._base.reading import traceback_of
from torchspan.redaction import UNKNOWN
from torchspan.redaction.bounds import VALUE_LIMIT
from torchspan.redaction.message_table import LENGTH_LIMIT, graph_breaks, table
from torchspan.redaction.raised import text_of
from torchspan.redaction.tensorrt_text import Framed, framed, preceded

if TYPE_CHECKING:
    from typing_extensions import Self

LIBRARIES = frozenset(("torch", "torch_tensorrt", "tensorrt", "tensorrt_rtx"))
"""Libraries whose code may have a message as a constant."""

_DEEPEST = 6
"""How many of TensorRT's frames, inside each other, are read."""


class LibraryMessage(str):
    """What may leave the process of a message. The string itself is the reduced text.

    Attributes:
        whole: The text as the library wrote it. Only the user's own file and terminal get it.
    """

    __slots__ = ("whole",)

    whole: str

    def __new__(cls, reduced: str, whole: str) -> Self:
        self = super().__new__(cls, reduced)
        self.whole = whole
        return self


def of_text(text: str, written_in: FrameType | None = None) -> LibraryMessage:
    """A text of a library: what its row lets through if it is in the table, otherwise `?`.

    What TensorRT writes around its texts leaves in both cases: the place in its source, the function and the error code.

    Args:
        text: As the library wrote it.
        written_in: The frame of the code that wrote it. If the text is a constant of a library's code, it leaves as it is.
    """
    return LibraryMessage(text if _is_library_constant(text, written_in) else _kept(text, 0), text)


def _kept(text: str, depth: int) -> str:
    """What leaves of a text that is in `depth` frames of TensorRT."""
    text = text.rstrip()
    frame = framed(text) if depth < _DEEPEST else None
    if frame is not None:
        return _around(frame, _kept(frame.inner, depth + 1))
    kept = table().kept(text)
    if kept is not None:
        return kept
    frame = preceded(text) if 0 < depth < _DEEPEST else None
    inner = UNKNOWN if frame is None else _kept(frame.inner, depth + 1)
    # A colon may stand in an unknown text, too: without a known text behind it, nothing is a name.
    return UNKNOWN if frame is None or inner == UNKNOWN else _around(frame, inner)


def _around(frame: Framed, inner: str) -> str:
    return f"{frame.before}{inner}{frame.after}"


def of_error(error: BaseException) -> LibraryMessage | None:
    """The message of an exception; None if it has no text.

    Without a row in the table it is `?`, unless it equals a string constant of the library's code that raised it. No code of the
    exception is run: its text is the first argument that is exactly a `str`.
    """
    text = text_of(error)
    if not text:
        return None
    return of_text(text, _raised_in(error) if len(text) <= LENGTH_LIMIT else None)


def of_graph_break_hint(text: str, written_in: FrameType | None = None) -> LibraryMessage:
    """A hint of a graph break: whole if it is one of those that PyTorch uses everywhere, otherwise as `of_text`."""
    return LibraryMessage(text, text) if text in graph_breaks()[1] else of_text(text, written_in)


def of_dynamo_reason(text: str) -> LibraryMessage:
    """Dynamo's reason for something: the type of graph break that it begins with, or its message if the table knows it."""
    first = text.lstrip().partition("\n")[0]
    if first in graph_breaks()[0]:
        return LibraryMessage(first, text)
    known = of_text(text)
    return known if known != UNKNOWN else LibraryMessage(of_text(first), text)


def of_program(text: str) -> LibraryMessage:
    """A text of the program. Nothing of it leaves."""
    return LibraryMessage(UNKNOWN, text)


def _is_library_constant(text: str, frame: FrameType | None) -> bool:
    """Whether `text` is, as a whole, a string constant of the code that `frame` runs, and that code is in a library's files.

    Python keeps a list of constants as one tuple, so texts in tuples count.
    """
    if frame is None or not _is_of_library(frame):
        return False
    constants = frame.f_code.co_consts
    texts = (*constants, *(element for constant in constants if type(constant) is tuple for element in constant))
    return any(type(constant) is str and constant == text for constant in texts)


def _raised_in(error: BaseException) -> FrameType | None:
    entry = traceback_of(error)
    if entry is None:
        return None
    while entry.tb_next is not None:
        entry = entry.tb_next
    return entry.tb_frame


def _is_of_library(frame: FrameType) -> bool:
    """Whether the frame's code is in a file of a library. Code that a library generates for a program is not."""
    module = frame.f_globals.get("__name__")
    package = sys.modules.get(module.partition(".")[0]) if type(module) is str else None
    file = getattr(package, "__file__", None)
    if package is None or package.__name__ not in LIBRARIES or type(file) is not str:
        return False
    return _is_below(frame.f_code, str(Path(file).parent))


def _is_below(code: CodeType, folder: str) -> bool:
    return code.co_filename.startswith(f"{folder}/") or code.co_filename.startswith(f"{folder}\\")


def line_reader(*, capture_text: bool) -> Callable[[str], str]:
    """The function that reads a line of a library's log: `of_text`, or with `capture_text` the line, at most 2 KiB."""
    return _bounded if capture_text else of_text


def _bounded(text: str) -> str:
    return text[:VALUE_LIMIT]
