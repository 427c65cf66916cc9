# SPDX-License-Identifier: Apache-2.0
"""The hot path: one run of one engine."""

from __future__ import annotations

import functools
import sys
from typing import Any

from torchspan import semconv
from torchspan.adapters._wrap import Wrapping
from torchspan.engine import Runs
from torchspan.probes import Probe
from torchspan.probes.describe import execution

OPERATOR = 1
"""Position of the engine in `execute_engine(inputs, engine)`."""

MODULE = 0
"""Position of the module that is its own engine in `PythonTorchTensorRTModule.forward(self, *inputs)`."""


class Execution:
    """Decides, run by run, whether it becomes an event, is folded into the span around it, or passes unseen."""

    def __init__(self, wrapping: Wrapping, probe: Probe, position: int) -> None:
        self._wrapping = wrapping
        self._engine = wrapping.engine
        self._probe = probe
        self._position = position
        self._runs = Runs()

    def wrap(self, original: Any) -> Any:
        """`original` for the hot path: unless the engine says so, one test more than the bare call."""
        closure = self._engine.hot.closure(self._engine, original, self._observe, self._runs.has_run, self._position)
        if self._position == MODULE:  # a method of a module: Dynamo looks inside, and must find the original there
            closure = _unless_compiling(original, closure)
        return functools.wraps(original)(closure)

    def _observe(self, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if len(args) <= self._position:  # called with names, as the library never does
            return original(*args, **kwargs)
        trt_engine = args[self._position]
        tensors = args[0] if self._position == OPERATOR else args[1:]
        if _is_traced(tensors):
            return original(*args, **kwargs)
        first = self._runs.first(trt_engine)
        key = self._engine.hot.trace()
        if first or (key is not None and self._runs.allow(trt_engine, key)):
            return self._event(original, args, kwargs, trt_engine, tensors, first=first)
        return self._engine.hot.fold(original, args, kwargs)

    def _event(
        self,
        original: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        trt_engine: Any,
        tensors: Any,
        *,
        first: bool,
    ) -> Any:
        facts = dict(self._engine.guard.call("describing a run", execution.execute, trt_engine, tensors) or {})
        facts[semconv.EXECUTE_FIRST] = first
        origin = self._origin(trt_engine)
        event = self._engine.start(self._probe.phases[0], facts, links=() if origin is None else (origin,))
        if event is None:
            return original(*args, **kwargs)
        try:
            result = original(*args, **kwargs)
        except BaseException as error:
            self._engine.finish(event, error)
            raise
        self._engine.finish(event)
        return result

    def _origin(self, trt_engine: Any) -> Any:
        try:
            return self._wrapping.origins.get(trt_engine)
        except TypeError:  # neither hashable nor weakly referable: then it was not remembered either
            return None


def _unless_compiling(original: Any, closure: Any) -> Any:
    """Dynamo takes `is_compiling()` for True while it traces, so `closure` with its context variable is not traced."""
    is_compiling = sys.modules["torch"].compiler.is_compiling

    def observed_forward(*args: Any, **kwargs: Any) -> Any:
        if is_compiling():
            return original(*args, **kwargs)
        return closure(*args, **kwargs)

    return observed_forward


def _is_traced(tensors: Any) -> bool:
    """Whether this is no run but torch.export or Dynamo asking for shapes: with fake tensors, or while compiling."""
    fake = getattr(sys.modules.get("torch._subclasses.fake_tensor"), "FakeTensor", ())
    compiler = getattr(sys.modules.get("torch"), "compiler", None)
    return (compiler is not None and compiler.is_compiling()) or any(isinstance(each, fake) for each in tensors)
