# SPDX-License-Identifier: Apache-2.0
"""`torchspan run` with small programs that make spans with the OpenTelemetry API."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time

import pytest

from support.first_screen import WHILE_IT_RUNS
from support.gpu import has_driver

TRACED = """
import os, sys, time
from opentelemetry import trace
with trace.get_tracer("torchspan").start_as_current_span(os.environ.get("SPAN", "work")):
    pass
"""


@pytest.fixture
def program(shell):
    """Write `app.py` into the program's folder."""

    def write(text):
        (shell.folder / "app.py").write_text(TRACED + text)
        return [sys.executable, "app.py"]

    return write


def drawn(err):
    """stderr with what differs from run to run replaced."""
    err = re.sub(r"[0-9a-f]{32}", "ID", err)
    err = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ", "DATE", err)
    err = re.sub(r" +[\d.]+ [µm]?s$", " TIME", err, flags=re.MULTILINE)
    return re.sub(r"  +[█▏░ ]*[█▏░] TIME$", "  BAR TIME", err, flags=re.MULTILINE)


def drawing(end):
    """What is drawn of a program with one span."""
    return f"""\

trace ID · DATE · {end}
   what was recorded times      time
1  work                 \N{MULTIPLICATION SIGN}1 TIME
program TIME

part 1 · app.py · DATE · 1 span
work  BAR TIME
"""


DRAWING = drawing("exit 0")


def test_output_input_arguments_and_status_are_the_programs_own(shell, program):
    command = program('print(sys.argv[1:], sys.stdin.read(), os.getcwd()); print("err", file=sys.stderr); sys.exit(3)')
    result = shell("run", "--output", "my trace.jsonl", "--", *command, "--quiet", "a b", "--", "-x", input="typed")

    assert result.returncode == 3
    assert result.stdout == f"['--quiet', 'a b', '--', '-x'] typed {shell.folder}\n"
    assert drawn(result.stderr) == "err\n" + drawing("exit 3")
    assert [file.name for file in shell.folder.iterdir() if file.suffix == ".jsonl"] == ["my trace.jsonl"]


def test_without_output_the_file_is_named_after_time_and_process_and_its_name_printed(shell, program):
    result = shell("run", "--", *program(""))

    (file,) = shell.folder.glob("*.jsonl")
    assert re.fullmatch(r"torchspan-\d{8}T\d{6}Z-\d+\.jsonl", file.name)
    assert drawn(result.stderr) == f"{DRAWING}torchspan: traces are in {file.name}; {WHILE_IT_RUNS}\n"


def test_quiet_draws_nothing_and_still_names_the_file(shell, program):
    result = shell("run", "--quiet", "--", *program(""))

    (file,) = shell.folder.glob("*.jsonl")
    assert result.stderr == f"torchspan: traces are in {file.name}; {WHILE_IT_RUNS}\n"
    assert shell("run", "--quiet", "--output", "x", "--", *program("")).stderr == ""


def test_an_existing_file_is_appended_to_and_only_this_run_is_shown(shell, program):
    shell("run", "--quiet", "--output", "x.jsonl", "--", *program(""), env={**os.environ, "SPAN": "earlier"})
    result = shell("run", "--output", "x.jsonl", "--", *program(""))

    earlier = "torchspan: x.jsonl had traces before this run; torchspan show --all draws them too\n"
    assert drawn(result.stderr) == DRAWING + earlier
    names = re.findall(r'"name":"(earlier|work|torchspan.run)"', (shell.folder / "x.jsonl").read_text())
    assert names == ["earlier", "torchspan.run", "work", "torchspan.run"]


def test_children_inherit_and_a_file_for_each_process_is_read_as_well(shell, program):
    child = f"import subprocess; subprocess.run([{sys.executable!r}, 'child.py'], check=True)"
    (shell.folder / "child.py").write_text(TRACED.replace('"work"', '"child"'))
    result = shell("run", "--output", "%p.jsonl", "--", *program(child))

    assert len(list(shell.folder.glob("*.jsonl"))) == 3
    assert sorted(re.findall(r"^[12]  (\w+)  ", result.stderr, re.MULTILINE)) == ["child", "work"]


def test_traces_go_to_the_users_exporter_too(shell, program):
    result = shell("run", "--output", "x", "--", *program(""), env={**os.environ, "OTEL_TRACES_EXPORTER": "console"})

    assert json.loads(result.stdout)["name"] == "work"
    assert drawn(result.stderr) == DRAWING


@pytest.mark.parametrize(
    ("name", "crash_line"),
    [("SIGKILL", ""), ("SIGSEGV", "torchspan: SIGSEGV at app.py:6 in <module>\n"), ("SIGTERM", "")],
)
def test_a_program_that_died_of_a_signal_is_shown_and_the_caller_sees_the_signal(shell, program, name, crash_line):
    command = program(f"import signal; os.kill(os.getpid(), signal.{name})")
    result = shell("run", "--output", "x", "--", *command)

    assert result.returncode == -getattr(signal, name)
    assert drawn(result.stderr) == drawing(f"died of {name}") + crash_line


WAITS = """
import signal
def stop(number, frame):
    print("got", number, flush=True)
    sys.exit(7)
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
    signal.signal(number, stop)
print("ready", flush=True)
time.sleep(60)
"""


@pytest.fixture
def signals_as_at_a_terminal():
    """A shell starts what it puts in the background with SIGINT ignored, nohup with SIGHUP; children inherit that."""
    numbers = (signal.SIGINT, signal.SIGHUP, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in numbers}
    for number, handler in before.items():
        if handler == signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("signals_as_at_a_terminal")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_sent_to_run_reaches_the_program(shell, program, number):
    command = [sys.executable, "-c", "import sys; from torchspan.cli import main; sys.exit(main())", "run"]
    with subprocess.Popen(
        [*command, "--output", "x", "--", *program(WAITS)],
        cwd=shell.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        start_new_session=True,
    ) as run:
        assert run.stdout.readline() == "ready\n"
        run.send_signal(number)
        out, err = run.communicate(timeout=60)

    assert (out, run.returncode) == (f"got {int(number)}\n", 7)
    assert drawn(err) == drawing("exit 7")


@pytest.mark.usefixtures("signals_as_at_a_terminal")
def test_run_outlives_control_c_and_shows_what_was_recorded(shell, program):
    """The whole group gets SIGINT, as from a terminal; the program dies of it."""
    command = [sys.executable, "-c", "import sys; from torchspan.cli import main; sys.exit(main())", "run"]
    waits = "print('ready', flush=True); time.sleep(60)"
    with subprocess.Popen(
        [*command, "--output", "x", "--", *program(waits)],
        cwd=shell.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        start_new_session=True,
    ) as run:
        assert run.stdout.readline() == "ready\n"
        time.sleep(0.1)
        os.killpg(run.pid, signal.SIGINT)
        _, err = run.communicate(timeout=60)

    assert run.returncode == -signal.SIGINT
    assert drawn(err).endswith(drawing("died of SIGINT"))


def test_a_command_that_is_missing_is_127_and_one_that_cannot_run_126(torchspan, tmp_path):
    script = tmp_path / "app.py"
    script.touch()

    assert torchspan("run", "--", "no-such-program") == (
        127,
        "",
        "torchspan run: no-such-program: command not found in PATH\n",
    )
    assert torchspan("run", "--", f"{tmp_path}/none") == (
        127,
        "",
        f"torchspan run: {tmp_path}/none: no such file; check the path\n",
    )
    assert torchspan("run", "--", tmp_path) == (
        126,
        "",
        f"torchspan run: {tmp_path}: not an executable file; allow its execution with chmod +x\n",
    )
    assert torchspan("run", "--", script) == (
        126,
        "",
        f"torchspan run: {script}: not an executable file; to run it with Python: torchspan run -- python {script}\n",
    )


def test_nothing_to_run_is_a_usage_error(torchspan):
    message = "torchspan run: no program to run; usage: torchspan run [options] -- program arguments...\n"

    assert torchspan("run") == (2, "", message)
    assert torchspan("run", "--") == (2, "", message)


def test_a_program_that_imports_no_observed_library_has_that_as_its_reason(shell):
    result = shell("run", "--", sys.executable, "-c", "print('hello')")

    assert (result.returncode, result.stdout) == (0, "hello\n")
    assert (
        result.stderr
        == "torchspan: nothing was compiled: neither torch.compile nor Torch-TensorRT ran; none of torch, torch_tensorrt, "
        "tensorrt and tensorrt_rtx was imported\n"
    )
    assert list(shell.folder.iterdir()) == []


COMPILES = "import torch\ntorch.compile(lambda x: x + 1, backend='eager')(torch.ones(3))\n"


@pytest.mark.parametrize(
    ("text", "variables", "reason"),
    [
        ("import torch\n", {}, ""),
        (
            COMPILES,
            {"TORCH_COMPILE_DISABLE": "1"},
            "; TORCH_COMPILE_DISABLE=1 is set, so torch.compile compiles nothing",
        ),
    ],
    ids=["plain torch", "disabled"],
)
def test_a_torch_program_that_compiled_nothing_has_its_reason(shell, text, variables, reason):
    (shell.folder / "app.py").write_text(text)
    result = shell("run", "--quiet", "--", sys.executable, "app.py", env={**os.environ, **variables})

    assert result.stderr.splitlines()[0] == (
        f"torchspan: nothing was compiled: neither torch.compile nor Torch-TensorRT ran{reason}"
    )


@pytest.mark.skipif(has_driver(), reason="a machine without NVIDIA's driver is the subject")
def test_without_a_driver_the_last_line_is_the_command_that_works(shell):
    (shell.folder / "app.py").write_text("import torch\ntorch.ones(1, device='cuda')\n")
    environ = {name: value for name, value in os.environ.items() if name != "TORCHSPAN_WITHOUT_GPU"}
    result = shell("run", "--quiet", "--output", "x", "--", sys.executable, "app.py", "an argument", env=environ)

    assert result.returncode == 1
    command = f"torchspan run --without-gpu -- {shlex.quote(sys.executable)} app.py 'an argument'"
    assert [line for line in result.stderr.splitlines() if line.startswith("torchspan: ")] == [
        f"torchspan: no NVIDIA driver on this machine; try: {command}"
    ]


def test_an_invalid_variable_of_the_file_is_said_once(shell, program):
    environment = {**os.environ, "TORCHSPAN_FILE_MAX_SIZE": "big", "TORCHSPAN_FILE_MODE": "9"}
    result = shell("run", "--quiet", "--output", "x", "--", *program(""), env=environment)

    assert result.stderr.splitlines() == [
        "torchspan: WARNING: Invalid TORCHSPAN_FILE_MAX_SIZE='big', using default 268435456 (expected a positive number of bytes)",
        "torchspan: WARNING: Invalid TORCHSPAN_FILE_MODE='9', using default 600 (expected a file's permissions in octal digits, such as 640)",
    ]


def test_python_without_site_says_that_no_python_with_torchspan_was_started(shell):
    result = shell("run", "--", sys.executable, "-S", "-c", "")

    assert result.stderr == (
        "torchspan: nothing was recorded: no Python process that loads torchspan was started "
        "(another Python interpreter, or python with -S, -I or -E, or no Python at all)\n"
    )


def test_spans_of_the_user_alone_are_shown_with_the_reason_why_there_are_no_others(shell, program):
    command = program("")
    (shell.folder / "app.py").write_text(TRACED.replace('"torchspan"', '"app"'))
    result = shell("run", "--output", "x", "--", *command)

    assert drawn(result.stderr) == (
        f"{DRAWING}torchspan: nothing was compiled: neither torch.compile nor Torch-TensorRT ran; "
        "none of torch, torch_tensorrt, tensorrt and tensorrt_rtx was imported\n"
    )


COUNTS = """
import signal
count = 0
def interrupted(number, frame):
    global count
    count += 1
signal.signal(signal.SIGINT, interrupted)
print("ready", flush=True)
while not count:
    time.sleep(0.01)
time.sleep(0.5)
print(f"interrupted {count} time(s)", flush=True)
"""


def test_control_c_on_a_terminal_reaches_the_program_once(shell, program):
    spawn = "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)"
    run = [sys.executable, "-c", "import sys; from torchspan.cli import main; sys.exit(main())", "run", "--quiet"]
    with subprocess.Popen(
        [sys.executable, "-c", spawn, *run, "--output", "x", "--", *program(COUNTS)],
        cwd=shell.folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as terminal:
        assert terminal.stdout.readline() == b"ready\r\n"
        terminal.stdin.write(b"\x03")
        terminal.stdin.flush()
        out = terminal.stdout.read()

    assert (out, terminal.returncode) == (b"^Cinterrupted 1 time(s)\r\n", 0)


# --- --html -----------------------------------------------------------------------------------------------------------
def test_the_page_is_written_at_the_end_and_named(shell, program):
    result = shell("run", "--html", "app.html", "--quiet", "--", *program(""))
    assert result.returncode == 0
    assert "torchspan: the page is app.html\n" in result.stderr
    assert "<title>app.py" in (shell.folder / "app.html").read_text(encoding="utf-8")


def test_a_file_that_cannot_become_a_page_is_refused_before_the_program_starts(shell, program):
    command = program("open('started', 'w').close()")
    (shell.folder / "mine.html").write_text("mine")
    for target, reason in (
        ("mine.html", "it is not a page, a picture or a Perfetto file that torchspan wrote"),
        ("nowhere/app.html", "No such file or directory"),
    ):
        result = shell("run", "--html", target, "--", *command)
        assert (result.returncode, result.stdout) == (2, "")
        assert f"cannot write {target}: {reason}" in result.stderr
    assert not (shell.folder / "started").exists()
    assert (shell.folder / "mine.html").read_text() == "mine"


def test_of_a_program_that_recorded_nothing_there_is_no_page_and_a_line(shell):
    result = shell("run", "--html", "app.html", "--", sys.executable, "-c", "pass")
    assert result.returncode == 0
    assert "app.html was not written, since nothing was recorded" in result.stderr
    assert not (shell.folder / "app.html").exists()


def test_a_page_that_cannot_be_written_at_the_end_costs_a_line_and_not_the_status(shell, program):
    command = program("open('app.html', 'w').write('mine'); sys.exit(3)")
    result = shell("run", "--html", "app.html", "--", *command)
    assert result.returncode == 3
    assert "cannot write app.html: it is not a page" in result.stderr
    assert (shell.folder / "app.html").read_text() == "mine"
