# SPDX-License-Identifier: Apache-2.0
"""When heartbeats are due."""

from __future__ import annotations

NS = 1_000_000_000

FIRST_S = 2
"""Shorter work has no heartbeat, so a program with one short compilation ends as it would without torchspan."""

_GAPS_S = (5, 10, 20, 40)
_LONGEST_GAP_S = 60


def next_beat_ns(elapsed_ns: int, interval_ns: int | None) -> int:
    """The time of the next heartbeat of a piece of work, in nanoseconds since its start; always after `elapsed_ns`.

    The times are a fixed grid from the start of the work. Missed heartbeats are not made up for.

    interval_ns: the gap between two heartbeats. The first comes after two seconds if the gap is longer. None: the gaps are
    5, 10, 20, 40 and then 60 s, so heartbeats are due 2, 7, 17, 37, 77, 137 s after the start, and then every 60 s.
    """
    due_ns = FIRST_S * NS
    if interval_ns is not None:
        on_grid_ns = (elapsed_ns // interval_ns + 1) * interval_ns
        return min(due_ns, on_grid_ns) if elapsed_ns < due_ns else on_grid_ns
    if elapsed_ns < due_ns:
        return due_ns
    for gap_s in _GAPS_S:
        due_ns += gap_s * NS
        if due_ns > elapsed_ns:
            return due_ns
    return due_ns + ((elapsed_ns - due_ns) // (_LONGEST_GAP_S * NS) + 1) * _LONGEST_GAP_S * NS
