# SPDX-License-Identifier: Apache-2.0
"""Which ranks of a distributed job have spans."""

from __future__ import annotations

import os
from typing import Any

from torchspan._base.ranks import ALL, Selection, rank
from torchspan.engine import Callback, Event

_LEFT_OUT = object()


class SelectedRanks:
    """Ranks that have spans. The others have none of torchspan's, wherever they would go.

    The rank is looked up at each event, in the variables that launchers set: programs that start their ranks themselves set
    them late. A process without a rank has spans.

    text: `all`, or what `torchspan._base.ranks.Selection` takes. Raises ValueError for another text.
    """

    def __init__(self, text: str) -> None:
        self._selection = None if text == ALL else Selection(text)
        self.left_out = 0
        """Spans that were not started because of this process's rank."""

    def has_this_one(self) -> bool:
        """Whether this process has spans."""
        if self._selection is None:
            return True
        number = rank(os.environ)
        return number is None or number in self._selection

    def only(self, spans: Callback) -> Callback:
        """`spans` for the events of selected ranks. Those of others are counted."""
        if self._selection is None:
            return spans

        def start(event: Event) -> Any:
            if self.has_this_one():
                return spans.start(event)
            self.left_out += 1
            return _LEFT_OUT

        def end(event: Event, opened: Any) -> None:
            if opened is not _LEFT_OUT:
                spans.end(event, opened)

        def leave(event: Event, opened: Any) -> None:
            if opened is not _LEFT_OUT and spans.leave is not None:
                spans.leave(event, opened)

        return Callback(spans.name, start, end, spans.phases, leave)
