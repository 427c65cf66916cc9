# SPDX-License-Identifier: Apache-2.0
"""The line that splits a program's wall time: its parts do not overlap and add up to the whole."""

import re
from types import SimpleNamespace

import pytest

from torchspan.answers import program_line
from torchspan.traces import Span, trees

START_NS = 1_795_257_760_000_000_000


@pytest.fixture
def split():
    """Draw the line for a run of so many seconds: `work` is (name, start, end, parent) with times in seconds."""

    def call(seconds, *work, runs=(), width=200):
        spans = []
        for number, (name, start, end, *parent) in enumerate(work, 1):
            attributes = {"torchspan.keep": True} if name.startswith("t") else {}
            times = (START_NS + round(start * 1e9), START_NS + round(end * 1e9))
            above = f"{parent[0]:016x}" if parent else ""
            spans.append(Span("ab" * 16, f"{number:016x}", above, name, *times, attributes, scope="torchspan"))
        run = Span("ab" * 16, "ff" * 8, "", "torchspan.run", START_NS, START_NS + round(seconds * 1e9), {})
        reports = [SimpleNamespace(runs_s=each) for each in runs]
        lines = list(program_line(run, trees(spans), reports, width))
        return "\n".join("".join(text for text, _ in line) for line in lines)

    return call


def test_imports_compilations_runs_and_the_rest_are_the_whole(split):
    line = split(
        6.0,
        ("torchspan.import", 0.1, 3.0),
        ("torch.export", 3.0, 3.15),
        ("torch_tensorrt.compile", 3.2, 4.0),
        runs=[1.2],
    )
    assert line == "program 6.00 s: imports 2.90, Torch-TensorRT 0.95, runs 1.20, rest 0.95"


def test_of_a_frame_what_torch_tensorrt_did_is_its_own_and_the_rest_is_torch_compile(split):
    line = split(
        4.0,
        ("torch.compile_frame", 0.0, 3.0),
        ("torch.compile_phase backend_compile", 1.0, 2.8, 1),
        ("torch_tensorrt.compile", 1.5, 2.5, 2),
        ("torchspan.import", 1.6, 1.8, 3),
        ("torch.compile_frame", 0.2, 0.4, 1),
    )
    assert line == "program 4.00 s: imports 0.20, Torch-TensorRT 0.80, torch.compile 2.00, rest 1.00"


def test_a_frame_that_torch_tensorrt_has_compiled_is_torch_tensorrts_work(split):
    line = split(2.0, ("torch_tensorrt.compile", 0.0, 1.0), ("torch.compile_frame", 0.2, 0.4, 1))
    assert line == "program 2.00 s: Torch-TensorRT 1.00, rest 1.00"


def test_frames_that_overlap_are_counted_once(split):
    line = split(2.0, ("torch.compile_frame", 0.0, 1.0), ("torch.compile_backward", 0.5, 1.2))
    assert line == "program 2.00 s: torch.compile 1.20, rest 0.80"


def test_waiting_for_another_threads_frame_and_inductors_workers_are_torch_compiles(split):
    line = split(
        4.0, ("torch.compile_wait", 0.0, 1.0), ("torch.compile_frame", 1.0, 2.0), ("torch.compile_worker", 2.0, 3.0)
    )
    assert line == "program 4.00 s: torch.compile 3.00, rest 1.00"


@pytest.mark.parametrize("seconds", [float("inf"), float("nan"), -1.0, 1e300, 2.0**32])
def test_seconds_of_runs_that_cannot_be_are_left_out(split, seconds):
    assert split(2.0, runs=[seconds, 0.5]) == "program 2.00 s: runs 0.50, rest 1.50"


def test_what_is_inside_other_work_is_counted_once(split):
    line = split(
        2.0,
        ("torch_tensorrt.compile", 0.0, 1.0),
        ("tensorrt.build_engine", 0.2, 0.8, 1),
        ("torchspan.import", 0.3, 0.5, 2),
        ("torchspan.import", 0.35, 0.45, 3),
    )
    assert line == "program 2.00 s: imports 0.20, Torch-TensorRT 0.80, rest 1.00"


def test_work_below_a_span_of_the_users_counts(split):
    line = split(2.0, ("main", 0.0, 2.0), ("torch_tensorrt.compile", 0.5, 1.0, 1), ("handle", 1.0, 1.5, 1))
    assert line == "program 2.00 s: Torch-TensorRT 0.50, rest 1.50"


def test_compilations_of_several_threads_are_counted_as_long_as_one_of_them_continues(split):
    line = split(2.0, ("torch_tensorrt.compile", 0.0, 1.0), ("torch_tensorrt.compile", 0.5, 1.2))
    assert line == "program 2.00 s: Torch-TensorRT 1.20, rest 0.80"


def test_runs_of_several_threads_take_no_more_than_is_left_for_them(split):
    line = split(2.0, ("torch_tensorrt.compile", 0.0, 0.5), runs=[3.0, 1.0])
    assert line == ("program 2.00 s: Torch-TensorRT 0.50, runs 1.50, rest 0.00 (runs of all threads summed: 4.00 s)")


def test_what_lies_outside_of_the_run_does_not_count(split):
    assert split(1.0, ("torch_tensorrt.compile", -1.0, 0.25)) == "program 1.00 s: Torch-TensorRT 0.25, rest 0.75"
    assert split(1.0, ("torch_tensorrt.compile", 2.0, 3.0)) == "program 1.00 s"


def test_a_program_with_tensorrt_alone_is_not_said_to_use_torch_tensorrt(split):
    assert split(1.0, ("tensorrt.build_engine", 0.0, 0.5)) == "program 1.00 s: TensorRT 0.50, rest 0.50"


def test_a_program_without_any_of_it_has_its_time_alone(split):
    assert split(0.4123) == "program 0.412 s"


@pytest.mark.parametrize("seconds", [0.01234, 0.5555, 1.0049, 9.996, 99.96, 123.456, 7200.04])
def test_the_rounded_parts_add_up(split, seconds):
    third = seconds / 3
    line = split(seconds, ("torchspan.import", 0, third), ("torch.export", third, 2 * third), runs=[third / 7])
    whole, *parts = (round(float(number) * 1000) for number in re.findall(r"\d+\.\d+", line))
    assert sum(parts) == whole


def test_a_narrow_terminal_gets_several_lines(split):
    line = split(6.0, ("torchspan.import", 0.1, 3.0), ("torch_tensorrt.compile", 3.2, 4.0), runs=[1.2], width=40)
    assert line == "program 6.00 s: imports 2.90,\nTorch-TensorRT 0.80, runs 1.20, rest\n1.10"


def test_progress_and_the_run_itself_are_not_work(split):
    assert split(1.0, ("torchspan.run", 0.0, 1.0), ("torchspan.progress", 0.0, 0.5, 1)) == "program 1.00 s"
