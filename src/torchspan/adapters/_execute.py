# SPDX-License-Identifier: Apache-2.0
"""The hot path: one run of one engine."""

from __future__ import annotations

import functools
import sys
import time
from enum import Enum
from types import FunctionType
from typing import Any

from torchspan import semconv
from torchspan.adapters._caller import is_called_by
from torchspan.adapters._wrap import Wrapping
from torchspan.engine import HotPath
from torchspan.probes import Call, Probe
from torchspan.probes.describe import execution


class _Due(Enum):
    """What a run becomes: the event of an engine's first run, an event, or a count on the span around it."""

    FIRST = "first"
    EVENT = "event"
    COUNT = "count"


class Execution:
    """Decides, run by run, whether it becomes an event, is folded into the span around it, or passes unseen."""

    def __init__(self, wrapping: Wrapping, probe: Probe, hot: HotPath) -> None:
        self._wrapping = wrapping
        self._engine = wrapping.engine
        self._probe = probe
        self._phase = probe.phases[0]
        self._hot = hot

    def wrap_operator(self, original: Any) -> Any:
        """`execute_engine(input_tensors, engine)`: where nobody wants to know, little more than the bare call."""
        closure, switch_off = self._hot.closure(
            original,
            lambda args, kwargs: self._observe(original, args, kwargs, args[1], args[0]),
            self._wrapping.runs.fresh,
        )
        self._engine.at_close(switch_off)
        return functools.wraps(original)(closure)

    def wrap_module(self, original: Any) -> Any:
        """`forward(self, *inputs)` of a module that runs its engine itself.

        Dynamo looks inside, and must find the original there: it takes `is_compiling()` for True while it traces.
        """
        is_compiling = sys.modules["torch"].compiler.is_compiling

        @functools.wraps(original)
        def observed_forward(*args: Any, **kwargs: Any) -> Any:
            if is_compiling() or not args or not self._engine.active:
                return original(*args, **kwargs)
            if not self._wrapping.runs.fresh and not self._hot.is_wanted():
                return original(*args, **kwargs)
            return self._observe(original, args, kwargs, args[0], args[1:])

        return observed_forward

    def wrap_context(self, original: Any) -> Any:
        """`execute_async_v3(self, stream_handle)` of an execution context, unless the row's library calls it.

        Who calls is asked only where a run is to become something.
        """
        library, parameters = self._probe.told_by, self._probe.parameters
        if parameters is None:
            raise ValueError(f"{self._probe.target} runs contexts and does not say what its arguments are called")

        def observe(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            if is_called_by(library, sys._getframe(2)):  # above this and the closure
                return original(*args, **kwargs)
            return self._observe(original, args, kwargs, args[0], ())

        closure, switch_off = self._hot.closure(original, observe, self._wrapping.runs.fresh)
        self._engine.at_close(switch_off)
        return functools.wraps(original)(_with_parameters(closure, parameters))

    def _observe(
        self, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any], trt_engine: Any, tensors: Any
    ) -> Any:
        due = self._engine.guard.call("deciding about a run", self._due, trt_engine, tensors)
        if due is None:
            return original(*args, **kwargs)
        if due is not _Due.COUNT:
            return self._event(original, args, kwargs, trt_engine, tensors, first=due is _Due.FIRST)
        start = time.perf_counter()
        result = original(*args, **kwargs)
        self._engine.guard.call("counting a run", self._hot.count, time.perf_counter() - start, self._phase)
        return result

    def _due(self, trt_engine: Any, tensors: Any) -> _Due | None:
        """What the run is to become; None for nothing."""
        if _is_traced(tensors):
            return None
        runs, trace = self._wrapping.runs, self._hot.trace()
        if runs.first(trt_engine):
            return _Due.FIRST
        if trace is None:
            return None
        return _Due.EVENT if runs.allow(trt_engine, trace) else _Due.COUNT

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
        describe = execution.RUNS[self._phase]
        described = self._engine.guard.call("describing a run", describe, trt_engine, tensors, first)
        facts = {**self._wrapping.fixed_facts(self._phase), **(described or {})}
        identity = self._wrapping.ids.get(trt_engine)
        if identity is not None:
            facts[semconv.ENGINE_ID] = identity
        origin = self._wrapping.origin(trt_engine)
        event = self._engine.start(self._phase, facts, links=() if origin is None else (origin,))
        if event is None:
            return original(*args, **kwargs)
        return self._wrapping.run(self._probe, original, Call(None, args, kwargs), event)


def _with_parameters(function: FunctionType, names: tuple[str, str]) -> FunctionType:
    """The same function with other names for its two parameters: callers may pass arguments by name."""
    code = function.__code__
    renamed = code.replace(co_varnames=(*names, *code.co_varnames[2:]))
    return FunctionType(renamed, function.__globals__, function.__name__, None, function.__closure__)


def _is_traced(tensors: Any) -> bool:
    """Whether this is no run but torch.export or Dynamo asking for shapes: with fake tensors, or while compiling."""
    fake = getattr(sys.modules.get("torch._subclasses.fake_tensor"), "FakeTensor", ())
    compiler = getattr(sys.modules.get("torch"), "compiler", None)
    return (compiler is not None and compiler.is_compiling()) or any(isinstance(each, fake) for each in tensors)
