# SPDX-License-Identifier: Apache-2.0
"""An exception as a span event."""

from __future__ import annotations

from types import CodeType, TracebackType
from typing import Any

from torchspan import semconv
from torchspan._base.privacy import redact

LIBRARIES = ("torch", "torch_tensorrt", "tensorrt", "tensorrt_rtx")
"""Whose messages are templates with values in them. Everybody else's may be nothing but a value."""


def exception_attributes(error: BaseException, *, capture_text: bool) -> dict[str, Any]:
    """What the `exception` event holds: the class, where it was raised, and the message as far as it may be recorded."""
    attributes: dict[str, Any] = {semconv.EXCEPTION_TYPE: semconv.class_name(type(error))}
    origin = _innermost(error.__traceback__)
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
    try:
        text = str(error)
    except Exception:  # the user's exception class may not be printable
        return ""
    if capture_text:
        return text
    return redact(text) if _is_written_by_library(error) else ""


def _is_written_by_library(error: BaseException | None) -> bool:
    """Whether an observed library raised the exception, and every one that it was raised from.

    Libraries quote the text of what they caught in what they raise (torch/fx/interpreter.py does so for a KeyError).
    """
    seen: set[int] = set()
    while error is not None and id(error) not in seen:  # a chain may be a ring
        seen.add(id(error))
        origin = _innermost(error.__traceback__)
        if origin is None or origin[2].partition(".")[0] not in LIBRARIES:
            return False
        error = error.__context__ if error.__cause__ is None else error.__cause__
    return True


def _innermost(entry: TracebackType | None) -> tuple[CodeType, int, str] | None:
    """Code, line and module of the frame that raised."""
    if entry is None:
        return None
    while entry.tb_next is not None:
        entry = entry.tb_next
    frame = entry.tb_frame
    return frame.f_code, entry.tb_lineno, str(frame.f_globals.get("__name__", "?"))


def _qualified_name(code: CodeType) -> str:
    return getattr(code, "co_qualname", code.co_name)  # 3.11 knows the class, 3.10 the function alone
