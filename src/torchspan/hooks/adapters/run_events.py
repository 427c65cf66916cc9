# SPDX-License-Identifier: Apache-2.0
"""The events of engine runs. `torchspan.hooks.adapters.engine_runs` decides which runs have one."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

from torchspan.base.by_identity import ByIdentity
from torchspan.engine import Anchor, Audience, Decision, Event, Observed, ObservedRun, Pick
from torchspan.hooks.adapters.machinery.ports import Ports
from torchspan.hooks.adapters.machinery.wrap import WrapperFactory
from torchspan.hooks.probes import Call, Runs, Target
from torchspan.hooks.probes.describe.common import without_none
from torchspan.words import semconv


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
    """Makes runs of one observed function events."""

    def __init__(self, factory: WrapperFactory, ports: Ports, target: Target, action: Runs, function: Any) -> None:
        self._factory = factory
        self._engine = factory.engine
        self._ports = ports
        self._target = target
        self._action = action
        self._function = function
        self._shapes = ByIdentity[list[str]]()
        """Engine -> the input shapes of its last recorded run."""

    def begin(self, call: RunCall, decision: Decision) -> Event | None:
        """Begin a run that is an event."""
        observed = ObservedRun(self._function, call.args, call.kwargs, call.runner, call.inputs)
        return self._open(call, observed, is_first=decision.is_first, pick=decision.pick)

    def begin_for_callbacks(self, call: RunCall) -> Event | None:
        """Begin a run that is an event for user callbacks alone, if one of them wants it."""
        return self._open(call, self._observed(call), audience=Audience.USERS)

    def end(self, call: RunCall, event: Event, result: Any, error: BaseException | None = None) -> None:
        """The run has returned, or raised the error."""
        described = Call(None, call.args, call.kwargs)
        describe = None if error is not None else partial(self._described, described, event, result)
        self._engine.close(event, error, result, describe=describe)

    def _described(self, call: Call, event: Event, result: Any) -> None:
        self._factory.add_end(self._target, self._action.end, call, event, result)

    def add_failed(self, call: RunCall, duration_s: float, error: BaseException) -> bool:
        """Record a run that has failed. Returns whether it became an event."""
        pick = self._ports.sampling.failed(call.runner)
        if pick is None:
            return False
        at_ns = Anchor().now_ns() - round(duration_s * 1e9)
        event = self._open(call, self._observed(call), audience=Audience.LISTENERS, pick=pick, at_ns=at_ns)
        if event is not None:
            self._engine.close(event, error)
        return event is not None

    def _observed(self, call: RunCall) -> Observed:
        return Observed(self._function, call.args, call.kwargs)

    def _open(
        self, call: RunCall, observed: Observed, *, is_first: bool = False, pick: Pick | None = None, **how: Any
    ) -> Event | None:
        facts = self._facts(call, is_first)
        origin = self._factory.provenance.origin(call.runner)
        return self._engine.open(
            self._action.phase,
            facts,
            links=() if origin is None else (origin,),
            observed=observed,
            pick=pick,
            **how,
        )

    def _facts(self, call: RunCall, is_first: bool) -> dict[str, Any]:
        facts, describe = self._factory.fixed_facts(self._action.phase), self._action.describe
        described = self._engine.guard.call("describing a run", describe, call.runner, call.inputs, is_first)
        facts.update(without_none(described or {}))
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
