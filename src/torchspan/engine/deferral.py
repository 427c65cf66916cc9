# SPDX-License-Identifier: Apache-2.0
"""Events that have left their context and are completed later, by facts that arrive after their end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from torchspan.base.forks import in_each_child
from torchspan.engine.event import Event

if TYPE_CHECKING:
    from typing_extensions import Self

    from torchspan.engine.dispatch import Engine

LIMIT = 1_000
"""Events that wait to be completed. Beyond that the oldest is completed without further facts."""


class Deferral:
    """The right to complete one event, once and on any thread. The end of a `with` statement completes it too.

    facts: what completed it; None before that.
    """

    __slots__ = ("_engine", "_event", "facts")

    def __init__(self, engine: Engine, event: Event) -> None:
        self._engine = engine
        self._event = event
        self.facts: Mapping[str, Any] | None = None

    def complete(self, facts: Mapping[str, Any] | None = None) -> None:
        """Add `facts` and complete the event, at once or when it is closed. Does nothing if it has been completed."""
        if self.facts is None:
            self.facts = facts or {}
            self._engine.complete(self._event)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.complete()


class Waiting:
    """The closed events that wait to be completed, oldest first. A forked child has none: they are its parent's."""

    def __init__(self, complete: Callable[[Event], None]) -> None:
        self._complete = complete
        self._waiting: dict[int, Event] = {}
        in_each_child(self._forget)

    def _forget(self) -> None:
        self._waiting = {}

    def add(self, event: Event) -> None:
        """Have `event` wait from now on."""
        waiting = self._waiting
        waiting[id(event)] = event
        if len(waiting) > LIMIT:
            oldest = next(iter(list(waiting.values())), None)
            if oldest is not None and self.remove(oldest):
                self._complete(oldest)

    def remove(self, event: Event) -> bool:
        """Remove `event`. Returns whether it was waiting."""
        return self._waiting.pop(id(event), None) is not None

    def flush(self) -> None:
        """Complete all events that wait, without further facts."""
        for event in list(self._waiting.values()):
            if self.remove(event):
                self._complete(event)
