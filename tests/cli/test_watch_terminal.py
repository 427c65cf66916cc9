# SPDX-License-Identifier: Apache-2.0
"""`torchspan watch` in a shell on a terminal: what is on the screen, and that the terminal works afterwards."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.child import unmeasured
from support.run_recording import RunRecording, write_run
from support.terminal_screen import TerminalScreen
from torchspan.cli._live_lines import LiveLines
from torchspan.words import semconv

SLOW = Path(__file__).resolve().parents[1] / "pipeline" / "slow_program.py"
MODEL = "Net"


@pytest.fixture
def terminal(tmp_path):
    """A shell in an empty folder: `terminal(columns, rows)`."""
    dropped = ("OTEL_", "TORCHSPAN_", "COLUMNS", "LINES")
    environ = {name: text for name, text in unmeasured().items() if not name.startswith(dropped)}
    command = tmp_path / "bin" / "torchspan"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m torchspan "$@"\n')
    command.chmod(0o700)
    environ["PATH"] = os.pathsep.join([str(command.parent), environ["PATH"]])
    started = []

    def start(columns=80, rows=12, **variables):
        started.append(TerminalScreen(tmp_path, {**environ, **variables}, columns=columns, rows=rows))
        return started[-1]

    yield start
    for each in started:
        each.close()


@pytest.fixture
def recording(tmp_path):
    """A run in the folder of the terminal, in which a compilation has begun."""
    recording = RunRecording(tmp_path / "run.jsonl")
    recording.whole = recording.start("torch_tensorrt.compile", 0, {semconv.MODEL_CLASS: MODEL})
    return recording


def watching(terminal):
    """Start `watch` and wait for its lines. Returns the terminal's modes before."""
    before = terminal.modes()
    terminal.type("torchspan watch run.jsonl\n")
    terminal.wait_for(r" memory$")
    return before


def shows_status(terminal, status):
    """Whether the shell's next output is on lines of its own. Returns the lines before."""
    lines = terminal.wait_for(r"^> $|^>$")
    assert lines[-1] == ">"
    terminal.type("echo status $?\n")
    assert terminal.wait_for(rf"^status {status}\n>$")[-3:] == ["> echo status $?", f"status {status}", ">"]
    return lines


def without_figures(lines):
    """The lines of `watch`, without the times."""
    return [re.sub(r"^ *\d\S* (?:[mh] \d\d )?\S+  ", "- ", line) for line in lines]


def drawn_again(screen):
    """Wait until the lines have been drawn twice more."""
    drawn = screen.written.count(b"running:")
    screen.wait_until(lambda: screen.written.count(b"running:") >= drawn + 2)


DRAWN = ["- running: run.jsonl", f"- torch_tensorrt.compile \N{MIDDLE DOT} {MODEL}", "- memory"]


@pytest.mark.parametrize(
    ("number", "status", "said"),
    [(signal.SIGINT, 130, []), (signal.SIGTERM, 143, ["Terminated"]), (signal.SIGKILL, 137, ["Killed"])],
    ids=lambda value: value.name if isinstance(value, signal.Signals) else None,
)
def test_whatever_ends_it_the_terminal_works_as_before(terminal, recording, number, status, said):
    screen = terminal()
    before = watching(screen)
    if number is signal.SIGINT:
        screen.type("\x03")
    else:
        os.killpg(screen.foreground(), number)
    lines = shows_status(screen, status)

    assert without_figures(lines[1:-1]) == [*DRAWN, *said]
    assert screen.modes() == before
    assert set(re.findall(rb"\x1b[^A-Za-z]*[A-Za-z]", screen.written)) <= {b"\x1b[K", b"\x1b[J", b"\x1b[3A"}


def test_stopped_and_continued_it_draws_below_what_the_shell_has_written(terminal, recording):
    screen = terminal(rows=24)
    watching(screen)
    screen.type("\x1a")
    screen.wait_for(r"Stopped.*\n>$")
    screen.type("echo between\n")
    screen.wait_for(r"^between\n>$")
    screen.type("fg\n")
    drawn_again(screen)
    screen.type("\x03")
    lines = shows_status(screen, 130)

    drawn = [index for index, line in enumerate(without_figures(lines)) if line == DRAWN[0]]
    assert len(drawn) == 2
    assert "between" in lines[drawn[0] : drawn[1]]
    assert without_figures(lines[drawn[0] : drawn[0] + 3]) == DRAWN
    assert without_figures(lines[drawn[1] : drawn[1] + 3]) == DRAWN


def test_a_stop_waits_until_the_lines_are_drawn(monkeypatch):
    def is_blocked():
        return signal.SIGTSTP in signal.pthread_sigmask(signal.SIG_BLOCK, [])

    while_drawing, handler, (controller, end) = [], signal.getsignal(signal.SIGCONT), os.openpty()
    with open(end, "w", encoding="utf-8") as stream:
        lines = LiveLines(stream)
        monkeypatch.setattr(lines, "_write", lambda _frame: while_drawing.append(is_blocked()))
        lines.draw([("1 s", "text")])
    signal.signal(signal.SIGCONT, handler)
    os.close(controller)
    assert (while_drawing, is_blocked()) == ([True], False)


def test_in_the_background_it_writes_nothing_over_the_lines_of_the_shell(terminal, recording):
    screen = terminal(rows=24)
    watching(screen)
    screen.type("\x1a")
    screen.wait_for(r"Stopped.*\n>$")
    screen.type("bg; sleep 1.2; echo after\n")
    lines = screen.wait_for(r"^after\n>$")

    assert sum("memory" in line for line in lines) == 1
    screen.type("kill %1\n")


def test_a_narrower_and_a_wider_terminal_have_lines_of_their_width(terminal, recording):
    recording.start("torch_tensorrt.lower", 10, parent=recording.whole)
    screen = terminal()
    watching(screen)
    screen.resize(30, 12)
    narrow = screen.wait_for("…")
    screen.resize(70, 12)
    wide = screen.wait_for(rf"compile · {MODEL} → lower$")
    screen.type("\x03")
    shows_status(screen, 130)

    assert max(map(len, narrow[-3:])) <= 29
    assert sum("running:" in line for line in narrow) == 1
    assert sum("running:" in line for line in wide) == 1


def test_on_a_low_terminal_the_first_lines_are_shown_and_nothing_scrolls(terminal, recording):
    for number in range(20):
        recording.start("torch.export", 0, {semconv.MODEL_CLASS: f"Model{number}"})
    screen = terminal(rows=6)
    screen.type("torchspan watch run.jsonl\n")
    first = screen.wait_for("Model2$")
    drawn_again(screen)

    assert without_figures(first) == [*DRAWN[:2], *(f"- torch.export \N{MIDDLE DOT} Model{n}" for n in range(3))]
    assert without_figures(screen.lines()) == without_figures(first)


def test_at_the_end_of_the_run_the_answers_replace_the_lines_without_color(terminal, recording):
    screen = terminal(rows=24, NO_COLOR="1")
    watching(screen)
    recording.end(recording.whole, 1_000)
    write_run(recording.path, 0, 2_000, process_exit_code=0)
    screen.wait_for(r"^program 2\.00 s")
    lines = shows_status(screen, 0)

    assert lines[1].startswith("trace ")
    assert lines[1].endswith("exit 0")
    assert "m" not in {each[-1:].decode() for each in re.findall(rb"\x1b[^A-Za-z]*[A-Za-z]", screen.written)}


# --- a real compilation -----------------------------------------------------------------------------------------------
@pytest.fixture
def compiling(tmp_path):
    """A program below `torchspan run` that compiles, and sleeps in a converter; it is started when this is called."""
    environ = {name: text for name, text in os.environ.items() if not name.startswith(("OTEL_", "TORCHSPAN_"))}
    started = []

    def start(seconds):
        words = [
            "run",
            "--without-gpu",
            "--quiet",
            "--output",
            "run.jsonl",
            "--",
            sys.executable,
            str(SLOW),
            str(seconds),
        ]
        started.append(
            subprocess.Popen(
                [sys.executable, "-m", "torchspan", *words],
                cwd=tmp_path,
                env=environ,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        )
        return started[-1]

    yield start
    for program in started:
        if program.poll() is None:
            os.killpg(program.pid, signal.SIGKILL)
        program.wait()


STAGE = r"engine 1 of 1: torch_tensorrt\.compile · Slow · [\w.]+:\d+ → convert · _run_on_acc_0 → construct_network$"


@pytest.mark.slow
def test_alongside_a_compilation_it_is_resized_stopped_and_killed_and_ends_with_the_answers(terminal, compiling):
    program, screen = compiling(6), terminal(columns=140, rows=50)
    before = screen.modes()
    screen.type("torchspan watch run.jsonl\n")
    screen.wait_for("waiting for the first span in run.jsonl")
    screen.wait_for(STAGE)
    screen.resize(60, 50)
    screen.wait_for(r"engine 1 of 1: .*….*construct_network$")
    screen.resize(140, 50)
    screen.wait_for(STAGE)
    screen.type("\x1a")
    screen.wait_for(r"Stopped.*\n>$")
    screen.type("fg\n")
    drawn_again(screen)
    os.killpg(screen.foreground(), signal.SIGKILL)
    lines = shows_status(screen, 137)
    assert sum("running: run.jsonl" in line for line in lines) == 2
    assert screen.modes() == before
    assert program.poll() is None, "the program still runs"

    screen.type("clear; torchspan watch\n")
    screen.wait_for("no file of a run in the current folder")
    screen.type("clear; torchspan watch run.jsonl\n")
    screen.wait_for(STAGE)
    screen.wait_for("^program ")
    lines = shows_status(screen, 0)
    assert program.wait() == 0
    assert "running: run.jsonl" not in "\n".join(lines)
    assert re.search(r"^1  Slow +\N{MULTIPLICATION SIGN}1 +[\d.]+ s  \d of \d ops", "\n".join(lines), re.MULTILINE)
    assert screen.modes() == before
