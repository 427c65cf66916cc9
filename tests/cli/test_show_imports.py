# SPDX-License-Identifier: Apache-2.0
"""Imports in the waterfall."""


def imported(recording, module, start_ms, end_ms, parent=None):
    return recording.span("torchspan.import", start_ms, end_ms, {"torchspan.import.module": module}, parent=parent)


def test_imports_are_drawn_with_their_modules_and_no_summary_of_their_times(recording, shown):
    outer = imported(recording, "torch_tensorrt", 0, 3000)
    imported(recording, "torch", 10, 2000, parent=outer)
    out = shown(recording.path).waterfalls
    rows = [line.split("  ")[0] for line in out.splitlines()[1:]]
    assert rows == ["torchspan.import · torch_tensorrt", "└─ torchspan.import · torch"]
    assert "Own time" not in out


def test_below_other_work_an_import_counts_as_time(recording, torchspan):
    outer = recording.span("start-up", 0, 3000, scope="user")
    imported(recording, "torch", 0, 2000, parent=outer)
    _, out, _ = torchspan("show", recording.path)
    assert "torchspan.import 2.00 s 67 %" in out
