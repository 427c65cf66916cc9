# SPDX-License-Identifier: Apache-2.0
"""What happens to one call of frequent work: the decision, which engine runs, graph runs and observed functions share.

`Decisions` makes it, from what surrounds the call (`ParentProbe`) and a policy (`RunPolicy`). The writer supplies the
`ParentProbe`, because the parents are spans.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from enum import Enum, auto
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from torchspan.base.by_identity import ByIdentity
from torchspan.engine.event import Event
from torchspan.engine.rate_limits import RateLimits
from torchspan.engine.run_tally import RunTally
from torchspan.words.phase import Phase

if TYPE_CHECKING:
    from torchspan.engine.dispatch import Engine


# --- what surrounds a run ---------------------------------------------------------------------------------------------
class Surroundings(Enum):
    """What surrounds a run below which nothing is recorded."""

    OUTSIDE = auto()
    """Nothing, not even a span that does not record."""
    UNRECORDED = auto()
    """A span that does not record."""
    SUPPRESSED = auto()
    """Nothing may be recorded, counted or measured here."""


class Parent(Protocol):
    """A recording span around a run."""

    @property
    def trace(self) -> Hashable:
        """Identifies the trace."""

    def tally(self, phase: Phase) -> RunTally:
        """The counter of the runs of `phase` below this span that are not events. The same object for the same span."""


Around = Parent | Surroundings


class ParentProbe(Protocol):
    """Reports what surrounds a run.

    Attributes:
        context: Returns the current context. It is the same object until another one becomes current. So a verdict on
            it is valid until the span in it ends.
    """

    context: Callable[[], Any]

    def look(self, context: Any) -> Around:
        """What surrounds a run in this context, which is the current one."""


# --- what is decided --------------------------------------------------------------------------------------------------
class Pick(NamedTuple):
    """A run that is an event whatever surrounds it.

    Attributes:
        probability: The one with which it was picked. None if it is not known.
    """

    probability: float | None = None


FOR_ITSELF = Pick()
"""The pick of a first run, and of a failed one."""


class Verdict(Enum):
    """What happens to a run."""

    PASS = auto()
    """No event, no count."""
    UNPICKED = auto()
    """The same, but another run in the same context may be picked."""
    SUPPRESS = auto()
    """No event, no count, no measurement."""
    COUNT = auto()
    """It is counted on the span around it."""
    RECORD = auto()
    """It is an event."""


class Decision(NamedTuple):
    """A verdict.

    Attributes:
        until_s: For COUNT, the `time.perf_counter` until which it applies to runs of the same object below the
            same span.
        tally: For COUNT, what counts the run.
        pick: For RECORD, why the run is recorded whatever surrounds it. None: its surroundings decide.
        is_first: For RECORD, whether it is the first run of its object.
    """

    verdict: Verdict
    until_s: float = 0.0
    tally: RunTally | None = None
    pick: Pick | None = None
    is_first: bool = False


PASS = Decision(Verdict.PASS)


class RunPolicy(Protocol):
    """Decides about runs that are neither suppressed nor the first of their objects."""

    def decide(self, runner: Any, around: Around, *, is_picked: bool) -> Decision:
        """What happens to a run of `runner` in these surroundings.

        Args:
            is_picked: The caller has drawn for it, and it is picked.
        """


class Decisions:
    """The decision about a call of `phase`.

    Args:
        parents: Finds the surroundings.
        policy: Decides about what is neither suppressed nor a first run.
        fresh: Objects whose next run is their first, which is always recorded. None: calls have no first ones.
    """

    def __init__(
        self, parents: ParentProbe, policy: RunPolicy, phase: Phase, fresh: ByIdentity[bool] | None = None
    ) -> None:
        self._parents = parents
        self._policy = policy
        self._phase = phase
        self._fresh = fresh

    def decide(self, runner: Any, *, is_picked: bool = False) -> Decision:
        """What happens to a run of `runner` in the current context.

        Args:
            is_picked: See `RunPolicy`.
        """
        around = self._parents.look(self._parents.context())
        if around is Surroundings.SUPPRESSED:
            return Decision(Verdict.SUPPRESS)
        if self._fresh is not None and self._fresh.pop(runner):
            return Decision(Verdict.RECORD, pick=FOR_ITSELF, is_first=True)
        decision = self._policy.decide(runner, around, is_picked=is_picked)
        if decision.verdict is not Verdict.COUNT or isinstance(around, Surroundings):
            return decision
        return Decision(Verdict.COUNT, decision.until_s, around.tally(self._phase))


class LimitedCalls:
    """The policy for calls of observed functions. Calls within `limits` are recorded, below a recording span or not.

    A call beyond the limits is counted on the span around it. Without such a span it passes.
    """

    def __init__(self, limits: RateLimits) -> None:
        self._limits = limits

    def decide(self, runner: Any, around: Around, *, is_picked: bool = False) -> Decision:  # noqa: ARG002 - see `RunPolicy`
        """See `RunPolicy`."""
        trace = None if isinstance(around, Surroundings) else around.trace
        until_s = self._limits.refused_until(runner, trace)
        if until_s is None:
            return Decision(Verdict.RECORD)
        return PASS if trace is None else Decision(Verdict.COUNT, until_s)


class BegunCall(NamedTuple):
    """A call that has begun.

    Attributes:
        event: Its event, if it has one.
        tally: Counts the call, which began at `start_s`.
    """

    event: Event | None
    tally: RunTally | None = None
    start_s: float = 0.0

    def end(self, engine: Engine, error: BaseException | None, result: Any = None) -> None:
        """End the call."""
        if self.tally is not None:
            engine.late += not self.tally.is_open
            if self.tally.add(perf_counter() - self.start_s):
                self.tally.sum_up()
        if self.event is not None:
            engine.close(self.event, error, result)
