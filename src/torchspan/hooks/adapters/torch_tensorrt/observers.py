# SPDX-License-Identifier: Apache-2.0
"""Torch-TensorRT's own observers: `Observer.observe`, through which all observers fire, in any thread."""

from __future__ import annotations

import functools
import sys
import threading
from types import FrameType
from typing import Any, NamedTuple

from torchspan.base import dynamo_safety, reading
from torchspan.engine import BegunCall, Observed
from torchspan.hooks.adapters.machinery.around import around
from torchspan.hooks.adapters.machinery.wrap import WrapperFactory, outside
from torchspan.hooks.adapters.observed_functions import Observations
from torchspan.hooks.probes import Target

CALLING = "observed_func"
"""The name of the wrapper that the library makes for a decorated function. It calls `pre.observe` and then `post.observe`."""


class _Firing(NamedTuple):
    """One call of `observe` from the library's wrapper. context: of the call. is_pre: it comes before the call."""

    frame: FrameType
    context: Any
    is_pre: bool


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

    def start(frame: FrameType, context: Any) -> None:
        _forget_those_gone(frame)
        call = Observed(context.callable, tuple(context.args), context.kwargs)
        begun = None
        if not dynamo_safety.is_symbolic((*call.args, *call.kwargs.values())):
            module = reading.text(reading.attribute(call.function, "__module__")) or "?"
            begun = observations.begin_named(reading.function_name(call.function), module, call)
        calls.open.append((frame, begun))

    def finish(frame: FrameType, context: Any) -> None:
        _forget_those_gone(frame)
        if calls.open and calls.open[-1][0] is frame:
            _, begun = calls.open[-1]  # removed at the end: a second attempt continues
            if begun is not None:
                begun.end(engine, _error_of(frame), context.return_value)
            calls.open.pop()

    def _forget_those_gone(frame: FrameType) -> None:
        while calls.open and not _lies_in(frame, calls.open[-1][0]):
            _, begun = calls.open[-1]
            if begun is not None:
                begun.end(engine, None)
            calls.open.pop()

    def begin(args: tuple[Any, ...], _kwargs: dict[str, Any]) -> _Firing | None:
        if not engine.active or engine.registry.busy.now:
            return None
        observer, *contexts = args
        frame = outside(sys._getframe())
        if frame.f_code.co_name != CALLING or frame.f_globals is not module:
            observations.mark(reading.attribute(observer, "name"), engine.current)
            return None
        if not contexts:
            return None
        is_pre = frame.f_locals["observers"].pre is observer
        if is_pre:
            guard.call("recording an observed function", start, frame, contexts[0])
        return _Firing(frame, contexts[0], is_pre)

    def end(firing: _Firing, _result: Any) -> None:
        if not firing.is_pre:
            finish(firing.frame, firing.context)

    def failed(firing: _Firing, _error: BaseException) -> None:
        finish(firing.frame, firing.context)  # if `pre` raised, neither the call nor `post` follows

    observed = around(guard, "recording an observer", original, begin, end, failed)

    @functools.wraps(original)
    def observed_observe(self: Any, *args: Any, **kwargs: Any) -> Any:
        if dynamo_safety.is_tracing():
            return original(self, *args, **kwargs)
        return observed(self, *args, **kwargs)

    return observed_observe


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
