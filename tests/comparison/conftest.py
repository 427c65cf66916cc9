# SPDX-License-Identifier: Apache-2.0
"""Files of compilations with times that a test chooses."""

import pytest

from support.recording import Recording
from torchspan.words import semconv

COMPILE = {semconv.MODEL_CLASS: "Net", semconv.ENTRY_POINT: "torch_tensorrt.compile"}
INPUTS = {semconv.INPUT_SHAPES: ["[1, 3]"]}


@pytest.fixture
def write(tmp_path):
    """`write(name, …)`: the path of a file with one compilation of a net.

    stages: milliseconds of each stage, one after the other. attributes: of the compilation, by their names in `semconv`. settings: by their keys.
    below: called with the recording and the compilation, for further spans.
    """

    def compilation(name, *, ms=100, stages=None, inputs=INPUTS, below=None, settings=None, **attributes):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        recording = Recording(path)
        facts = {getattr(semconv, key): value for key, value in attributes.items()}
        total = max(ms, sum((stages or {}).values()))
        top = recording.span("torch_tensorrt.compile", 0, total, {**COMPILE, **facts, **(settings or {})})
        recording.span("torch_tensorrt.trace", 0, 0, inputs, parent=top)
        begin = 0
        for stage, stage_ms in (stages or {}).items():
            recording.span(stage, begin, begin + stage_ms, parent=top)
            begin += stage_ms
        if below is not None:
            below(recording, top)
        return path

    return compilation


@pytest.fixture
def frame(tmp_path):
    """`frame(name, …)`: the path of a file with frames of torch.compile of one function."""

    def frames(name, *, ms=100, line=10, file="model.py", count=1, events=(), **attributes):
        path = tmp_path / name
        recording = Recording(path)
        facts = {getattr(semconv, key): value for key, value in attributes.items()}
        place = {semconv.CODE_FUNCTION: "forward", semconv.CODE_FILE: file, semconv.CODE_LINE: line}
        for number in range(count):
            at_ms = number * 2 * ms
            recording.span("torch.compile_frame", at_ms, at_ms + ms, {**place, **facts}, events=events)
        return path

    return frames
