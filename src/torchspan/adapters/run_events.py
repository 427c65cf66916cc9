# SPDX-License-Identifier: Apache-2.0
"""The events of engine runs. `torchspan.adapters.engine_runs` decides which runs have one."""

from __future__ import annotations

from typing import Any, NamedTuple

from torchspan import semconv
from torchspan._base.by_identity import ByIdentity
from torchspan._base.errors import guarded
from torchspan.adapters.machinery.ports import Ports
from torchspan.adapters.machinery.wrap import WrapperFactory
from torchspan.engine import Accompanied, Anchor, Audience, Companions, Decision, Event, Observed, Pick, RecordedRun
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


class RunEvent(NamedTuple):
    """A run that has begun, and its event.

    Attributes:
        recorded: What companions of the run get; None without companions.
        accompanied: What they returned.
    """

    call: RunCall
    event: Event
    recorded: RecordedRun | None = None
    accompanied: Accompanied | None = None


class RunEvents:
    """Makes runs of one observed function events."""

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

    def begin(self, call: RunCall, decision: Decision) -> RunEvent | None:
        """Begin a run that is an event."""
        event = self._open(call, is_first=decision.is_first, pick=decision.pick)
        if event is None:
            return None
        try:
            if not self._companions:
                return RunEvent(call, event)
            run = RecordedRun(event, call.runner, call.inputs)
            return RunEvent(call, event, run, self._companions.begin(run))
        except BaseException as interrupt:
            self._engine.close(event, interrupt)
            raise

    def begin_for_callbacks(self, call: RunCall) -> RunEvent | None:
        """Begin a run that is an event for user callbacks alone, if one of them wants it."""
        event = self._open(call, audience=Audience.SUBSCRIBERS)
        return None if event is None else RunEvent(call, event)

    def end(self, begun: RunEvent, result: Any, error: BaseException | None = None) -> None:
        """The run has returned, or raised the error."""
        try:
            if begun.recorded is not None and begun.accompanied is not None:
                self._companions.end(begun.accompanied, begun.recorded)
        finally:
            call = Call(None, begun.call.args, begun.call.kwargs)
            if error is None:
                self._factory.close(self._target, self._record, call, begun.event, result)
            else:
                self._factory.close_failed(self._target, self._record, call, begun.event, error)

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
