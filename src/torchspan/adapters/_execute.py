# SPDX-License-Identifier: Apache-2.0
"""The hot path: one run of one engine."""

from __future__ import annotations

import functools
import sys
import time
from enum import Enum
from typing import Any

from torchspan import semconv
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
        self._engine.guard.call("counting a run", self._hot.count, time.perf_counter() - start)
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
        facts = dict(self._engine.guard.call("describing a run", execution.execute, trt_engine, tensors) or {})
        facts[semconv.EXECUTE_FIRST] = first
        identity = self._wrapping.ids.get(trt_engine)
        if identity is not None:
            facts[semconv.ENGINE_ID] = identity
        origin = self._wrapping.origin(trt_engine)
        event = self._engine.start(self._probe.phases[0], facts, links=() if origin is None else (origin,))
        if event is None:
            return original(*args, **kwargs)
        return self._wrapping.run(self._probe, original, Call(None, args, kwargs), event)


def _is_traced(tensors: Any) -> bool:
    """Whether this is no run but torch.export or Dynamo asking for shapes: with fake tensors, or while compiling."""
    fake = getattr(sys.modules.get("torch._subclasses.fake_tensor"), "FakeTensor", ())
    compiler = getattr(sys.modules.get("torch"), "compiler", None)
    return (compiler is not None and compiler.is_compiling()) or any(isinstance(each, fake) for each in tensors)
