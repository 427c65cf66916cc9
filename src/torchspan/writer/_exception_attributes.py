# SPDX-License-Identifier: Apache-2.0
"""The attributes of an exception event."""

from __future__ import annotations

from collections.abc import Iterator
from types import CodeType, FrameType, TracebackType
from typing import Any

from torchspan import semconv
from torchspan._base.raised import causes_of, text_of
from torchspan._base.reading import traceback_of
from torchspan._base.templates import template
from torchspan.writer._authors import is_written_by_library


def exception_attributes(error: BaseException, *, capture_text: bool) -> dict[str, Any]:
    """The attributes of the `exception` event: the class, the place, and the part of the message that may be recorded."""
    attributes: dict[str, Any] = {semconv.EXCEPTION_TYPE: semconv.class_name(type(error))}
    origin = _innermost(traceback_of(error))
    if origin is not None:
        code, line, module = origin
        attributes[semconv.CODE_FUNCTION] = f"{module}.{_qualified_name(code)}"
        attributes[semconv.CODE_FILE] = code.co_filename
        attributes[semconv.CODE_LINE] = line
    message = _message(error, capture_text=capture_text)
    if message:
        attributes[semconv.EXCEPTION_MESSAGE] = message
    return attributes


def _message(error: BaseException, *, capture_text: bool) -> str:
    """The template of a message that only libraries contributed to; with `capture_text`, the whole of any message."""
    if capture_text:
        return text_of(error)
    return template(text_of(error)) if all(map(is_written_by_library, _chain(error))) else ""


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The exception, and all exceptions that were being handled when it was raised.

    Libraries quote the text of exceptions that they caught in those they raise (torch/fx/interpreter.py quotes a KeyError).
    """
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        each = waiting.pop()
        if each is not None and id(each) not in seen:  # a chain may be circular
            seen.add(id(each))
            waiting += causes_of(each)
            yield each


def _innermost(entry: TracebackType | None) -> tuple[CodeType, int, str] | None:
    """Code, line and module of the frame that raised the exception."""
    if entry is None:
        return None
    while entry.tb_next is not None:
        entry = entry.tb_next
    return entry.tb_frame.f_code, entry.tb_lineno, _module(entry.tb_frame)


def _module(frame: FrameType) -> str:
    name = frame.f_globals.get("__name__")
    return name if type(name) is str else "?"


def _qualified_name(code: CodeType) -> str:
    return getattr(code, "co_qualname", code.co_name)  # Python 3.11 includes the class, 3.10 has only the function
