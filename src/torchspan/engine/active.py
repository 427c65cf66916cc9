# SPDX-License-Identifier: Apache-2.0
"""Which long pieces of work are running."""

from __future__ import annotations

from collections.abc import Iterable

from torchspan.base.forks import in_each_child
from torchspan.engine.event import Event
from torchspan.engine.listener import Listener
from torchspan.words.phase import PHASES, Phase

LONG = tuple(phase for phase in PHASES if phase.is_long)
"""Phases that may take minutes."""


class ActiveWork(Listener):
    """The open events of some phases, outermost ones only.

    Each entry ends with its event, however the event ends. That holds even if an interrupt (Ctrl-C) comes between two steps here,
    because an event that has ended is left out at once. Any thread may read it. In a forked child the list is empty: the work of its parent continues in the parent.

    Args:
        phases: By default those that may take minutes (`Phase.is_long`).
        name: What is kept track of, for the log.
    """

    def __init__(self, phases: Iterable[Phase] = LONG, name: str = "long work") -> None:
        self._open: dict[int, Event] = {}
        self.has_begun = False
        """Whether such work has begun in this process, or in its parent before a fork."""
        self.name = f"keeping track of {name}"
        self.phases = frozenset(phases)
        in_each_child(self._forget)

    def _forget(self) -> None:
        self._open = {}

    def events(self) -> list[Event]:
        """Return the events that are open now, in the order of their starts."""
        return [event for event in list(self._open.values()) if event.is_open]

    def __len__(self) -> int:
        return len(self.events())

    def __contains__(self, event: Event) -> bool:
        return event.is_open and id(event) in self._open

    def open(self, event: Event) -> bool:
        """See `Listener`. Returns whether the event is an outermost one."""
        open_ = self._open
        outer = event.parent
        while outer is not None:
            if id(outer) in open_:
                return False
            outer = outer.parent
        open_[id(event)] = event
        self.has_begun = True
        return True

    def close(self, event: Event, token: bool) -> None:
        """See `Listener`."""
        if token:
            self._open.pop(id(event), None)
