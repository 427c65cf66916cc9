# SPDX-License-Identifier: Apache-2.0
"""Where in the code a dimension became a constant while a model was exported.

A program says that a size is a constant. The place is known at the moment when PyTorch decides so, in
`ShapeEnv._set_replacement`, which is replaced for as long as an export runs.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from torchspan._base import source_places
from torchspan._base.forks import renewed
from torchspan._base.patching import Patches


class Specializations:
    """A context manager that keeps the places of one thread."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self._places: dict[tuple[int, str], str] = {}
        self._seen: dict[int, Any] = {}  # keeps each ShapeEnv alive, so that no other one gets its id

    def __enter__(self) -> None:
        _WATCH.add(self)

    def __exit__(self, *_error: object) -> None:
        _WATCH.remove(self)

    def place(self, shape_env: Any, symbol: Any) -> str | None:
        """Where a symbol of a `ShapeEnv` became a constant, as `app.py, line 12, in forward`; None where it is not known."""
        return self._places.get((id(shape_env), str(symbol)))

    def note(self, shape_env: Any, symbol: Any, frame: FrameType | None) -> None:
        """A symbol becomes a constant in this frame."""
        if threading.get_ident() != self._thread:
            return
        key = id(shape_env), str(symbol)
        if key in self._places:
            return
        with contextlib.suppress(Exception):  # the export continues without the place
            place = _place(frame)
            if place is not None:
                self._seen[id(shape_env)] = shape_env
                self._places[key] = place


class _Watch:
    """The exports that are running. `ShapeEnv._set_replacement` is replaced while there are any."""

    def __init__(self) -> None:
        self._lock = renewed(self, "_lock", threading.Lock)
        self._patches: Patches | None = None
        self.running: tuple[Specializations, ...] = ()

    def add(self, specializations: Specializations) -> None:
        from torch.fx.experimental.symbolic_shapes import ShapeEnv

        with self._lock:
            self.running = (*self.running, specializations)
            if self._patches is None and "_set_replacement" in vars(ShapeEnv):
                self._patches = Patches("torch")
                self._patches.replace_attribute(ShapeEnv, "_set_replacement", _noticing)

    def remove(self, specializations: Specializations) -> None:
        with self._lock:
            self.running = tuple(other for other in self.running if other is not specializations)
            if not self.running and self._patches is not None:
                self._patches.undo()
                self._patches = None


_WATCH = _Watch()


def _noticing(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def set_replacement(shape_env: Any, symbol: Any, target: Any, *args: Any, **kwargs: Any) -> Any:
        if getattr(target, "is_number", False):
            for running in _WATCH.running:
                running.note(shape_env, symbol, sys._getframe(1))
        return original(shape_env, symbol, target, *args, **kwargs)

    return set_replacement


def _place(frame: FrameType | None) -> str | None:
    """The innermost place that is in the program's code; None where there is none."""
    from torch._guards import TracingContext

    traced = TracingContext.extract_stack()  # where Dynamo is: it runs no frame of the program
    if traced:
        return _text(traced[-1].filename, traced[-1].lineno, traced[-1].name)
    while frame is not None:
        if frame.f_code.co_filename[:1] != "<" and _is_of_program(frame.f_globals.get("__name__")):
            return _text(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
        frame = frame.f_back
    return None


def _is_of_program(module: object) -> bool:
    return type(module) is str and module.partition(".")[0] not in _LIBRARIES


def _text(file: str, line: int | None, function: str) -> str:
    return f"{source_places.reduced(file)}, line {line}, in {function}"


_LIBRARIES = frozenset({"contextlib", "functools", "sympy", "torch", "torchspan"})
