# SPDX-License-Identifier: Apache-2.0
"""Messages of exceptions and lines of logs: what of them may leave the process, and the whole text for the user's own file."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from torchspan.base.reading import traceback_of
from torchspan.words.redaction import UNKNOWN
from torchspan.words.redaction.bounds import VALUE_LIMIT
from torchspan.words.redaction.code_texts import texts_of
from torchspan.words.redaction.message_table import table
from torchspan.words.redaction.tensorrt_text import Framed, framed, preceded

if TYPE_CHECKING:
    from typing_extensions import Self

LIBRARIES = frozenset(("torch", "torch_tensorrt", "tensorrt", "tensorrt_rtx"))
"""Libraries whose code has the texts of their messages."""

_DEEPEST = 6
"""How many of TensorRT's frames, inside each other, are read."""

_BEGINNING = 2_048
"""Characters of a text in which its first line ends."""


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
    """A text of a library, as far as it is known: as a whole, or else its first line alone. Otherwise it is `?`.

    It is known if a row of the table matches it, or a text in the code of the library that wrote it. What TensorRT writes around its
    texts leaves in any case: the place in its source, the function and the error code.

    Args:
        text: As the library wrote it.
        written_in: The frame of the code that wrote it.
    """
    first_line, is_line, _ = text[:_BEGINNING].lstrip().partition("\n")
    texts = (text, first_line) if is_line else (text,)
    reduced = (_known(each.rstrip(), written_in) for each in texts)
    return LibraryMessage(next((each for each in reduced if each != UNKNOWN), UNKNOWN), text)


def _known(text: str, frame: FrameType | None) -> str:
    """What leaves of a text by its row, which keeps types and shapes, or else by the code that wrote it."""
    kept = _kept(text, 0)
    if kept != UNKNOWN or frame is None or not _is_of_library(frame):
        return kept
    return texts_of(frame.f_code).kept(text) or UNKNOWN


def _kept(text: str, depth: int) -> str:
    """What leaves of a text that is in `depth` frames of TensorRT."""
    frame = framed(text) if depth < _DEEPEST else None
    if frame is not None:
        return _around(frame, _kept(frame.inner.rstrip(), depth + 1))
    kept = table().kept(text)
    if kept is not None:
        return kept
    frame = preceded(text) if 0 < depth < _DEEPEST else None
    inner = UNKNOWN if frame is None else _kept(frame.inner.rstrip(), depth + 1)
    # A colon may stand in an unknown text, too: without a known text behind it, nothing is a name.
    return UNKNOWN if frame is None or inner == UNKNOWN else _around(frame, inner)


def _around(frame: Framed, inner: str) -> str:
    return f"{frame.before}{inner}{frame.after}"


def of_error(error: BaseException) -> LibraryMessage | None:
    """The message of an exception, as far as it is known; None if it has no text.

    No code of the exception is run: its text is the first argument that is exactly a `str`.
    """
    text = text_of(error)
    return of_text(text, _raised_in(error)) if text else None


def of_program(text: str) -> LibraryMessage:
    """A text of the program. Nothing of it leaves."""
    return LibraryMessage(UNKNOWN, text)


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
    folder = str(Path(file).parent)
    return frame.f_code.co_filename.startswith((f"{folder}/", f"{folder}\\"))


def line_reader(*, capture_text: bool) -> Callable[[str], str]:
    """The function that reads a line of a library's log: `of_text`, or with `capture_text` the line, at most 2 KiB."""
    return _bounded if capture_text else of_text


def _bounded(text: str) -> str:
    return text[:VALUE_LIMIT]


# --- exceptions, read without running their code --------------------------------------------------------------------
# `str(error)` may run code of the program: its class may define `__str__`, and so may an argument. A class may also replace `args`.
# So it is read through `BaseException` itself.
_SLOTS: dict[str, Any] = dict(vars(BaseException))


def first_raised(error: BaseException) -> BaseException:
    """The exception that `error` repeats with its arguments, as torch.fx raises a RuntimeError from a KeyError; else `error`."""
    cause: BaseException | None = _SLOTS["__cause__"].__get__(error)
    if cause is None:
        return error
    arguments, others = (_SLOTS["args"].__get__(each) for each in (error, cause))
    return cause if arguments and [*map(id, arguments)] == [*map(id, others)] else error


def text_of(error: BaseException) -> str:
    """The first argument, if it is exactly a `str`: the message, for exceptions that libraries define. Otherwise empty."""
    arguments = _SLOTS["args"].__get__(error)
    return arguments[0] if arguments and type(arguments[0]) is str else ""
