# SPDX-License-Identifier: Apache-2.0
"""The runs of engines and graphs on both sides: their time on the device, and that of the host."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from torchspan.reading.comparison._sides import Side
from torchspan.reading.comparison._times import TimeRow, judged, tested


@dataclass(frozen=True)
class DevicePair:
    """The runs of one engine or graph on both sides. The time of a run of the program is the median of its runs of the engine.

    Attributes:
        name: The engine or graph.
        device: Their time on the device.
        host: The time of their spans.
    """

    name: str
    device: TimeRow
    host: TimeRow


def device_pairs(base: Side, new: Side) -> tuple[DevicePair, ...]:
    """Engines and graphs of the same name that have times on the device on both sides, in the order of the first side."""
    sides = [[run.gpu_times for run in side.runs] for side in (base, new)]
    before, after = (dict.fromkeys(key for run in side for key in run) for side in sides)
    keys = [key for key in before if key in after]
    times = [[[run[key] for run in side if key in run] for side in sides] for key in keys]
    device = judged([_row("device", *([run.gpu_s for run in side] for side in own)) for own in times])
    host = judged([_row("host", *([run.host_s for run in side] for side in own)) for own in times])
    return tuple(DevicePair(name, *rows) for (_, name), *rows in zip(keys, device, host, strict=True))


def _row(name: str, base_s: Sequence[float], new_s: Sequence[float]) -> TimeRow:
    medians = statistics.median_low(base_s), statistics.median_low(new_s)
    return tested(TimeRow((name,), *medians, tuple(base_s), tuple(new_s)))
