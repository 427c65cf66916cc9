# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: RUF001
# The multiplication sign is part of the expected output.
"""What would shorten a stage, in the row and under the waterfall."""

import pytest

from torchspan import semconv as s

RELEASE = "release_host_and_device_memory"
ADVICE = "release_host_and_device_memory: call gc.freeze() after the imports to leave their objects out"


@pytest.mark.parametrize(
    ("seconds", "whole", "is_said"), [(0.6, 3.0, True), (0.59, 3.0, False), (0.5, 1.0, True), (0.49, 1.0, False)]
)
def test_what_shortens_a_stage_is_said_from_a_fifth_of_the_time_and_half_a_second_on(
    recording, shown, seconds, whole, is_said
):
    root = recording.span("torch_tensorrt.compile", 0, 1000 * whole)
    steps = {"names": [RELEASE], "counts": [1], "durations": [seconds]}
    attributes = {f"torchspan.steps.{key}": value for key, value in steps.items()}
    recording.span("torch_tensorrt.convert", 0, 900, attributes, parent=root)
    texts = [" ".join(text.split()) for text in shown(recording.path)]
    assert [f"{RELEASE} {seconds * 1000:.0f} ms" in text for text in texts] == [True, True]
    assert [ADVICE in text for text in texts] == [is_said, is_said]


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
