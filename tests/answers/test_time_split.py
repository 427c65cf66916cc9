# SPDX-License-Identifier: Apache-2.0
"""The line that splits a program's wall time: each moment of the main thread once, other threads and processes on a second line."""

import re

import pytest

from torchspan.answers import TimeSplit
from torchspan.traces import Run, Span, trees

START_NS = 1_795_257_760_000_000_000
MAIN = 100
"""The process id of the program."""


def work(name, start, end, parent=None, *, pid=MAIN, thread=None, scope="torchspan"):
    """A span as torchspan writes it, with times in seconds; `parent` is the number of another, from 1."""
    attributes = {"torchspan.keep": True} if name.startswith("t") else {}
    attributes |= {} if thread is None else {"thread.id": thread}
    above = "" if parent is None else f"{parent:016x}"
    times = (START_NS + round(start * 1e9), START_NS + round(end * 1e9))
    return lambda number: Span(
        "ab" * 16, f"{number:016x}", above, name, *times, attributes, resource={"process.pid": pid}, scope=scope
    )


def split(seconds, *spans, runs=None, pid=MAIN, **more):
    """The split of a run of so many seconds. more: attributes of its span."""
    attributes = {"process.pid": pid, **({} if runs is None else {"torchspan.run.engines.time": runs}), **more}
    run = Span("ab" * 16, "ff" * 8, "", "torchspan.run", START_NS, START_NS + round(seconds * 1e9), attributes)
    made = [span(number) for number, span in enumerate(spans, 1)]
    return TimeSplit.of(Run(run, trees(made)))


def text(shares, width=200):
    return "\n".join("".join(piece for piece, _ in line) for line in shares.lines(width))


def test_imports_compilations_runs_and_the_rest_are_the_whole():
    shares = split(
        6.0,
        work("torchspan.import", 0.1, 3.0),
        work("torch.export", 3.0, 3.15),
        work("torch_tensorrt.compile", 3.2, 4.0),
        work("tensorrt.build_engine", 3.3, 3.8, 3),
        runs=1.2,
    )
    assert text(shares) == "program 6.00 s: builds 0.50, other compilation 0.45, imports 2.90, runs 1.20, rest 0.95"
    assert shares == TimeSplit(
        program_s=6.0,
        parts={"builds": 0.5, "other compilation": 0.45, "imports": 2.9, "runs": 1.2, "rest": 0.95},
        runs=0,
        runs_s=1.2,
        elsewhere={"builds": 0.0, "other compilation": 0.0, "imports": 0.0},
    )


def test_a_build_inside_a_compilation_is_a_build_and_an_import_inside_a_build_an_import():
    shares = split(
        4.0,
        work("torch.compile_frame", 0.0, 3.0),
        work("torch_tensorrt.compile", 0.5, 2.5, 1),
        work("tensorrt.build_engine", 1.0, 2.0, 2),
        work("torchspan.import", 1.2, 1.4, 3),
        work("torchspan.import", 1.25, 1.35, 4),
    )
    assert text(shares) == "program 4.00 s: builds 0.80, other compilation 2.00, imports 0.20, rest 1.00"


def test_frames_that_overlap_are_counted_once():
    shares = split(2.0, work("torch.compile_frame", 0.0, 1.0), work("torch.compile_backward", 0.5, 1.2))
    assert text(shares) == "program 2.00 s: other compilation 1.20, rest 0.80"


def test_waiting_for_another_threads_frame_is_compilation():
    shares = split(4.0, work("torch.compile_wait", 0.0, 1.0), work("torch.compile_frame", 1.0, 2.0))
    assert text(shares) == "program 4.00 s: other compilation 2.00, rest 2.00"


def test_a_compile_worker_is_not_the_thread_that_waits_for_it():
    shares = split(
        4.0,
        work("torch.compile_frame", 0.0, 1.0),
        work("torch.compile_worker", 0.2, 0.8, 1),
        work("torch.compile_worker", 0.2, 0.8, 1),
    )
    assert text(shares) == (
        "program 4.00 s: other compilation 1.00, rest 3.00\nother threads and processes 1.20 s: other compilation 1.20"
    )


def test_a_span_with_a_thread_id_is_of_another_thread_and_so_is_what_is_below_it():
    shares = split(
        2.0,
        work("torch_tensorrt.compile", 0.0, 1.0),
        work("torch_tensorrt.compile", 0.5, 1.5, thread=7),
        work("tensorrt.build_engine", 0.75, 1.25, 2),
        work("torch_tensorrt.compile", 0.5, 1.5, thread=8),
    )
    assert text(shares) == (
        "program 2.00 s: other compilation 1.00, rest 1.00\n"
        "other threads and processes 2.00 s: builds 0.50, other compilation 1.50"
    )


def test_work_of_one_other_thread_that_overlaps_is_counted_once():
    shares = split(
        2.0, work("torch.compile_frame", 0.0, 1.0, thread=7), work("torch.compile_frame", 0.5, 1.2, thread=7)
    )
    assert text(shares) == "program 2.00 s\nother threads and processes 1.20 s: other compilation 1.20"


def test_of_several_processes_the_program_is_the_one_that_the_run_names():
    spans = (work("torch.compile_frame", 0.0, 1.0, pid=200), work("torch.compile_frame", 0.0, 0.5))
    assert text(split(2.0, *spans)) == (
        "program 2.00 s: other compilation 0.50, rest 1.50\nother threads and processes 1.00 s: other compilation 1.00"
    )


def test_of_a_program_in_another_language_the_first_process_counts():
    spans = (work("torch.compile_frame", 0.0, 1.0, pid=200), work("torch.compile_frame", 0.0, 0.5, pid=300))
    assert text(split(2.0, *spans)) == (
        "program 2.00 s: other compilation 1.00, rest 1.00\n"
        "other threads and processes 0.500 s: other compilation 0.500"
    )


def test_a_span_of_the_programs_own_below_which_another_process_works_is_not_its_work():
    spans = (work("main", 0.0, 2.0, scope="app"), work("torch_tensorrt.compile", 0.5, 1.0, 1, pid=200))
    assert text(split(2.0, *spans, work("torch.export", 1.0, 1.5, 1))) == (
        "program 2.00 s: other compilation 0.50, rest 1.50\n"
        "other threads and processes 0.500 s: other compilation 0.500"
    )


def test_work_below_a_span_of_the_users_counts():
    spans = (work("main", 0.0, 2.0, scope="app"), work("torch_tensorrt.compile", 0.5, 1.0, 1))
    assert text(split(2.0, *spans, work("handle", 1.0, 1.5, 1, scope="app"))) == (
        "program 2.00 s: other compilation 0.50, rest 1.50"
    )


def test_the_number_of_runs_is_said_where_the_run_has_it():
    shares = split(2.0, runs=0.5, **{"torchspan.run.engines.runs": 21})
    assert (text(shares), shares.runs) == ("program 2.00 s: 21 runs 0.50, rest 1.50", 21)


def test_runs_take_no_more_than_is_left_for_them_and_their_sum_is_said():
    shares = split(2.0, work("torch_tensorrt.compile", 0.0, 0.5), runs=4.0)
    assert text(shares) == (
        "program 2.00 s: other compilation 0.50, runs 1.50, rest 0.00 (runs of all threads summed: 4.00 s)"
    )


@pytest.mark.parametrize("seconds", [float("inf"), float("nan"), -1.0, 1e300, 2.0**32, "1.5", True, [1.0], None])
def test_seconds_of_runs_that_cannot_be_are_left_out(seconds):
    shares = split(2.0, **{"torchspan.run.engines.time": seconds})
    assert (text(shares), shares.runs_s) == ("program 2.00 s", 0.0)


def test_what_lies_outside_of_the_run_does_not_count():
    compilation = "torch_tensorrt.compile"
    assert text(split(1.0, work(compilation, -1.0, 0.25))) == "program 1.00 s: other compilation 0.25, rest 0.75"
    assert text(split(1.0, work(compilation, 2.0, 3.0))) == "program 1.00 s"
    assert text(split(1.0, work(compilation, -9.0, -8.0, thread=7))) == "program 1.00 s"


def test_a_program_without_any_of_it_has_its_time_alone():
    assert text(split(0.4123)) == "program 0.412 s"


def test_progress_and_the_run_itself_are_not_work():
    spans = (work("torchspan.run", 0.0, 1.0), work("torchspan.progress", 0.0, 0.5, 1))
    assert text(split(1.0, *spans)) == "program 1.00 s"


@pytest.mark.parametrize("seconds", [0.01234, 0.5555, 1.0049, 9.996, 99.96, 123.456, 7200.04])
def test_the_rounded_parts_add_up(seconds):
    third = seconds / 3
    shares = split(seconds, work("torchspan.import", 0, third), work("torch.export", third, 2 * third), runs=third / 7)
    whole, *parts = (round(float(number) * 1000) for number in re.findall(r"\d+\.\d+", text(shares)))
    assert sum(parts) == whole
    assert sum(shares.parts.values()) == pytest.approx(seconds)


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_no_line_is_wider_than_the_terminal(width):
    spans = (work("torchspan.import", 0.1, 3.0), work("torch_tensorrt.compile", 3.2, 4.0))
    other = (work("tensorrt.build_engine", 3.5, 4.0, thread=7), work("torchspan.import", 0, 0.5, thread=7))
    shares = split(6.0, *spans, *other, runs=90.0)
    assert max(map(len, text(shares, width).splitlines())) <= width


def test_a_narrow_terminal_gets_several_lines():
    shares = split(6.0, work("torchspan.import", 0.1, 3.0), work("torch_tensorrt.compile", 3.2, 4.0), runs=1.2)
    assert text(shares, 40) == ("program 6.00 s: other compilation 0.80,\nimports 2.90, runs 1.20, rest 1.10")
