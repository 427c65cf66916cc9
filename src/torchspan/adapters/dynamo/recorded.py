# SPDX-License-Identifier: Apache-2.0
"""Calls at run time as events, if a setting enables them: of compiled graphs, and of functions excluded from compilation.

Such calls may be frequent, so the rules of engine runs apply. Below a recording span, calls within the rate limits are events, and
further calls are counted on that span. Outside every span, the sampler's rules pick the calls that are events.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from types import FunctionType
from typing import Any

from torchspan import _dynamo_safety
from torchspan._base import reading
from torchspan._base.patching import Patches
from torchspan.adapters.machinery.ports import Ports
from torchspan.engine import Audience, BegunCall, Decisions, Engine, Observed, Verdict
from torchspan.phase import RUN_DISABLED, RUN_GRAPH, Phase
from torchspan.probes.describe import frames

Facts = dict[str, Any]


class _Recorder:
    """Begins calls of one phase."""

    def __init__(self, engine: Engine, ports: Ports, phase: Phase) -> None:
        self.engine = engine
        self._phase = phase
        self._decisions = Decisions(ports.parents, ports.sampling, phase)
        self._interest = engine.registry.interest(phase)

    def begin(self, call: Observed, facts: Facts, links: tuple[Any, ...]) -> BegunCall | None:
        """Begin a call, if it is an event or is counted."""
        engine, event = self.engine, None
        if not engine.active or _dynamo_safety.is_symbolic(call.args):
            return None
        decision = self._decisions.decide(call.function)
        if decision.verdict is Verdict.SUPPRESS:
            return None
        if decision.verdict is Verdict.RECORD:
            event = engine.open(self._phase, facts, links=links, observed=call, pick=decision.pick)
        elif self._interest.countdown is not None:
            event = engine.open(self._phase, facts, observed=call, audience=Audience.SUBSCRIBERS)
        if event is None and decision.tally is None:
            return None
        return BegunCall(event, decision.tally, time.perf_counter())


_RECORDERS: dict[Phase, _Recorder] = {}
"""The current recorders. Wrappers look them up here, because a graph or a function outlives a bridge."""


def _recording(phase: Phase, function: Callable[..., Any], facts: Facts, links: tuple[Any, ...]) -> Callable[..., Any]:
    """The function, with its calls as events of `phase` while calls are recorded."""
    name = f"recording {phase.name}"

    def recorded(*args: Any, **kwargs: Any) -> Any:
        recorder = _RECORDERS.get(phase)
        if recorder is None:
            return function(*args, **kwargs)
        engine = recorder.engine
        begun = engine.guard.call(name, recorder.begin, Observed(function, args, kwargs), facts, links)
        if begun is None:
            return function(*args, **kwargs)
        try:
            result = function(*args, **kwargs)
        except BaseException as error:
            engine.guard.finish(name, begun.end, engine, error)
            raise
        engine.guard.finish(name, begun.end, engine, None, result)
        return result

    return recorded


def record(engine: Engine, ports: Ports, phase: Phase) -> Callable[[], None]:
    """Record the calls of `phase` from now on. Returns the undo."""
    recorder = _RECORDERS[phase] = _Recorder(engine, ports, phase)

    def undo() -> None:
        if _RECORDERS.get(phase) is recorder:
            del _RECORDERS[phase]

    return undo


# --- compiled graphs --------------------------------------------------------------------------------------------------
def graph(compiled: Any, output_graph: Any, facts: Facts, links: tuple[Any, ...]) -> Any:
    """The result of a backend, with its calls recorded. A graph that PyTorch packages or exports is returned unchanged."""
    if reading.attribute(output_graph, "package") is not None or reading.attribute(output_graph, "export"):
        return compiled
    return _recording(RUN_GRAPH, _ready(compiled), facts, links)


def _ready(compiled: Any) -> Callable[..., Any]:
    """Like Dynamo with the result of a backend: a lazy graph module, which is compiled at its first run, is compiled now."""
    lazy = reading.loaded("torch.fx._lazy_graph_module", "_LazyGraphModule")
    owner = getattr(compiled, "__self__", None)
    if lazy is None or not isinstance(owner, lazy) or compiled.__name__ != "_lazy_forward":
        return compiled  # type: ignore[no-any-return]
    lazy.force_recompile(owner)
    return owner.forward  # type: ignore[no-any-return]


# --- functions that `torch.compiler.disable` leaves out ----------------------------------------------------------------
def watch_disabled(patches: Patches) -> None:
    """Record the calls of each function of the program that is disabled from now on."""
    context = reading.loaded("torch._dynamo.eval_frame", "DisableContext")
    innermost = reading.loaded("torch._dynamo.eval_frame", "innermost_fn")
    skip = reading.loaded("torch._dynamo.eval_frame", "skip_code")
    if context is None or innermost is None or skip is None:
        return

    def wrap(original: Any) -> Any:
        @functools.wraps(original)
        def disabling(self: Any, function: Any) -> Any:
            inner = innermost(function)
            if not _is_programs(inner):
                return original(self, function)
            observed = functools.wraps(inner)(
                _recording(RUN_DISABLED, inner, dict(frames.function(inner.__code__)), ())
            )
            disabled = original(self, observed)
            disabled._torchdynamo_orig_callable = inner  # Dynamo and other decorators read it
            if hasattr(disabled, "__wrapped__"):
                disabled.__wrapped__ = inner
            return disabled

        # Dynamo also calls it between graphs, where it would compile these functions.
        for function in (disabling, _is_programs, _recording):
            skip(reading.attribute(function, "__code__"))
        return disabling

    patches.replace_attribute(context, "__call__", wrap)


def _is_programs(function: Any) -> bool:
    if type(function) is not FunctionType:
        return False
    return (reading.text(function.__module__) or "").partition(".")[0] not in reading.LIBRARIES


__all__ = ["graph", "record", "watch_disabled"]
