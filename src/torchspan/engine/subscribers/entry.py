# SPDX-License-Identifier: Apache-2.0
"""A pair of user callbacks, and how it is registered."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from torchspan.base.errors import UserCallback
from torchspan.engine.subscribers.checks import check_bool, check_callable, check_probability, checked_scopes
from torchspan.engine.subscribers.sampling import SamplingMode
from torchspan.engine.subscribers.scope import Scope

if TYPE_CHECKING:
    from typing_extensions import Self

    from torchspan.engine.subscribers.record_function import RecordFunction


# --- What a registration returns ------------------------------------------------------------------------------------
class Removable:
    """Something that is registered until `remove` is called, or until the end of a `with` statement."""

    __slots__ = ()

    def remove(self) -> None:
        """End the registration. A second call does nothing."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.remove()


# --- What is registered ---------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class RecordFunctionCallback:
    """A start and an end that run as a pair and are sampled together.

    Args:
        start: Called before the work with the `RecordFunction`. Its return value is the observer context.
        end: Called after the work with the same `RecordFunction` and the observer context.
        needs_inputs: Gather the inputs for `start`.
        needs_outputs: Gather the outputs for `end`.
        needs_ids: Give each `RecordFunction` a unique `handle`.
        sampling_prob: The probability, 0 to 1, that the pair runs for an event.
        scopes: Which events the pair runs for: a collection of `RecordScope` and phases. Empty: all of them.
        should_run: Called without arguments at each event; decides in place of `sampling_prob` whether the pair runs.
        sampling_mode: Where `sampling_prob` is applied: at each event, as in PyTorch, or where a tree of events starts.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: `sampling_prob` is not in 0 to 1.
    """

    start: Callable[[RecordFunction], Any]
    end: Callable[[RecordFunction, Any], Any] | None = None
    needs_inputs: bool = False
    needs_outputs: bool = False
    needs_ids: bool = False
    sampling_prob: float = 1.0
    scopes: Collection[Scope] = field(default=frozenset())
    should_run: Callable[[], Any] | None = None
    sampling_mode: SamplingMode = SamplingMode.PER_EVENT

    def __post_init__(self) -> None:
        check_callable("start", self.start)
        check_callable("end", self.end, optional=True)
        check_callable("should_run", self.should_run, optional=True)
        for name in ("needs_inputs", "needs_outputs", "needs_ids"):
            check_bool(name, getattr(self, name))
        check_probability(self.sampling_prob)
        object.__setattr__(self, "scopes", checked_scopes(self.scopes))
        if not isinstance(self.sampling_mode, SamplingMode):
            modes = ", ".join(str(mode) for mode in SamplingMode)
            raise TypeError(f"sampling_mode must be a SamplingMode ({modes}), not {self.sampling_mode!r}")


@dataclass(eq=False)
class Entry:
    """One pair of callbacks as it is registered.

    Args:
        handle: Unique in the process, never reused.
        guarded: The callback as the guard knows it.
        callback: The pair, and what it runs for.
        is_local: Whether it is thread-local. Such a callback is not sampled.
        is_on: Whether it starts for events.
        is_removed: Whether it will never start again.
    """

    handle: int
    guarded: UserCallback
    callback: RecordFunctionCallback
    is_local: bool = False
    is_on: bool = True
    is_removed: bool = False
    probability: float = field(init=False)
    is_sampled: bool = field(init=False)
    """Whether its probability decides."""

    def __post_init__(self) -> None:
        self.probability = 1.0 if self.is_local else float(self.callback.sampling_prob)
        self.is_sampled = self.probability < 1 and self.callback.should_run is None

    @property
    def may_run(self) -> bool:
        """Whether it would start for any event."""
        return self.is_on and (self.probability > 0 or self.callback.should_run is not None)

    @property
    def asks_the_root(self) -> bool:
        """Whether the root of a tree of events decides for all events inside."""
        return self.is_sampled and self.callback.sampling_mode is SamplingMode.PER_ROOT

    def selects(self, scope: Scope) -> bool:
        """Whether it runs for events of `scope`."""
        return not self.callback.scopes or scope in self.callback.scopes

    def begin(self, record: Any) -> Any:
        """Run the start. Returns what it returned, or `FAILED` if it raised: then there is no end."""
        return self.guarded.call(self.callback.start, record)

    def finish(self, record: Any, context: Any) -> None:
        """Run the end of a start that ran, even if the callback has been removed since."""
        if self.callback.end is not None:
            self.guarded.end(self.callback.end, record, context)
