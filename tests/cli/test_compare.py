# SPDX-License-Identifier: Apache-2.0
"""`torchspan compare`: exit statuses, gates, limits, what cannot be compared, and files that mean harm."""

import json
import os
import subprocess
import sys

import pytest

from support.recording import Recording
from support.run_recording import RUN, RunRecording
from torchspan.words import semconv

COMPILE = {semconv.MODEL_CLASS: "Net", semconv.ENTRY_POINT: "torch_tensorrt.compile"}
FALLEN = {
    semconv.FALLBACK_REASON_CLASSES: ["no_converter"],
    semconv.FALLBACK_OPERATOR_NAMES: ["torch.ops.aten.relu.default"],
    semconv.FALLBACK_OPERATOR_REASONS: ["no_converter"],
    semconv.FALLBACK_OPERATOR_COUNTS: [1],
}
EVIL = "\x1b]0;x\x07\u202e<b>|`@you"


def compilation(path, ms=100, name="torch_tensorrt.compile", **attributes):
    """The path of a file with a compilation of which a stage `lower` takes half the time."""
    path.parent.mkdir(exist_ok=True)
    recording = Recording(path)
    top = recording.span(name, 0, ms, {**COMPILE, **attributes})
    recording.span("torch_tensorrt.lower", 0, ms / 2, parent=top)
    return path


@pytest.fixture
def sides(tmp_path):
    """`sides(attributes, ms=…)`: the paths of two files; the attributes are those of the second."""

    def two(attributes=None, ms=100):
        return compilation(tmp_path / "before.jsonl"), compilation(tmp_path / "after.jsonl", ms, **(attributes or {}))

    return two


@pytest.fixture
def folders(tmp_path):
    """`folders(before, after)`: two folders with a file for each total in milliseconds."""

    def two(before, after):
        for side, totals in (("before", before), ("after", after)):
            for number, ms in enumerate(totals):
                compilation(tmp_path / side / f"{number}.jsonl", ms)
        return tmp_path / "before", tmp_path / "after"

    return two


# --- gates ------------------------------------------------------------------------------------------------------------
def test_without_a_gate_the_status_is_0_whatever_has_changed(torchspan, sides):
    status, out, _ = torchspan("compare", *sides(FALLEN))
    assert status == 0
    assert (
        "aten.relu in PyTorch: before \N{MULTIPLICATION SIGN}0 → after \N{MULTIPLICATION SIGN}1 (no converter)" in out
    )


def test_a_gate_that_is_crossed_is_the_first_line_and_the_status_1(torchspan, sides):
    status, out, _ = torchspan("compare", *sides(FALLEN), "--fail-on", "breaks,fallback")
    assert status == 1
    assert out.startswith(
        "crossed fallback: aten.relu in PyTorch: before \N{MULTIPLICATION SIGN}0 → after \N{MULTIPLICATION SIGN}1 (no"
    )


def test_what_gets_better_crosses_no_gate(torchspan, sides):
    before, after = sides(FALLEN)
    assert torchspan("compare", after, before, "--fail-on", "fallback,coverage,cache,recompiles,breaks,errors")[0] == 0


def test_a_limit_is_crossed_by_the_lower_bound_and_not_by_the_median(torchspan, folders):
    slower = folders([100, 101, 102, 103], [112, 113, 120, 130])
    assert torchspan("compare", *slower, "--fail-above", "10%")[0] == 0  # 112 / 103 is less than 1.10
    status, out, _ = torchspan("compare", *slower, "--fail-above", "5%")
    assert (status, out.splitlines()[0]) == (1, "crossed time: compile Net: before → after at least +8.7 %, above 5 %")


def test_a_limit_may_concern_one_stage(torchspan, folders):
    slower = folders([100, 101, 102, 103], [140, 141, 142, 143])
    status, out, _ = torchspan("compare", *slower, "--fail-above", "lower=20%")
    assert (status, out.splitlines()[0]) == (
        1,
        "crossed time: lower of compile Net: before → after at least +35.9 %, above 20 %",
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--fail-above", "10%"), "a limit on time needs 4 runs a side; of compile Net, before has 1 and after 1"),
        (("--fail-above", "covert=10%"), "no stage covert in either side; the outermost stages are lower"),
        (("--fail-above", "10"), "--fail-above: 10 has no rate; expected 10%, or a stage and a rate: convert=10%"),
        (("--fail-above", "x%"), "--fail-above: x% has no rate; expected 10%, or a stage and a rate: convert=10%"),
        (("--fail-above", "nan%"), "--fail-above: nan% has no rate; expected 10%, or a stage and a rate: convert=10%"),
        (
            ("--fail-on", "fallbacks"),
            "--fail-on: no gate fallbacks; the gates are fallback, coverage, engines, cache, recompiles, breaks, errors",
        ),
    ],
)
def test_an_unknown_gate_or_one_that_cannot_be_judged_is_one_line_and_status_2(torchspan, sides, words, message):
    assert torchspan("compare", *sides(), *words) == (2, "", f"torchspan compare: {message}\n")


# --- what cannot be compared ------------------------------------------------------------------------------------------
def refused(torchspan, *words):
    """The message of a refusal, which is one line."""
    status, out, err = torchspan("compare", *words)
    assert (status, out) == (2, "")
    assert err.startswith("torchspan compare: ")
    assert err.count("\n") == 1
    return err.removeprefix("torchspan compare: ").rstrip()


def test_a_file_that_does_not_exist_is_named(torchspan, sides, tmp_path):
    missing = tmp_path / "none.jsonl"
    assert refused(torchspan, sides()[0], missing) == f"cannot read {missing}: No such file or directory"


def test_a_folder_without_files_is_named(torchspan, sides, tmp_path):
    (tmp_path / "empty").mkdir()
    assert refused(torchspan, sides()[0], tmp_path / "empty") == (
        f"no run to compare in {tmp_path / 'empty'}: the folder has no files *.jsonl"
    )


def test_sides_without_a_common_compilation_are_named(torchspan, sides, tmp_path):
    other = compilation(tmp_path / "other.jsonl", **{semconv.MODEL_CLASS: "Other"})
    assert refused(torchspan, sides()[0], other) == (
        "no common compilation: before compiled Net torch_tensorrt.compile; other compiled Other torch_tensorrt.compile; "
        "a pair has the same model or function, entry and inputs"
    )


def test_a_folder_with_files_of_different_programs_is_named(torchspan, folders, tmp_path):
    before, after = folders([100], [100])
    compilation(after / "1.jsonl", **{semconv.MODEL_CLASS: "Other"})
    assert refused(torchspan, before, after) == (
        f"{after} has files of different programs: 0.jsonl compiled Net torch_tensorrt.compile and 1.jsonl compiled Other "
        "torch_tensorrt.compile"
    )


def test_a_side_that_is_still_being_written_is_named(torchspan, sides, tmp_path):
    path = tmp_path / "running.jsonl"
    RunRecording(path).span("torch_tensorrt.compile", 0, 50, COMPILE, parent=RUN)
    assert refused(torchspan, sides()[0], path) == (
        f"no run to compare in {path}: running.jsonl: it is still being written, or its run was killed"
    )


def test_a_file_without_spans_is_named_in_a_folder_and_refused_alone(torchspan, folders, tmp_path):
    before, after = folders([100], [100])
    (after / "notes.jsonl").write_bytes(b"\x00\xff not a trace\n")
    status, out, _ = torchspan("compare", before, after)
    assert status == 0
    assert out.splitlines()[-2:] == [
        "left out: 1 place of notes.jsonl that cannot be read",
        "left out: notes.jsonl: nothing was compiled",
    ]
    assert refused(torchspan, before, after / "notes.jsonl") == (
        f"no run to compare in {after / 'notes.jsonl'}: 1 place of notes.jsonl that cannot be read; notes.jsonl: nothing was compiled"
    )


def test_hidden_files_folders_and_pipes_in_a_folder_are_not_opened(torchspan, folders):
    before, after = folders([100], [100])
    (after / ".hidden").write_text("x")
    (after / "deeper").mkdir()
    os.mkfifo(after / "pipe")
    assert "left out" not in torchspan("compare", before, after)[1]


def test_of_a_folder_with_more_than_50_files_the_rest_is_counted(torchspan, folders):
    before, after = folders([100] * 52, [100])
    status, out, _ = torchspan("compare", before, after)
    assert status == 0
    assert out.splitlines()[-1] == "left out: 2 files of before: a side has at most 50"


# --- output -----------------------------------------------------------------------------------------------------------
def test_nothing_of_a_file_acts_on_the_terminal(torchspan, tmp_path):
    evil = {semconv.MODEL_CLASS: EVIL, semconv.TORCH_VERSION: f"2{EVIL}"}
    before = compilation(tmp_path / f"a{EVIL.replace('/', '')}.jsonl", **{**evil, semconv.TORCH_VERSION: "1"})
    after = compilation(tmp_path / "after.jsonl", **evil)
    for words in ((), ("--markdown",), ("--json",)):
        _, out, _ = torchspan("compare", before, after, *words)
        assert [char for char in ("\x1b", "\x07", "\u202e") if char in out] == []


def test_a_name_of_the_program_does_not_become_markup(torchspan, tmp_path):
    name = "[x](y)<b>|`@you"
    paths = [compilation(tmp_path / f"{side}.jsonl", **{semconv.MODEL_CLASS: name}) for side in ("before", "after")]
    assert torchspan("compare", *paths, "--markdown")[1].splitlines()[0] == (
        "**nothing has changed: compile \\[x\\](y)\\<b\\>\\|\\`@<!-- -->you: before 100 ms → after 100 ms (+0 %, 1 and 1 runs, "
        "not judged)**"
    )


def test_a_name_as_long_as_a_book_is_cut_off(torchspan, tmp_path):
    paths = [compilation(tmp_path / f"{side}.jsonl", **{semconv.MODEL_CLASS: "N" * 100_000}) for side in "ab"]
    assert len(torchspan("compare", *paths)[1]) < 1_000


def test_markdown_has_the_crossed_gates_first_and_at_most_60_lines(torchspan, sides):
    many = [f"torch.ops.aten.op{number}.default" for number in range(100)]
    fallen = {
        semconv.FALLBACK_REASON_CLASSES: ["no_converter"],
        semconv.FALLBACK_OPERATOR_NAMES: many,
        semconv.FALLBACK_OPERATOR_REASONS: ["no_converter"] * 100,
        semconv.FALLBACK_OPERATOR_COUNTS: [1] * 100,
    }
    status, out, _ = torchspan("compare", *sides(fallen), "--markdown", "--fail-on", "fallback")
    lines = out.splitlines()
    assert status == 1
    assert lines[0].startswith("- **crossed fallback: aten.op0 in PyTorch: before ")
    assert len(lines) == 60
    assert lines[-1].endswith("more lines: `torchspan compare BASE NEW` has all")


def test_json_is_the_document_with_the_crossed_gates(torchspan, sides):
    status, out, _ = torchspan("compare", *sides(FALLEN), "--json", "--fail-on", "fallback")
    document = json.loads(out)
    assert (status, document["format"], len(document["crossed"])) == (1, "torchspan.comparison/1", 1)
    assert [change["subject"] for change in document["changes"]] == ["aten.relu in PyTorch"]


def test_comparing_imports_neither_torch_nor_the_sdk(sides):
    program = (
        "import sys; from torchspan.cli import main; main(['compare', *sys.argv[1:]]); "
        "print(sorted({'torch', 'opentelemetry.sdk', 'torchspan.reading.views'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, sides())], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"
