# SPDX-License-Identifier: Apache-2.0
"""Selects the ranks of a distributed job that have spans."""

from __future__ import annotations

import os

from torchspan.words.sampling.ranks import ALL, Selection, rank


class SelectedRanks:
    """The ranks that have spans. Other ranks have no spans of torchspan, whatever the exporter.

    The rank is looked up at each event, in the variables that launchers set: programs that start their ranks themselves set
    the variables late. A process without a rank has spans.

    Raises ValueError for any other text.

    Args:
        text: `all`, or an argument of `torchspan.words.sampling.ranks.Selection`.
    """

    def __init__(self, text: str) -> None:
        self._selection = None if text == ALL else Selection(text)
        self.left_out = 0
        """Spans that were not started because of this process's rank."""

    @property
    def are_all(self) -> bool:
        """Whether every rank has spans."""
        return self._selection is None

    def has_this_one(self) -> bool:
        """Whether this process has spans."""
        if self._selection is None:
            return True
        number = rank(os.environ)
        return number is None or number in self._selection

    def leaves_out(self) -> bool:
        """Whether this process has no spans. An event that is left out is counted."""
        if self.has_this_one():
            return False
        self.left_out += 1
        return True
