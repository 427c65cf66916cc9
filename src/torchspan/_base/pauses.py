# SPDX-License-Identifier: Apache-2.0
"""Pauses between attempts at something that keeps failing. Each is twice as long as the one before."""

from __future__ import annotations

from time import monotonic  # the real one, also where a program replaces it later

FIRST_S = 1.0
LONGEST_S = 300.0


class Pause:
    """The pause before the next attempt. Before the first `lengthen` there is none."""

    __slots__ = ("_until", "length_s")

    def __init__(self) -> None:
        self.length_s = 0.0
        """Seconds of the last pause."""
        self._until = 0.0

    def is_over(self) -> bool:
        """Whether the next attempt may be made."""
        return self.length_s == 0 or monotonic() >= self._until

    def lengthen(self) -> None:
        """An attempt has failed. A failure during a pause changes nothing."""
        if self.is_over():
            self.length_s = min(2 * self.length_s or FIRST_S, LONGEST_S)
            self._until = monotonic() + self.length_s
