# SPDX-License-Identifier: Apache-2.0
"""When heartbeats are due."""

from __future__ import annotations

NS = 1_000_000_000

_GAPS_S = (5, 10, 20, 40)
_LONGEST_GAP_S = 60


def next_beat_ns(elapsed_ns: int, interval_ns: int | None) -> int:
    """When the next heartbeat of a piece of work is due, in nanoseconds since its start; always after `elapsed_ns`.

    interval_ns: the gap between two heartbeats. None: the first after 5 s, then each gap is twice the one before,
    up to 60 s: 5, 15, 35, 75, 135, 195 s after the start, and so on every 60 s.

    The times are a fixed grid from the start of the work. Of those that have passed unused none is made up for.
    """
    if interval_ns is not None:
        return (elapsed_ns // interval_ns + 1) * interval_ns
    due_ns = 0
    for gap_s in _GAPS_S:
        due_ns += gap_s * NS
        if due_ns > elapsed_ns:
            return due_ns
    return due_ns + ((elapsed_ns - due_ns) // (_LONGEST_GAP_S * NS) + 1) * _LONGEST_GAP_S * NS
