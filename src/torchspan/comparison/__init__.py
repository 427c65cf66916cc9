# SPDX-License-Identifier: Apache-2.0
"""Two recorded programs compared: where the time differs, and what else has changed.

    from torchspan import comparison

    result = comparison.compare("before.jsonl", "after.jsonl")
    print(result)  # the answer first
    for change in result.changes:
        print(change.subject, change.base, change.new)

Reading files needs neither the OpenTelemetry SDK nor torch.
"""

# General layout, in the direction of the data: `_sides` (files to runs, and what each compiled, by what it is) -> `_times` (times of a compilation
# on both sides, judged by `_exact_test`) and `_facts` (what a run says besides, and what differs), `_device_pairs` (runs on the device) -> `_pairs` -> `_sentences`, `_gates`.

from torchspan.comparison._device_pairs import DevicePair
from torchspan.comparison._facts import Change
from torchspan.comparison._pairs import Comparison, Pair, compare
from torchspan.comparison._sides import ComparedRun, ComparisonError, Side
from torchspan.comparison._times import TimeRow

__all__ = ["Change", "ComparedRun", "Comparison", "ComparisonError", "DevicePair", "Pair", "Side", "TimeRow", "compare"]
