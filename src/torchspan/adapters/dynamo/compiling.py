# SPDX-License-Identifier: Apache-2.0
"""State of Dynamo while it compiles a frame, which it reports only at the end or not at all."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import Any, NamedTuple

from torchspan._base import reading
from torchspan._base.reading import traceback_of

_DEPTH = 16
"""Maximum number of Python frames between torchspan's and the function that compiles a frame; ten in torch 2.14."""


class Compiling(NamedTuple):
    """The frame that is being compiled.

    code: None if this version of PyTorch does not expose it. receiver: the class of its first argument. is_whole: whether a graph break is an error (`fullgraph=True`).
    """

    code: CodeType | None = None
    receiver: type | None = None
    is_whole: bool = False


def compiling() -> Compiling:
    """The frame that the innermost call of Dynamo's `_compile` in this thread compiles."""
    for frame in _outwards():
        if frame.f_code.co_name == "_compile" and _module(frame) == "torch._dynamo.convert_frame":
            given = frame.f_locals
            code = given.get("code")
            return Compiling(
                code if type(code) is CodeType else None,
                _receiver(given.get("locals")),
                is_whole=given.get("one_graph") is True,
            )
    return Compiling()


def _receiver(variables: Any) -> type | None:
    """The class of `self` among the variables of a method, or of the first of `*args` of a decorator's function."""
    if type(variables) is not dict:
        return None
    if "self" in variables:
        return type(variables["self"])
    args = variables.get("args")
    return type(args[0]) if type(args) is tuple and args else None


def raised() -> BaseException | None:
    """The exception with which the reported phase ends; not one that the program was handling before.

    The exception is thrown into the context manager that reports (`dynamo_timed`), so its traceback begins there. An exception with
    which Dynamo begins its own analysis again (torch/_dynamo/exc.py: `RestartAnalysis`) is not an error: the frame is compiled.
    """
    error = sys.exc_info()[1]
    if reading.is_a(error, reading.loaded("torch._dynamo.exc", "RestartAnalysis")):
        return None
    entry = None if error is None else traceback_of(error)
    if entry is None or _module(entry.tb_frame) != "torch._dynamo.utils":
        return None
    return error if any(outward is entry.tb_frame for outward in _outwards()) else None


def context() -> Any:
    """The object that represents the current compilation. A backward graph has the object of its forward frame."""
    kind = reading.loaded("torch._guards", "CompileContext")
    return None if kind is None else kind.try_get()


def suppresses_errors() -> bool:
    """Whether Dynamo is configured to run frames eagerly that it fails to compile (`torch._dynamo.config.suppress_errors`)."""
    return getattr(sys.modules.get("torch._dynamo.config"), "suppress_errors", False) is True


def _outwards() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(2)
    for _ in range(_DEPTH):
        if frame is None:
            return
        yield frame
        frame = frame.f_back


def _module(frame: FrameType) -> Any:
    return frame.f_globals.get("__name__")
