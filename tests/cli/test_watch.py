# SPDX-License-Identifier: Apache-2.0
"""`torchspan watch`: the file that it follows, and what it prints where the output is not a terminal."""

import os
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest

from support.run_recording import START_NS, RunRecording, as_process, at, write_run
from torchspan.cli import watch
from torchspan.cli._command import CommandError
from torchspan.words import semconv

OTHER_RUN = "fedcba9876543210"
GONE = 2**22 + 1
"""More than the largest process id of Linux."""
NUL = "stat: embedded null character in path" if sys.version_info >= (3, 13) else "embedded null byte"
"""Why Python refuses a name with a NUL character."""


@pytest.fixture
def path(tmp_path, monkeypatch):
    """A file in the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TORCHSPAN_FILE", raising=False)
    return tmp_path / "run.jsonl"


@pytest.fixture
def clock(monkeypatch):
    """The time that `watch` has: seconds since START_NS."""
    clock = SimpleNamespace(s=60.0)
    fake = SimpleNamespace(time=lambda: START_NS / 1e9 + clock.s, time_ns=lambda: START_NS + round(clock.s * 1e9))
    monkeypatch.setattr(watch, "time", fake)
    return clock


def begin(recording, name, start_ms, model=""):
    """A span that is open: the file has the record of its start."""
    return recording.start(name, start_ms, {semconv.MODEL_CLASS: model} if model else {})


def texts(watched):
    """What is drawn, without the memory, which is that of the tests' process."""
    assert not watched.is_over()
    return [text for _, text in watched.lines() if not text.startswith("memory")]


def changed_at(path, s):
    """Set when the file was changed, in seconds since START_NS."""
    ns = START_NS + round(s * 1e9)
    os.utime(path, ns=(ns, ns))


# --- the file ---------------------------------------------------------------------------------------------------------
def test_the_first_line_has_the_time_since_the_first_span_and_the_last_the_memory(path, clock):
    begin(RunRecording(path), "torch_tensorrt.compile", 0)
    watched = watch._WatchedFile("run.jsonl")

    assert not watched.is_over()
    *lines, memory = watched.lines()
    assert lines == [("60.0 s", "running: run.jsonl"), ("60.0 s", "torch_tensorrt.compile")]
    if sys.platform == "linux":
        assert re.fullmatch(r"[\d.]+ [MG]B memory", " ".join(memory))


def test_a_file_that_does_not_exist_yet_is_waited_for(path):
    watched = watch._WatchedFile("run.jsonl")
    assert texts(watched) == ["waiting for the first span in run.jsonl"]

    begin(RunRecording(path), "torch.export", 0)
    assert texts(watched) == ["running: run.jsonl", "torch.export"]


def test_a_line_is_read_once_it_is_whole(path):
    begin(RunRecording(path), "torch.export", 0)
    whole = path.read_bytes()
    path.write_bytes(whole[:-100])
    watched = watch._WatchedFile("run.jsonl")
    assert texts(watched) == ["waiting for the first span in run.jsonl"]

    path.write_bytes(whole)
    assert texts(watched) == ["running: run.jsonl", "torch.export"]


def test_each_line_is_parsed_once(path, monkeypatch):
    recording, lengths = RunRecording(path), []
    read = watch.read
    monkeypatch.setattr(watch, "read", lambda file: lengths.append(len(file.getvalue())) or read(file))
    begin(recording, "torch.export", 0)
    watched = watch._WatchedFile("run.jsonl")
    texts(watched)
    begin(recording, "torch.export", 10)
    texts(watched)
    texts(watched)

    assert lengths[0] + lengths[1] == path.stat().st_size
    assert lengths[2] == 0


def test_a_file_that_was_replaced_is_read_from_its_start(path, tmp_path):
    begin(RunRecording(path), "torch.export", 0, model="Before")
    watched = watch._WatchedFile("run.jsonl")
    texts(watched)

    begin(RunRecording(tmp_path / "new"), "torch.export", 0, model="After")
    os.replace(tmp_path / "new", path)
    assert texts(watched) == ["running: run.jsonl", "torch.export · After"]


def test_a_file_that_shrank_is_read_from_its_start(path, tmp_path):
    recording = RunRecording(path)
    begin(recording, "torch.export", 0, model="Before")
    begin(recording, "torch.export", 0, model="Too")
    watched = watch._WatchedFile("run.jsonl")
    texts(watched)

    begin(RunRecording(tmp_path / "new"), "torch.export", 0, model="After")
    path.write_bytes((tmp_path / "new").read_bytes())
    assert texts(watched) == ["running: run.jsonl", "torch.export · After"]


def test_of_two_runs_in_a_file_the_newest_is_followed(path):
    earlier = RunRecording(path)
    begin(earlier, "torch.export", 0, model="Earlier")
    watched = watch._WatchedFile("run.jsonl")
    texts(watched)

    begin(RunRecording(path, run_id=OTHER_RUN, first_id=500), "torch.export", 0, model="Newer")
    begin(earlier, "torch.export", 0, model="Late")
    assert texts(watched) == ["running: run.jsonl", "torch.export · Newer"]


# --- the end ----------------------------------------------------------------------------------------------------------
@pytest.fixture
def killed(path):
    """A file whose process is gone, and whose run has no span of its own. It was changed 0 s after START_NS."""
    begin(RunRecording(path), "torch_tensorrt.compile", 0, model="Net")
    as_process(path, GONE)
    changed_at(path, 0)
    return path


@pytest.mark.skipif(sys.platform != "linux", reason="the processes are looked for in /proc")
def test_a_run_whose_processes_were_never_seen_is_over_2_minutes_after_its_file_has_grown(killed, clock):
    watched = watch._WatchedFile("run.jsonl")
    clock.s = 119
    assert not watched.is_over()
    clock.s = 121
    assert watched.is_over()


@pytest.mark.skipif(sys.platform != "linux", reason="the processes are looked for in /proc")
def test_a_run_whose_processes_were_seen_is_over_10_seconds_after_they_are_gone(path, clock):
    begin(RunRecording(path), "torch_tensorrt.compile", 0, model="Net")
    with subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE) as program:
        as_process(path, program.pid)
        changed_at(path, 0)
        watched = watch._WatchedFile("run.jsonl")
        assert not watched.is_over()
        program.kill()
    clock.s = 69
    assert not watched.is_over()
    clock.s = 71
    assert watched.is_over()


def test_a_service_without_a_run_has_no_end(path, clock):
    begin(RunRecording(path), "torch_tensorrt.compile", 0)
    as_process(path, GONE)
    path.write_text(path.read_text().replace('"torchspan.run.id"', '"another.id"'))
    changed_at(path, 0)
    clock.s = 10_000

    assert not watch._WatchedFile("run.jsonl").is_over()


def screen(text):
    """The first screen, without what differs from run to run."""
    return re.sub(r"[0-9a-f]{32}", "ID", text.partition("\n\n")[0]).splitlines()


@pytest.mark.skipif(sys.platform != "linux", reason="the processes are looked for in /proc")
def test_of_a_run_that_was_killed_the_answers_say_what_did_not_end(killed, torchspan):
    status, out, err = torchspan("watch", "run.jsonl")

    assert (status, err) == (0, "")
    assert screen(out) == [
        "the run has not written its end, and none of its processes exists any more",
        "   what was compiled times      time",
        "1  Net                  \N{MULTIPLICATION SIGN}1    \N{GREATER-THAN OR EQUAL TO} 0 ns  did not end",
    ]


@pytest.fixture
def ended(path):
    """A file with an older run, and one that has ended, too."""
    for run_id, first_id, model in ((OTHER_RUN, 500, "Older"), ("0123456789abcdef", 1, "Net")):
        recording = RunRecording(path, run_id=run_id, first_id=first_id)
        recording.span("torch_tensorrt.compile", 0, 1_000, {semconv.MODEL_CLASS: model})
    write_run(path, 0, 2_000, process_exit_code=0)
    return path


def test_a_run_that_has_ended_already_has_its_answers_printed(ended, torchspan):
    status, out, err = torchspan("watch", "run.jsonl")

    assert (status, err) == (0, "")
    assert screen(out) == [
        "trace ID \N{MIDDLE DOT} 2026-11-21 10:42:40Z \N{MIDDLE DOT} exit 0",
        "   what was compiled times      time",
        "1  Net                  \N{MULTIPLICATION SIGN}1    1.00 s",
        "program 2.00 s: other compilation 1.00, rest 1.00",
    ]


# --- which file, and what cannot be watched ---------------------------------------------------------------------------
@pytest.mark.parametrize("variables", [{}, {"TORCHSPAN_FILE": "%p.jsonl"}], ids=["folder", "variable"])
def test_without_a_file_the_one_that_was_changed_last_is_watched(path, monkeypatch, variables):
    names = ("1.jsonl", "3.jsonl", "2.jsonl", "x.jsonl")
    if not variables:
        names = tuple(f"torchspan-20261121T104240Z-{name}" for name in names)
    for s, name in enumerate(names):
        path.with_name(name).touch()
        changed_at(path.with_name(name), s)
    for name, text in variables.items():
        monkeypatch.setenv(name, text)

    assert os.path.basename(watch._newest()) == names[2]


def test_the_file_that_the_variable_names_is_watched_before_it_exists(path, monkeypatch):
    monkeypatch.setenv("TORCHSPAN_FILE", "50%%.jsonl")

    assert watch._newest() == str(path.with_name("50%.jsonl"))


@pytest.mark.parametrize(
    ("variable", "message"),
    [
        ("", "no file of a run in the current folder; make one: torchspan run -- program, or name it: FILE"),
        ("%p.jsonl", "no file of a run TORCHSPAN_FILE names; make one: torchspan run -- program, or name it: FILE"),
    ],
)
def test_without_any_file_one_line_says_how_to_make_one(path, torchspan, monkeypatch, variable, message):
    monkeypatch.setenv("TORCHSPAN_FILE", variable)

    assert torchspan("watch") == (2, "", f"torchspan watch: {message}\n")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("folder", "cannot read folder: not a file"),
        ("none/x.jsonl", "no folder for none/x.jsonl; name the file of torchspan run"),
        ("text", r"nothing readable in text: not JSON"),
        ("x\x1b[2J\0", rf"cannot read x\x1b[2J\x00: {NUL}"),
    ],
)
def test_what_is_not_a_file_of_traces_is_refused_in_one_line(path, torchspan, name, message):
    path.with_name("folder").mkdir()
    path.with_name("text").write_text("hello\n")

    assert torchspan("watch", name) == (2, "", f"torchspan watch: {message}\n")


def test_a_file_that_becomes_unreadable_raises_the_error_of_a_command(path):
    watched = watch._WatchedFile("run.jsonl")
    assert not watched.is_over()
    path.mkdir()

    with pytest.raises(CommandError, match=r"cannot read run\.jsonl: not a file"):
        watched.is_over()


# --- a pipe -----------------------------------------------------------------------------------------------------------
def test_in_a_pipe_each_change_is_a_line_as_soon_as_it_is_there(path):
    recording = RunRecording(path)
    whole = begin(recording, "torch_tensorrt.compile", 0, model="Net")
    words = [sys.executable, "-m", "torchspan", "watch", "run.jsonl"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8") as program:
        first = [program.stdout.readline() for _ in range(2)]
        stage = recording.start("torch_tensorrt.lower", 10, parent=whole)
        lines = (line for line in program.stdout if " memory" not in line)
        then = next(lines)
        recording.end(stage, 20)
        recording.end(whole, 1_000)
        write_run(path, 0, 2_000, process_exit_code=0)
        rest = list(lines)
        err = program.stderr.read()

    assert (program.returncode, err) == (0, "")
    days = r"\d\d:\d\d:\d\d +\d+ (?:d|h \d\d m) "
    assert re.fullmatch(rf"{days} running: run\.jsonl\n", first[0])
    assert re.fullmatch(rf"{days} torch_tensorrt\.compile · Net\n", first[1])
    assert re.fullmatch(rf"{days} torch_tensorrt\.compile · Net → lower\n", then)
    assert rest[0].startswith("trace ")
    assert "\x1b" not in "".join([*first, then, *rest])


@pytest.mark.fault("clock", "differs between two processes")
def test_time_since_the_start_is_not_negative_when_clocks_differ(path, clock):
    begin(RunRecording(path), "torch.export", 0)
    clock.s = -5
    watched = watch._WatchedFile("run.jsonl")
    assert not watched.is_over()

    assert [figure for figure, text in watched.lines() if not text.startswith("memory")] == ["0 ns", "0 ns"]
    assert at(0) == START_NS
