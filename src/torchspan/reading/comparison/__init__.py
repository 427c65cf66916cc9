# SPDX-License-Identifier: Apache-2.0
"""Two recorded programs compared: where the time differs, and what else has changed. Its public face is `torchspan.comparison`."""

# General layout, in the direction of the data: `_sides` (files to runs, and what each compiled, by what it is) -> `_times` (times of a compilation
# on both sides, judged by `_exact_test`) and `_facts` (what a run says besides, and what differs), `_device_pairs` (runs on the device) -> `_pairs` -> `_sentences`, `_gates`.

from torchspan.reading.comparison._device_pairs import DevicePair
from torchspan.reading.comparison._facts import Change
from torchspan.reading.comparison._pairs import Comparison, Pair, compare
from torchspan.reading.comparison._sides import ComparedRun, ComparisonError, Side
from torchspan.reading.comparison._times import TimeRow

__all__ = ["Change", "ComparedRun", "Comparison", "ComparisonError", "DevicePair", "Pair", "Side", "TimeRow", "compare"]
