# SPDX-License-Identifier: Apache-2.0
"""What is said to be running, from the spans that were written so far."""

import pytest

from support.recording import Recording
from support.run_recording import RunRecording, as_process, at, write_run
from torchspan.reading.answers.work_in_progress import WorkInProgress
from torchspan.traces import read
from torchspan.words import semconv

TIMES = "\N{MULTIPLICATION SIGN}"
NET = {semconv.MODEL_CLASS: "Net"}


@pytest.fixture
def recorded(tmp_path):
    return RunRecording(tmp_path / "run.jsonl")


def lines(recording, at_ms, pids=()):
    """What runs, by the file as it is now."""
    work = WorkInProgress("0123456789abcdef")
    for span in read(recording.path).records:
        work.add(span)
    return work.lines(at(at_ms), pids)


def begin(recording, name, start_ms, parent=None, **facts):
    """A span that is open: the file has the record of its start."""
    attributes = {getattr(semconv, key): value for key, value in facts.items()}
    return recording.start(name, start_ms, attributes, parent=parent)


def compilation(recording, engines=5):
    """A compilation that has partitioned its graph."""
    span = begin(recording, "torch_tensorrt.compile", 0, MODEL_CLASS="Net")
    recording.span("torch_tensorrt.partition", 0, 10, {semconv.SUBGRAPHS_TENSORRT: engines}, parent=span)
    return span


def convert(recording, parent, start_ms, number):
    return begin(
        recording,
        "torch_tensorrt.convert",
        start_ms,
        parent,
        MODEL_CLASS="Net",
        ENGINE_NAME=f"_run_on_acc_{number}",
    )


def test_an_operator_that_ended_leaves_what_runs_as_it_is(recorded):
    whole = compilation(recorded)
    recorded.span("torch.operator aten.mm", 20, 30, {semconv.OPERATOR_NAME: "aten.mm"}, parent=whole)
    assert lines(recorded, 65_000) == [("65.0 s", "torch_tensorrt.compile · Net")]


def test_the_innermost_stage_runs_with_its_engine_and_those_around_it(recorded):
    whole = compilation(recorded)
    recorded.end(convert(recorded, whole, 100, 0), 200)
    begin(recorded, "tensorrt.build_engine", 1_000, convert(recorded, whole, 300, 2))

    assert lines(recorded, 65_000) == [
        ("64.0 s", "engine 2 of 5: torch_tensorrt.compile · Net → convert · _run_on_acc_2 → build_engine")
    ]


def test_between_two_stages_the_work_around_them_runs(recorded):
    whole = compilation(recorded)
    recorded.end(convert(recorded, whole, 100, 0), 200)

    assert lines(recorded, 3_000) == [("3.00 s", "torch_tensorrt.compile · Net")]


def test_an_engine_beyond_those_that_were_planned_has_no_total(recorded):
    convert(recorded, compilation(recorded, engines=0), 100, 0)

    ((_, text),) = lines(recorded, 3_000)
    assert text.startswith("engine 1: torch_tensorrt.compile")


def test_work_on_two_threads_has_two_lines(recorded):
    begin(recorded, "torch.export", 0, MODEL_CLASS="Left")
    begin(recorded, "torch.export", 1_000, MODEL_CLASS="Right")

    assert lines(recorded, 3_000) == [("3.00 s", "torch.export · Left"), ("2.00 s", "torch.export · Right")]


@pytest.fixture
def two_processes(recorded, tmp_path):
    """Work that is open in process 71 and in process 72."""
    begin(recorded, "torch.export", 0, MODEL_CLASS="Left")
    as_process(tmp_path / "run.jsonl", 71)
    begin(RunRecording(recorded.path, first_id=1_000), "torch.export", 0, MODEL_CLASS="Right")
    as_process(tmp_path / "run.jsonl", 72)
    return recorded


def test_work_of_two_processes_names_them(two_processes):
    assert lines(two_processes, 3_000) == [
        ("3.00 s", "process 71: torch.export · Left"),
        ("3.00 s", "process 72: torch.export · Right"),
    ]


def test_work_of_a_process_that_is_gone_while_another_exists_does_not_run(two_processes):
    assert lines(two_processes, 3_000, {72}) == [("3.00 s", "torch.export · Right")]


def test_where_no_process_is_known_to_exist_everything_that_is_open_runs(two_processes):
    assert len(lines(two_processes, 3_000, ())) == 2


def test_what_fell_back_so_far_is_below_what_runs(recorded):
    whole = begin(recorded, "torch_tensorrt.compile", 0, MODEL_CLASS="Net")
    fallback = {
        semconv.FALLBACK_REASON_CLASSES: ["no_converter"],
        semconv.FALLBACK_OPERATOR_NAMES: ["torch.ops.aten.special_i1e.default"],
        semconv.FALLBACK_OPERATOR_COUNTS: [3],
        semconv.FALLBACK_OPERATOR_REASONS: ["no_converter"],
    }
    recorded.span("torch_tensorrt.partition", 0, 10, fallback, parent=whole)

    assert lines(recorded, 3_000) == [
        ("3.00 s", "torch_tensorrt.compile · Net"),
        ("", f"in PyTorch: aten.special_i1e {TIMES}3: no converter"),
    ]


def test_when_everything_has_ended_nothing_runs_since_the_last_end(recorded):
    recorded.span("torch_tensorrt.compile", 0, 1_000, NET)

    assert lines(recorded, 3_000) == [
        ("2.00 s", "nothing of torch.compile, Torch-TensorRT or TensorRT is running"),
    ]


def test_a_span_that_is_written_after_the_end_of_the_one_around_it_does_not_open_that_again(recorded):
    whole = recorded.start("torch_tensorrt.compile", 0)
    late = recorded.start("torch_tensorrt.partition", 10, parent=whole)
    recorded.span("torch_tensorrt.lower", 10, 20, parent=whole)
    recorded.end(whole, 1_000)
    recorded.end(late, 2_000)

    ((_, text),) = lines(recorded, 3_000)
    assert text.startswith("nothing ")


def test_escape_sequences_in_names_are_written_out(recorded, tmp_path):
    begin(recorded, "torch_tensorrt.compile", 0, recorded.start("\x1b[2J\nrequest", 0), MODEL_CLASS="Net")
    file = tmp_path / "run.jsonl"
    file.write_text(file.read_text().replace('"Net"', r'"\u001b]0;title\u0007"'))

    ((_, text),) = lines(recorded, 3_000)
    assert text == r"\x1b[2J\nrequest → compile · \x1b]0;title\x07"


def test_a_service_without_a_run_has_what_its_last_heartbeat_saw(tmp_path):
    recording = Recording(tmp_path / "service.jsonl")
    whole = recording.span("torch_tensorrt.compile", 0, 0)
    recording.span(
        "torchspan.progress",
        5_000,
        5_000,
        {
            semconv.PROGRESS_WORK: "torch_tensorrt.compile",
            semconv.PROGRESS_ELAPSED: 5.0,
            semconv.PROGRESS_RUNNING: "tensorrt.build_engine",
            semconv.PROGRESS_RUNNING_ELAPSED: 4.0,
            semconv.PROGRESS_NUMBER: 1,
            semconv.MODEL_CLASS: "Net",
            semconv.ENGINE_NAME: "_run_on_acc_0",
        },
        parent=whole,
    )
    work = WorkInProgress()
    for span in read(recording.path).records:
        if span.name == "torchspan.progress":
            work.add(span)

    assert work.lines(at(7_000)) == [("7.00 s", "torch_tensorrt.compile · Net → build_engine · _run_on_acc_0")]


def test_the_runs_own_span_ends_it(recorded, tmp_path):
    recorded.span("torch_tensorrt.compile", 0, 1_000, NET)
    write_run(tmp_path / "run.jsonl", 0, 2_000)
    work = WorkInProgress("0123456789abcdef")
    for span in read(recorded.path).records:
        work.add(span)

    assert (work.has_ended, work.start_ns) == (True, at(0))
