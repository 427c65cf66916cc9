# SPDX-License-Identifier: Apache-2.0
"""What is said about the step that is the largest of small compilations."""

import pytest

RELEASE = "release_host_and_device_memory"
ADVICE = (
    "release_host_and_device_memory: Torch-TensorRT collects garbage after each engine, among all objects of the process; "
    "call gc.freeze() after the imports to leave theirs out"
)


@pytest.mark.parametrize(("seconds", "is_explained"), [(0.5, True), (0.2, True), (0.1, False)])
def test_collecting_garbage_is_explained_with_what_shortens_it_from_a_fifth_of_the_time_on(
    recording, torchspan, seconds, is_explained
):
    root = recording.span("torch_tensorrt.compile", 0, 1000)
    steps = {"names": [RELEASE], "counts": [1], "durations": [seconds]}
    attributes = {f"torchspan.steps.{key}": value for key, value in steps.items()}
    recording.span("torch_tensorrt.convert", 0, 900, attributes, parent=root)
    _, out, _ = torchspan("show", recording.path)
    text = " ".join(out.partition("Own time")[2].split())
    assert f"{RELEASE} {seconds * 1000:.0f} ms {seconds * 100:.0f} %" in text
    assert (ADVICE in text) is is_explained
