# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: RUF001
# The multiplication sign is part of the expected output.
"""Lines of the waterfall: folds, engines by their modules, time on the processor."""

import pytest

from torchspan.words import semconv as s


@pytest.fixture
def lines(drawn):
    """The lines of the tree at 80 columns, without the bars and times."""

    def lines():
        every = drawn(80)
        begin = next(index for index, line in enumerate(every) if line.startswith("trace "))
        tree = [line for line in every[begin + 1 :] if not line.startswith(("Own time", "          "))]
        return [line[:53].rstrip() for line in tree]

    return lines


# --- folds ------------------------------------------------------------------------------------------------------------
def test_of_many_equal_siblings_the_three_slowest_have_lines_in_the_order_of_their_start(recording, drawn):
    root = recording.span("work", 0, 1000, scope="app")
    for number in range(10):
        ms = {2: 30, 5: 50, 7: 40}.get(number, 10)
        recording.span("step", 100 * number, 100 * number + ms, parent=root, scope="app")
    tree = [line.split() for line in drawn(80) if line.startswith(("├", "└"))]
    assert [(line[1], line[-2], line[-1]) for line in tree] == [
        ("step", "70.0", "ms"),
        ("step", "30.0", "ms"),
        ("step", "50.0", "ms"),
        ("step", "40.0", "ms"),
    ]
    assert tree[0][2] == "×7"


# --- engines ----------------------------------------------------------------------------------------------------------
ENGINE = {s.ENGINE_NAME: "_run_on_acc_1", s.MODEL_CLASS: "ResNet", s.ENGINE_MODULES: ["layer2.0", "layer4.1"]}


def test_an_engine_is_named_by_its_model_and_its_first_and_last_module(recording, lines):
    recording.span("torch_tensorrt.execute", 0, 10, ENGINE)
    assert lines() == ["torch_tensorrt.execute · ResNet · layer2.0 … layer4.1"]


def test_below_its_compilation_the_model_is_not_repeated(recording, lines):
    compiled = recording.span("torch_tensorrt.compile", 0, 10, {s.MODEL_CLASS: "ResNet"})
    recording.span("torch_tensorrt.convert", 0, 10, ENGINE, parent=compiled)
    assert lines() == ["torch_tensorrt.compile · ResNet", "└─ torch_tensorrt.convert · layer2.0 … layer4.1"]


def test_an_engine_whose_modules_are_not_known_keeps_the_name_of_its_subgraph(recording, lines):
    recording.span("torch_tensorrt.execute", 0, 10, {**ENGINE, s.ENGINE_MODULES: []})
    assert lines() == ["torch_tensorrt.execute · ResNet · _run_on_acc_1"]


# --- the processor ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "ms", "cpu", "fact"),
    [
        ("torch.compile_frame", 2600, {s.CPU_THREAD_TIME: 1.7}, "on the processor 1.70 s of 2.60 s"),
        (
            "torch.compile_frame",
            2600,
            {s.CPU_THREAD_TIME: 1.7, s.CPU_PROCESS_TIME: 5.2},
            "on the processor 5.20 s of 2.60 s",
        ),
        ("torch.compile_frame", 2600, {s.CPU_THREAD_TIME: 2.35}, ""),
        ("torch.compile_frame", 99, {s.CPU_THREAD_TIME: 0.01}, ""),
        ("torch.compile_phase inductor_compile", 2600, {s.CPU_THREAD_TIME: 1.7}, ""),
        ("torch.compile_wait", 2600, {s.CPU_THREAD_TIME: 0.0}, ""),
    ],
)
def test_time_on_the_processor_is_said_of_long_work_where_it_differs(recording, lines, name, ms, cpu, fact):
    recording.span(name, 0, ms, cpu)
    assert [line.strip() for line in lines()] == [name, *([fact] if fact else [])]
