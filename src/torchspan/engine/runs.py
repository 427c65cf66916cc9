# SPDX-License-Identifier: Apache-2.0
"""What happens to one run of frequent work, mostly of an engine: the decision, and its two extension points.

A `RunPolicy` decides. A `Companion` works alongside the runs that are recorded. A `ParentProbe` reports what surrounds a run. The
writer supplies it, because the parents are spans.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple, Protocol

from torchspan.engine.event import Event
from torchspan.engine.rate_limits import UNREFERABLE_LIMIT, RateLimits
from torchspan.engine.run_tally import RunTally
from torchspan.phase import Phase


# --- what surrounds a run ---------------------------------------------------------------------------------------------
class Surroundings(Enum):
    """What surrounds a run below which nothing is recorded."""

    QUIET = "nothing is recorded here"
    SUPPRESSED = "nothing may be recorded, counted or measured here"


class Parent(Protocol):
    """A recording span around a run."""

    @property
    def trace(self) -> Hashable:
        """Identifies the trace."""

    def tally(self, phase: Phase) -> RunTally:
        """The counter of the runs of `phase` below this span that are not events. The same object for the same span."""


class ParentProbe(Protocol):
    """Reports what surrounds a run.

    context: returns the current context. It is the same object until another one becomes current. So a verdict on it is valid until
    the span in it ends.
    """

    context: Callable[[], Any]

    def look(self, context: Any) -> Parent | Surroundings:
        """What surrounds a run in this context."""

    def is_outside(self, context: Any) -> bool:
        """Whether nothing at all surrounds a run in this context, not even a span that is not recorded."""


# --- what is decided --------------------------------------------------------------------------------------------------
class Verdict(Enum):
    """What happens to a run."""

    PASS = "pass"  # noqa: S105 - no password
    """No event, no count."""
    COUNT = "count"
    """It is counted on the span around it."""
    RECORD = "record"
    """It is an event."""
    FIRST = "first"
    """It is an event, the first run of its object."""


class Decision(NamedTuple):
    """A verdict. until_s: for COUNT, the `time.perf_counter` until which it applies to runs of the same object below the same span."""

    verdict: Verdict
    until_s: float = 0.0


class RunPolicy(Protocol):
    """Decides about runs."""

    def decide(self, runner: Any, parent: Parent | None, *, is_first: bool) -> Decision:
        """What happens to a run of `runner` below `parent`, the recording span around it if there is one."""


class LimitedCalls:
    """The default policy for calls of observed functions. Calls within `limits` are recorded, below a recording span or not.

    A call beyond the limits is counted on the span around it. Without such a span it passes.
    """

    def __init__(self, limits: RateLimits) -> None:
        self._limits = limits

    def decide(self, runner: Any, parent: Parent | None, *, is_first: bool) -> Decision:  # noqa: ARG002 - see `RunPolicy`
        """See `RunPolicy`."""
        until_s = self._limits.refused_until(runner, None if parent is None else parent.trace)
        if until_s is None:
            return Decision(Verdict.RECORD)
        return Decision(Verdict.PASS) if parent is None else Decision(Verdict.COUNT, until_s)


# --- what goes alongside a recorded run ------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class RecordedRun:
    """A run that is an event. runner: the object that runs. inputs: its inputs, empty if they are not arguments."""

    event: Event
    runner: Any
    inputs: Any


class Companion(Protocol):
    """Works alongside recorded runs, inside their events: records shapes, measures time on the device, and similar.

    An exception that it raises is caught and counted like one of a callback.
    """

    def begin(self, run: RecordedRun) -> Any:
        """Called immediately before the run. Returns what `end` receives."""

    def end(self, token: Any, run: RecordedRun) -> None:
        """Called immediately after the run, however it ended. It may add facts to the event, or defer its end."""


class FreshObjects:
    """Objects that have not run since they were made. It keeps none of them alive.

    held: the objects by address. It is mostly empty, and a hot path only tests whether it is.
    """

    def __init__(self) -> None:
        self.held: dict[int, Any] = {}
        self._watchers: list[Callable[[], None]] = []

    def watch(self, watcher: Callable[[], None]) -> None:
        """Call `watcher` when an object has been made: what was known of earlier runs is outdated."""
        self._watchers.append(watcher)

    def add(self, made: Any) -> None:
        """`made` has just been made. Its next run is its first."""
        key = id(made)
        try:
            self.held[key] = weakref.ref(made, lambda _gone: self.held.pop(key, None))
        except TypeError:  # no weak references: if it never runs, a later object at its address may be mistaken for it
            if len(self.held) < UNREFERABLE_LIMIT:
                self.held[key] = None
        for each in self._watchers:
            each()

    def take(self, runner: Any) -> bool:
        """Whether this is the first run of `runner` since it was made. The next call returns False."""
        return self.held.pop(id(runner), self) is not self  # one step: two threads may run it at once
