# SPDX-License-Identifier: Apache-2.0
"""When heartbeats are due."""

from __future__ import annotations

NS = 1_000_000_000

FIRST_S = 2
"""What is shorter has no heartbeat: a program of one short compilation ends as it would without torchspan."""

_GAPS_S = (5, 10, 20, 40)
_LONGEST_GAP_S = 60


def next_beat_ns(elapsed_ns: int, interval_ns: int | None) -> int:
    """When the next heartbeat of a piece of work is due, in nanoseconds since its start; always after `elapsed_ns`.

    interval_ns: the gap between two heartbeats; the first comes after two seconds where the gap is longer. None: the gaps
    are 5, 10, 20, 40 and then 60 s: 2, 7, 17, 37, 77, 137 s after the start, and so on every 60 s.

    The times are a fixed grid from the start of the work. Of those that have passed unused none is made up for.
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
