# SPDX-License-Identifier: Apache-2.0
"""Which long pieces of work are going on."""

from __future__ import annotations

from torchspan.engine._callback import Callback
from torchspan.engine._event import Event
from torchspan.phase import PHASES


class ActiveWork:
    """The open events of phases that may take minutes (`Phase.is_long`), outermost ones only.

    A callback of the engine keeps it, so that what is in it ends with its event, however that ends. Any thread may ask.
    """

    def __init__(self) -> None:
        self._open: dict[int, Event] = {}
        self.callback = Callback(
            "keeping track of long work", self._start, self._end, frozenset(each for each in PHASES if each.is_long)
        )

    def events(self) -> list[Event]:
        """Those open now, in the order of their starts."""
        return list(self._open.values())

    def __len__(self) -> int:
        return len(self._open)

    def _start(self, event: Event) -> bool:
        outer = event.parent
        while outer is not None:
            if id(outer) in self._open:
                return False
            outer = outer.parent
        self._open[id(event)] = event
        return True

    def _end(self, event: Event, is_outermost: bool | None) -> None:
        if is_outermost:
            self._open.pop(id(event), None)
