# SPDX-License-Identifier: Apache-2.0
"""The protocol of whoever wants events, and the loop that calls them and catches what they raise."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torchspan.base.boundaries import is_programs
from torchspan.base.errors import Guard
from torchspan.engine.event import Event
from torchspan.words.phase import Phase


class Listener:
    """Receives the events of its phases. The engine calls it, and catches and counts what it raises.

    For each `open` that returned, `leave` and `close` run once, also if the listener is paused by then. Listeners are opened
    in their order and left and closed in reverse, so that each works inside those before it.

    Attributes:
        name: What it does, for the log: `writing spans`. Unique in an engine.
        phases: The phases whose events it receives. Empty: all.
        is_innermost: Whether it is opened after the user's callbacks, immediately before the work itself.
    """

    name: str
    phases: frozenset[Phase] = frozenset()
    is_innermost = False
    leaves = False
    """Whether it has a `leave` of its own."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.leaves = cls.leave is not Listener.leave

    def open(self, event: Event) -> Any:
        """The event has begun. Returns a token for `leave` and `close`."""

    def leave(self, event: Event, token: Any) -> None:
        """The event has ended, and is still current in the context in which it was opened."""

    def close(self, event: Event, token: Any) -> None:
        """The event has ended, and all facts about it are known. That may be later than `leave` (`torchspan.engine.deferral`)."""


def open_all(guard: Guard, event: Event, listeners: Iterable[Listener]) -> None:
    """Open an event for those of `listeners` that are not paused. What is the program's own passes (`is_programs`)."""
    for listener in listeners:
        if guard.failing and guard.leaves_out(listener.name):
            continue
        try:
            token = listener.open(event)
        except Exception as error:
            if is_programs(error):
                raise
            guard.caught(listener.name, "open")
        else:
            event.opened.append((listener, token))
            if listener.leaves:
                event.to_leave.append((listener, token))
            if guard.failing:
                guard.worked(listener.name, "open")


def end_all(guard: Guard, event: Event, opened: list[tuple[Listener, Any]], step: str) -> None:
    """Run a step of listeners, `leave` or `close`, and take them off the list, last opened first.

    What is the program's own passes when all have run.
    """
    try:
        while opened:
            listener, token = opened.pop()
            try:
                getattr(listener, step)(event, token)
            except Exception as error:
                if is_programs(error):
                    raise
                guard.caught(listener.name, step)
            else:
                if guard.failing:
                    guard.worked(listener.name, step)
    except BaseException:
        end_all(guard, event, opened, step)
        raise
