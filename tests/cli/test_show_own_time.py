# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: RUF001
# The multiplication sign is part of the expected output.
"""What would shorten a stage, in the row and under the waterfall."""

from torchspan.words import semconv as s


def test_a_row_says_where_its_time_went_from_a_tenth_of_the_time_of_all_rows_on(recording, shown):
    for model, start_ms, ms in (("Large", 0, 890), ("Tenth", 1000, 100), ("Small", 2000, 10)):
        root = recording.span("torch_tensorrt.compile", start_ms, start_ms + ms, {s.MODEL_CLASS: model})
        recording.span("torch_tensorrt.lower", start_ms, start_ms + ms / 2, parent=root)
    assert shown(recording.path).screen.splitlines()[1:] == [
        "1  Large                ×1    890 ms",
        "   time: compile 445 ms, lower 445 ms",
        "2  Tenth                ×1    100 ms",
        "   time: compile 50.0 ms, lower 50.0 ms",
        "3  Small                ×1   10.0 ms",
    ]
