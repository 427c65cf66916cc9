# SPDX-License-Identifier: Apache-2.0
"""The pipeline: what torchspan itself does with each event."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from torchspan._base.errors import Guard
from torchspan.engine.event import Event
from torchspan.phase import Phase


@dataclass(frozen=True, eq=False, slots=True)
class Callback:
    """A start and an end that run as a pair, as `at::RecordFunctionCallback` has them (ATen/record_function.h).

    What `start` returns is handed to `end`. For every start that ran, the end runs. `phases` empty means all. `leave`, if given, runs
    immediately before `end` in the context in which the event was current. If the event is completed later
    (`torchspan.engine.deferral`), `leave` runs when it is closed and `end` when it is completed.
    """

    name: str
    start: Callable[[Event], Any]
    end: Callable[[Event, Any], None]
    phases: frozenset[Phase] = frozenset()
    leave: Callable[[Event, Any], None] | None = None


class Pipeline:
    """The callbacks of an engine, in order. They do not change after construction.

    They start before the user's callbacks and end after them, so that the user's run inside what the pipeline opened. Each is
    guarded by its name. Raises ValueError for two with the same name: they would be disabled together.

    Args:
        is_suppressed: Whether nothing may be emitted here. An event that starts here is for user callbacks and
            observers alone.
        is_inside: Whether the caller has interrupted what the callbacks write to, in this thread. An event that starts there is for
            user callbacks and observers alone, and is counted as missed. One that ends there is completed before the next event.
    """

    def __init__(
        self,
        callbacks: Iterable[Callback] = (),
        *,
        is_suppressed: Callable[[], bool] = lambda: False,
        is_inside: Callable[[], bool] = lambda: False,
    ) -> None:
        self.callbacks = tuple(callbacks)
        self.is_suppressed = is_suppressed
        self.is_inside = is_inside
        names = [callback.name for callback in self.callbacks]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"a pipeline cannot have two callbacks of one name: {', '.join(twice)}")


@dataclass(frozen=True, slots=True)
class Member:
    """A callback of a pipeline with the guard of its engine."""

    callback: Callback
    guard: Guard

    def begin(self, event: Event) -> Any:
        """Run the start. Returns what it returned, or `FAILED` if it raised: then there is no end."""
        return self.guard.begin(self.callback.name, self.callback.start, event)

    def leave(self, event: Event, context: Any) -> None:
        """Leave the context in which the event is current."""
        if self.callback.leave is not None:
            self.guard.end(self.callback.name, self.callback.leave, event, context)

    def finish(self, event: Event, context: Any) -> None:
        """Run the end of a start that ran, also if the callback has been disabled since."""
        self.guard.finish(self.callback.name, self.callback.end, event, context)


class Members(dict[Phase, tuple[Member, ...]]):
    """Phase -> the members of a pipeline that receive its events."""

    def __init__(self, pipeline: Pipeline, guard: Guard) -> None:
        super().__init__()
        self._all = tuple(Member(callback, guard) for callback in pipeline.callbacks)

    def __missing__(self, phase: Phase) -> tuple[Member, ...]:
        members = tuple(member for member in self._all if not member.callback.phases or phase in member.callback.phases)
        self[phase] = members
        return members
