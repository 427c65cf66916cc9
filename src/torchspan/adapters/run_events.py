# SPDX-License-Identifier: Apache-2.0
"""The events of engine runs. `torchspan.adapters.engine_runs` decides which runs have one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from torchspan import semconv
from torchspan._base.by_identity import ByIdentity
from torchspan._base.errors import guarded
from torchspan.adapters.machinery.ports import Ports
from torchspan.adapters.machinery.wrap import WrapperFactory
from torchspan.engine import Anchor, Audience, Companions, Decision, Event, Observed, Pick, RecordedRun
from torchspan.probes import Call, Record, Runs, Target


class RunCall(NamedTuple):
    """A call of the observed function, which is a run.

    Attributes:
        runner: The object that runs.
        inputs: Its inputs, empty if they are not arguments.
        args, kwargs: The arguments of the call.
    """

    runner: Any
    inputs: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class RunEvents:
    """Makes runs of one observed function as events."""

    def __init__(self, factory: WrapperFactory, ports: Ports, target: Target, action: Runs, function: Any) -> None:
        self._factory = factory
        self._engine = factory.engine
        self._ports = ports
        self._companions = Companions(factory.engine.guard, ports.companions)
        self._target = target
        self._action = action
        self._record = Record(action.phase, end=action.end)
        self._function = function
        self._shapes = ByIdentity[list[str]]()
        """Engine -> the input shapes of its last recorded run."""

    def run(self, call: RunCall, decision: Decision) -> Any:
        """Make a run that is an event."""
        event = self._open(call, is_first=decision.is_first, pick=decision.pick)
        if event is None:
            return self._function(*call.args, **call.kwargs)
        run = self._accompanied(RecordedRun(event, call.runner, call.inputs)) if self._companions else self._function
        return self._run_in(event, run, call)

    def run_for_callbacks(self, run: Callable[[], Any], call: RunCall) -> Any:
        """Make a run by `run`, with an event for user callbacks alone if one of them wants the run."""
        event = self._open(call, audience=Audience.SUBSCRIBERS)
        return run() if event is None else self._run_in(event, lambda *_args, **_kwargs: run(), call)

    def add_failed(self, call: RunCall, duration_s: float, error: BaseException) -> bool:
        """Record a run that has failed. Returns whether it became an event."""
        pick = self._ports.sampling.failed(call.runner)
        if pick is None:
            return False
        at_ns = Anchor().now_ns() - round(duration_s * 1e9)
        event = self._open(call, audience=Audience.PIPELINE, pick=pick, at_ns=at_ns)
        if event is not None:
            self._engine.close(event, error)
        return event is not None

    def _run_in(self, event: Event, run: Callable[..., Any], call: RunCall) -> Any:
        return self._factory.run(self._target, self._record, run, Call(None, call.args, call.kwargs), event)

    def _accompanied(self, recorded: RecordedRun) -> Callable[..., Any]:
        function, companions = self._function, self._companions

        def run(*args: Any, **kwargs: Any) -> Any:
            accompanied = companions.begin(recorded)
            try:
                return function(*args, **kwargs)
            finally:
                companions.end(accompanied, recorded)

        return run

    def _open(self, call: RunCall, *, is_first: bool = False, pick: Pick | None = None, **how: Any) -> Event | None:
        facts = self._facts(call, is_first) or {}
        origin = self._factory.provenance.origin(call.runner)
        return self._engine.open(
            self._action.phase,
            facts,
            links=() if origin is None else (origin,),
            observed=Observed(self._function, call.args, call.kwargs),
            pick=pick,
            **how,
        )

    @guarded("opening the event of a run")
    def _facts(self, call: RunCall, is_first: bool) -> dict[str, Any]:
        facts, describe = self._factory.fixed_facts(self._action.phase), self._action.describe
        described = self._engine.guard.call("describing a run", describe, call.runner, call.inputs, is_first)
        facts.update(described or {})
        facts.update(self._factory.provenance.names.get(call.runner) or {})
        identity = self._factory.provenance.ids.get(call.runner)
        if identity is not None:
            facts[semconv.ENGINE_ID] = identity
        shapes, before = facts.get(semconv.INPUT_SHAPES), self._shapes.get(call.runner)
        if shapes is not None and shapes != before:
            self._shapes[call.runner] = shapes
            if before is not None:
                facts[semconv.EXECUTE_SHAPES_CHANGED] = True
        return facts
