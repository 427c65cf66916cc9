# SPDX-License-Identifier: Apache-2.0
"""`torchspan.operators`: a block of the program in which operators are recorded."""

from __future__ import annotations

import contextlib
import functools
import inspect
import math
import sys
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from torchspan.base import dynamo_safety
from torchspan.base.logs import Log
from torchspan.engine import RUNNING
from torchspan.hooks.operators._limits import DEPTH, GREATEST_DEPTH, MIN_DURATION_S
from torchspan.words import phase, semconv

if TYPE_CHECKING:
    from typing_extensions import Self

    from torchspan.engine import Engine, Event

logger = Log("torchspan")

P = ParamSpec("P")
R = TypeVar("R")

_AWAITS = inspect.CO_COROUTINE | inspect.CO_ITERABLE_COROUTINE | inspect.CO_ASYNC_GENERATOR


class operators:  # noqa: N801 - it is used as a function is
    """A context manager, and a decorator, for work whose operators are recorded: the span `torchspan.operators`.

        with torchspan.operators(depth=1):
            model(x)

        @torchspan.operators()
        def step(batch): ...

    The operators that run in the block on its thread, and those that autograd and TorchScript run for it on theirs, are spans
    below that span, and its attributes sum them up by name. The sampler decides about the span, and operators are recorded only if
    it is sampled. Nothing is recorded while torchspan is not instrumented, and where the library for it is not built, which is
    one line in the log. An object is used by one thread at a time.

    A block in a coroutine is refused with a line in the log, because other tasks may run at each `await`. Put the synchronous call
    into a function with a block of its own.

    Args:
        depth: How many operators inside each other are recorded, 1 to 255. What runs deeper is part of the operator around it.
        min_duration: Seconds that an operator takes at least to be a span. Shorter ones are only summed up.
        shapes: Record the shapes and data types of the tensors that operators get.

    Raises:
        TypeError: An argument has the wrong type, or a coroutine function or a generator function is decorated.
        ValueError: `depth` or `min_duration` is out of range.
    """

    __slots__ = ("_depth", "_min_duration", "_open", "_shapes")

    def __init__(self, *, depth: int = DEPTH, min_duration: float = MIN_DURATION_S, shapes: bool = False) -> None:
        if type(depth) is not int or type(shapes) is not bool or type(min_duration) not in (int, float):
            raise TypeError(
                "torchspan.operators takes depth (an int), min_duration (seconds) and shapes (a bool), "
                f"not depth={depth!r}, min_duration={min_duration!r}, shapes={shapes!r}"
            )
        if not 1 <= depth <= GREATEST_DEPTH:
            raise ValueError(f"depth must be 1 to {GREATEST_DEPTH}, not {depth}")
        if not (math.isfinite(min_duration) and min_duration >= 0):
            raise ValueError(f"min_duration must be 0 or more seconds, not {min_duration!r}")
        self._depth, self._min_duration, self._shapes = depth, float(min_duration), shapes
        self._open: list[tuple[Engine, Event | None]] = []

    def __enter__(self) -> Self:
        if dynamo_safety.is_tracing():
            return self
        engine = RUNNING.engine
        if engine is not None:
            begun = engine.guard.call("beginning a block of operators", self._begin, engine, sys._getframe(1))
            self._open.append((engine, begun))
        return self

    def _begin(self, engine: Engine, frame: FrameType) -> Event | None:
        if _is_in_coroutine(frame):
            return None
        event: Event | None = dynamo_safety.undisturbed(engine.open, phase.OPERATORS, self._limits())
        return event

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _tb: TracebackType | None
    ) -> None:
        if dynamo_safety.is_tracing() or not self._open:
            return
        engine, event = self._open.pop()
        if event is not None:
            engine.guard.end("ending a block of operators", dynamo_safety.undisturbed, engine.close, event, error)

    def _limits(self) -> dict[str, object]:
        return {
            semconv.OPERATORS_DEPTH: self._depth,
            semconv.OPERATORS_MIN_DURATION: self._min_duration,
            semconv.OPERATORS_SHAPES: self._shapes,
        }

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Decorate a function.

        Args:
            function: Called in a block of its own each time, also in several threads at once.

        Returns:
            The decorated function.

        Raises:
            TypeError: It is a coroutine function or a generator function.
        """
        if kind := _suspended_kind(function):
            raise TypeError(f"torchspan.operators cannot decorate a {kind}; decorate the function that it calls")

        @functools.wraps(function)
        def recorded(*args: P.args, **kwargs: P.kwargs) -> R:
            with operators(depth=self._depth, min_duration=self._min_duration, shapes=self._shapes):
                return function(*args, **kwargs)

        # Dynamo reads the function itself.
        recorded._torchdynamo_inline = function  # type: ignore[attr-defined]
        return recorded


class _Refusal:
    """One line in a process."""

    is_logged = False


def _suspended_kind(function: Callable[..., object]) -> str:
    """The kind of a function whose calls can be suspended; empty for others."""
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        return "coroutine function"
    return "generator function" if inspect.isgeneratorfunction(function) else ""


def _is_in_coroutine(frame: FrameType) -> bool:
    """Whether the block that `frame` enters is that of a coroutine. If so, that is logged once."""
    while frame.f_back is not None and frame.f_globals.get("__name__") == contextlib.__name__:
        frame = frame.f_back
    if not frame.f_code.co_flags & _AWAITS:
        return False
    if not _Refusal.is_logged:
        _Refusal.is_logged = True
        logger.warning(
            "torchspan.operators records nothing in the coroutine %s, because other tasks run at each await. Put the synchronous "
            "call into a function, and decorate that with @torchspan.operators().",
            semconv.identifier(frame.f_code.co_name),
        )
    return True


dynamo_safety.register_with_dynamo()
