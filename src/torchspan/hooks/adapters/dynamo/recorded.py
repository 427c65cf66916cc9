# SPDX-License-Identifier: Apache-2.0
"""Runs of compiled graphs as events, if a setting enables them.

They may be frequent, so the rules of engine runs apply. Below a recording span, runs within the rate limits are events, and
further runs are counted on that span. Outside every span, the sampler's rules pick the runs that are events.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from torchspan.base import dynamo_safety, reading
from torchspan.engine import Audience, BegunCall, Decisions, Engine, Observed, ObservedRun, Verdict
from torchspan.hooks.adapters.machinery.ports import Ports
from torchspan.words.phase import RUN_GRAPH

Facts = dict[str, Any]


class GraphRecorder:
    """Begins runs of compiled graphs.

    current: the recorder of the process. Graphs look it up here, because they outlive a bridge.
    """

    current: GraphRecorder | None = None

    def __init__(self, engine: Engine, ports: Ports) -> None:
        self.engine = engine
        self._decisions = Decisions(ports.parents, ports.sampling, RUN_GRAPH)
        self._interest = engine.registry.interest(RUN_GRAPH)

    def begin(
        self, function: Any, args: tuple[Any, ...], kwargs: Facts, facts: Facts, links: tuple[Any, ...]
    ) -> BegunCall | None:
        """Begin a run, if it is an event or is counted."""
        engine, event = self.engine, None
        if not engine.active or dynamo_safety.is_symbolic(args):
            return None
        decision = self._decisions.decide(function)
        if decision.verdict is Verdict.SUPPRESS:
            return None
        if decision.verdict is Verdict.RECORD:
            run = ObservedRun(function, args, kwargs, function, args)
            event = engine.open(RUN_GRAPH, facts, links=links, observed=run, pick=decision.pick)
        elif self._interest.countdown is not None:
            call = Observed(function, args, kwargs)
            event = engine.open(RUN_GRAPH, facts, observed=call, audience=Audience.USERS)
        if event is None and decision.tally is None:
            return None
        return BegunCall(event, decision.tally, time.perf_counter())


def record(engine: Engine, ports: Ports) -> Callable[[], None]:
    """Record runs of graphs from now on. Returns the undo."""
    recorder = GraphRecorder.current = GraphRecorder(engine, ports)

    def undo() -> None:
        if GraphRecorder.current is recorder:
            GraphRecorder.current = None

    return undo


def graph(compiled: Any, output_graph: Any, facts: Facts, links: tuple[Any, ...]) -> Any:
    """The result of a backend, with its calls recorded. A graph that PyTorch packages or exports is returned unchanged."""
    if reading.attribute(output_graph, "package") is not None or reading.attribute(output_graph, "export"):
        return compiled
    name, function = f"recording {RUN_GRAPH.name}", _ready(compiled)

    def recorded(*args: Any, **kwargs: Any) -> Any:
        recorder = GraphRecorder.current
        if recorder is None:
            return function(*args, **kwargs)
        engine = recorder.engine
        begun = engine.guard.call(name, recorder.begin, function, args, kwargs, facts, links)
        if begun is None:
            return function(*args, **kwargs)
        try:
            result = function(*args, **kwargs)
        except BaseException as error:
            engine.guard.end(name, begun.end, engine, error)
            raise
        engine.guard.end(name, begun.end, engine, None, result)
        return result

    return recorded


def _ready(compiled: Any) -> Callable[..., Any]:
    """As Dynamo does with the result of a backend: a lazy graph module, which is compiled at its first run, is compiled now."""
    lazy = reading.loaded("torch.fx._lazy_graph_module", "_LazyGraphModule")
    owner = getattr(compiled, "__self__", None)
    if lazy is None or not isinstance(owner, lazy) or compiled.__name__ != "_lazy_forward":
        return compiled  # type: ignore[no-any-return]
    lazy.force_recompile(owner)
    return owner.forward  # type: ignore[no-any-return]


__all__ = ["graph", "record"]
