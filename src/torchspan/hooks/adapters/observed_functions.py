# SPDX-License-Identifier: Apache-2.0
"""Observed functions and observers: calls as events, points in time as occurrences."""

from __future__ import annotations

import time
from types import CodeType, SimpleNamespace
from typing import Any, NamedTuple

from torchspan.base.reading import IDENTIFIER_LIMIT, attribute
from torchspan.base.scratch import Key
from torchspan.engine import (
    CURRENT,
    DETACHED,
    BegunCall,
    Decisions,
    Engine,
    Event,
    Observed,
    Occurrence,
    Verdict,
)
from torchspan.hooks.adapters.machinery.ports import Ports
from torchspan.words import semconv
from torchspan.words.phase import OBSERVED

LIBRARY = "torchspan.observers"

NAMES_LIMIT = 500
"""Number of functions whose names are targets of events. The events of further functions have no target."""

POINTS_LIMIT = 20
"""Maximum number of different observers on one event. Further ones are counted."""

_KEPT: Key[dict[str, dict[str, Any]]] = Key("observers")


class Observations:
    """Decides whether a call of an observed function is an event or is counted, and records observers that fire.

    Inside a compilation, an export or a build, each call is an event, up to the trace's limit of spans. Elsewhere a function
    may run often, so it has at most ten events a second and fifty in a trace. Further calls are counted on the span around them.

    It is the recorder of this process (`torchspan.engine.subscribers.recording.Recorder`).
    """

    def __init__(self, engine: Engine, ports: Ports) -> None:
        self._engine = engine
        self.guard = engine.guard
        self._ports = ports
        self._decisions = Decisions(ports.parents, ports.call_policy, OBSERVED)
        self._names: set[str] = set()

    # --- calls ------------------------------------------------------------------------------------------------
    def begin(self, site: Any, call: Observed, resumes: bool) -> BegunCall | None:
        """See `Recorder`."""
        known = site.recorded_as
        if known is None or known.by is not self:
            known = site.recorded_as = self._known(site.name, site.module, call.function)
        engine = self._engine
        if not engine.active or engine.registry.busy.now:
            return None
        if engine.peek() is None or not _is_rare(engine.innermost_open()):
            decision = self._decisions.decide(call.function)
            if decision.verdict is not Verdict.RECORD:
                tally = decision.tally
                return None if tally is None else BegunCall(None, tally, time.perf_counter())
        placement = DETACHED if resumes else CURRENT
        event = engine.open(OBSERVED, known.facts, target=known.target, placement=placement, observed=call)
        return None if event is None else BegunCall(event)

    def end(self, begun: BegunCall, error: BaseException | None, result: Any) -> None:
        """See `Recorder`."""
        begun.end(self._engine, error, result)

    def missed(self) -> None:
        """Count a call that is not recorded, unless it is one of a callback of the user."""
        self._engine.is_missed()

    def begin_named(self, name: str, module: str, call: Observed) -> BegunCall | None:
        """Begin a call of a function that another library observes."""
        return self.begin(SimpleNamespace(name=name, module=module, recorded_as=None), call, resumes=False)

    def _known(self, name: str, module: str, function: Any) -> _Function:
        name = semconv.identifier(name)
        facts: dict[str, Any] = {semconv.CODE_FUNCTION: f"{semconv.identifier(module)}.{name}"}
        if type(code := attribute(function, "__code__")) is CodeType:
            self._engine.wraps_with(code)  # its frame in a traceback shows that the exception passed the call
        if name not in self._names and len(self._names) < NAMES_LIMIT and len(name) <= IDENTIFIER_LIMIT:
            self._names.add(name)
        return _Function(self, facts, name if name in self._names else None)

    # --- points in time ---------------------------------------------------------------------------------------
    def mark(self, name: Any, event: Event | None) -> None:
        """Record that the observer `name` fired: one occurrence in `event` with a count, or without an event on the user's span."""
        name = semconv.identifier(name)
        if event is None:
            facts: dict[str, Any] = {semconv.OBSERVER_NAME: name, semconv.OBSERVER_COUNT: 1}
            self._ports.annotate_current(semconv.OBSERVER_EVENT, {}, facts)
            return
        kept = event.scratch.setdefault(_KEPT, {})
        if name in kept:
            kept[name][semconv.OBSERVER_COUNT] += 1
        elif len(kept) < POINTS_LIMIT:
            kept[name] = {semconv.OBSERVER_NAME: name, semconv.OBSERVER_COUNT: 1}
            event.occurrences.append(Occurrence(semconv.OBSERVER_EVENT, event.anchor.now_ns(), kept[name]))
        else:
            event.additions[semconv.OBSERVERS_OMITTED] = event.additions.get(semconv.OBSERVERS_OMITTED, 0) + 1

    def fired(self, observer: Any) -> None:
        """See `Recorder`."""
        self._engine.guard.call("recording observers", self._mark, observer)

    def _mark(self, observer: Any) -> None:
        self.mark(observer.name, self._engine.innermost_open())


class _Function(NamedTuple):
    """An observed function: who has looked at it, and the facts and the target of its events."""

    by: Observations
    facts: dict[str, Any]
    target: str | None


def _is_rare(event: Event | None) -> bool:
    """Whether `event` is, or is inside, work that is worth keeping at any sampling rate."""
    while event is not None and not event.phase.keep:
        event = event.parent
    return event is not None
