# SPDX-License-Identifier: Apache-2.0
"""Torch-TensorRT's own observers: `Observer.observe`, through which all observers fire, in any thread."""

from __future__ import annotations

import functools
import sys
import threading
from types import FrameType
from typing import Any

from torchspan import _dynamo_safety
from torchspan._base import reading
from torchspan.adapters.machinery.wrap import WrapperFactory
from torchspan.adapters.observed_functions import Observations
from torchspan.engine import BegunCall, Observed
from torchspan.probes import Target

CALLING = "observed_func"
"""The name of the wrapper that the library makes for a decorated function. It calls `pre.observe` and then `post.observe`."""


class _Calls(threading.local):
    """The calls that have begun in a thread, innermost last, each with the frame of its caller."""

    def __init__(self) -> None:
        self.open: list[tuple[FrameType, BegunCall | None]] = []


def tap_observe(factory: WrapperFactory, observations: Observations, target: Target, original: Any) -> Any:
    """`Observer.observe(*args, **kwargs)`: an occurrence, or the start or the end of a decorated function's call.

    A function may have been decorated before torchspan was instrumented. Its pair of observers fires from one frame, which
    identifies the call. A call without an end (because of an interrupt between the two) is detected once its frame has been left.
    """
    engine, guard = factory.engine, factory.engine.guard
    calls = _Calls()
    module = vars(sys.modules[target.module])

    def begin(frame: FrameType, context: Any) -> None:
        _forget_those_gone(frame)
        call = Observed(context.callable, tuple(context.args), context.kwargs)
        begun = None
        if not _dynamo_safety.is_symbolic((*call.args, *call.kwargs.values())):
            module = reading.text(reading.attribute(call.function, "__module__")) or "?"
            begun = observations.begin(reading.function_name(call.function), module, call)
        calls.open.append((frame, begun))

    def finish(frame: FrameType, context: Any) -> None:
        _forget_those_gone(frame)
        if calls.open and calls.open[-1][0] is frame:
            _, begun = calls.open.pop()
            if begun is not None:
                begun.end(engine, _error_of(frame), context.return_value)

    def _forget_those_gone(frame: FrameType) -> None:
        while calls.open and not _lies_in(frame, calls.open[-1][0]):
            _, begun = calls.open.pop()
            if begun is not None:
                begun.end(engine, None)

    @functools.wraps(original)
    def observed_observe(self: Any, *args: Any, **kwargs: Any) -> Any:
        if _dynamo_safety.is_tracing() or not engine.active or engine.registry.busy.now:
            return original(self, *args, **kwargs)
        frame = sys._getframe(1)
        if frame.f_code.co_name != CALLING or frame.f_globals is not module:
            guard.call("recording an observer", observations.mark, reading.attribute(self, "name"), engine.current)
            return original(self, *args, **kwargs)
        is_pre = guard.call("telling the start of an observed function from its end", _is_pre, frame, self, args)
        if is_pre is None:
            return original(self, *args, **kwargs)
        if is_pre:
            guard.call("recording an observed function", begin, frame, args[0])
            try:
                return original(self, *args, **kwargs)
            except BaseException:  # in this case neither the call nor `post` follows
                guard.finish("recording an observed function", finish, frame, args[0])
                raise
        try:
            return original(self, *args, **kwargs)
        finally:
            guard.finish("recording an observed function", finish, frame, args[0])

    return observed_observe


def _is_pre(frame: FrameType, observer: Any, args: tuple[Any, ...]) -> bool | None:
    """Whether it is the observer before the call, in a frame of the library's wrapper. None without a context to record."""
    return frame.f_locals["observers"].pre is observer if args else None


def _lies_in(frame: FrameType | None, outer: FrameType) -> bool:
    while frame is not None and frame is not outer:
        frame = frame.f_back
    return frame is not None


def _error_of(frame: FrameType) -> BaseException | None:
    """The exception raised by the function that was called in `frame`; not one that its caller is handling."""
    error = sys.exc_info()[1]
    entry = None if error is None else reading.traceback_of(error)
    while entry is not None and entry.tb_frame is not frame:
        entry = entry.tb_next
    return None if entry is None else error
