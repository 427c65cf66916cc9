# SPDX-License-Identifier: Apache-2.0
"""Selects the ranks of a distributed job that have spans."""

from __future__ import annotations

import os
from typing import Any

from torchspan._sampling.ranks import ALL, Selection, rank
from torchspan.engine import Callback, Event

_LEFT_OUT = object()


class SelectedRanks:
    """The ranks that have spans. Other ranks have no spans of torchspan, whatever the exporter.

    The rank is looked up at each event, in the variables that launchers set: programs that start their ranks themselves set
    the variables late. A process without a rank has spans.

    Raises ValueError for any other text.

    Args:
        text: `all`, or an argument of `torchspan._sampling.ranks.Selection`.
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
        """`spans`, only for events of selected ranks. Events of other ranks are counted."""
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
