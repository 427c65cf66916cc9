# SPDX-License-Identifier: Apache-2.0
"""Messages of exceptions and lines of logs: what of them may leave the process, and the whole text for the user's own file."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import CodeType, FrameType
from typing import TYPE_CHECKING

from torchspan._base.raised import text_of
from torchspan._base.reading import traceback_of
from torchspan.redaction.message_table import LENGTH_LIMIT, UNKNOWN, table

if TYPE_CHECKING:
    from typing_extensions import Self

LIBRARIES = frozenset(("torch", "torch_tensorrt", "tensorrt", "tensorrt_rtx"))
"""Libraries whose code may have a message as a constant."""

_PLACE = re.compile(r"\[[A-Za-z]{1,64}\.(?:cpp|h|cu)::[A-Za-z_:~<>]{1,128}::[0-9]{1,5}\] ", re.ASCII)
"""The place in TensorRT's source with which its messages may begin."""
_ERROR_CODE = re.compile(r"Error Code [0-9]{1,3}: ", re.ASCII)


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


def of_text(text: str) -> LibraryMessage:
    """A text of a library: what its row lets through if it is in the table, otherwise `?`.

    The place in TensorRT's source and the error code at the beginning leave also where the rest is not in the table.
    """
    place = _PLACE.match(text)
    begin = 0 if place is None else place.end()
    kept = table().kept(text[begin:])
    if kept is None:
        code = _ERROR_CODE.match(text, begin)
        kept = f"{'' if code is None else code[0]}{UNKNOWN}"
    return LibraryMessage(text[:begin] + kept, text)


def of_error(error: BaseException) -> LibraryMessage | None:
    """The message of an exception; None if it has no text.

    Without a row in the table it is `?`, unless it equals a string constant of the library's code that raised it. No code of the
    exception is run: its text is the first argument that is exactly a `str`.
    """
    text = text_of(error)
    if not text:
        return None
    if len(text) <= LENGTH_LIMIT and is_library_constant(text, _raised_in(error)):
        return LibraryMessage(text, text)
    return of_text(text)


def is_library_constant(text: str, frame: FrameType | None) -> bool:
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
