# SPDX-License-Identifier: Apache-2.0
"""Signals and job control under `torchspan run`: as for the program alone."""

import contextlib
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

CLI = [sys.executable, "-c", "import sys; from torchspan.cli import main; sys.exit(main())"]
RUN = [*CLI, "run", "--quiet"]
TRACED = "from opentelemetry import trace; trace.get_tracer('torchspan').start_span('work').end()"

# Without `site` there are no packages: the program starts at once, and nothing of torchspan's is in it.
PROGRAM = """
import os, signal, sys
def got(number, frame):
    os.write(1, signal.Signals(number).name.encode() + b"\\n")
for name in sys.argv[1].split():
    signal.signal(getattr(signal, name), got)
os.write(1, b"ready\\n")
while line := sys.stdin.readline():
    os.write(1, b"read " + line.encode())
"""
NAMES = [
    *("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2"),
    *("SIGWINCH", "SIGALRM", "SIGABRT", "SIGTSTP", "SIGCONT"),
]


@pytest.fixture(autouse=True)
def _give_up_after_two_minutes():
    """What waits for a line that does not come is a failure, and holds up no other test."""

    def give_up(_number, _frame):
        raise TimeoutError("no answer for two minutes")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(120)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def as_from_a_shell():
    """What a shell starts in the background ignores SIGINT, `nohup` SIGHUP; children inherit that."""
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def started(folder, *command, prepare=as_from_a_shell, **options):
    """A command in a session of its own, without a terminal."""
    return subprocess.Popen(
        list(map(str, command)),
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
        preexec_fn=prepare,  # noqa: PLW1509 - sets signals alone
        **options,
    )


def children(pid):
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def until_it_reads(pid):
    """Wait until the program below this process, or that process itself, sleeps in its read.

    A signal that finds Python between two of its instructions before the read has its handler called after the read.
    """
    while below := children(pid):
        pid = below[-1]
    until(lambda: Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "S")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """`torchspan run` around a program that writes down each signal that it gets."""
    folder = tmp_path_factory.mktemp("signals")
    with started(
        folder, *RUN, "--output", "x", "--", sys.executable, "-S", "-c", PROGRAM, " ".join([*NAMES, "SIGRTMAX"])
    ) as process:
        assert process.stdout.readline() == "ready\n"
        yield process
        process.stdin.close()
        assert process.wait(timeout=60) == 0


def to_the_process_group(pid, number):
    os.killpg(pid, number)


def to_run_alone(pid, number):
    os.kill(pid, number)


def to_each_process_by_itself(pid, number):
    """As systemd stops the processes of a control group."""
    for process in [pid, *children(pid)]:
        os.kill(process, number)


def to_each_process_from_the_last(pid, number):
    for process in [pid, *children(pid)][::-1]:
        os.kill(process, number)


def to_the_program_alone(pid, number):
    os.kill(children(pid)[-1], number)


def by_the_programs_name(pid, number):
    subprocess.run(["pkill", f"-{int(number)}", "--session", str(pid), "-f", "ready"], check=True)


def by_torchspans_name(pid, number):
    subprocess.run(["pkill", f"-{int(number)}", "--session", str(pid), "-f", "torchspan.cli"], check=True)


def test_each_signal_that_is_sent_to_run_reaches_the_program_once(run):
    assert seen(run, to_run_alone, *NAMES) == NAMES


def test_each_signal_that_is_sent_to_the_process_group_reaches_the_program(run):
    assert set(seen(run, to_the_process_group, *NAMES)) == set(NAMES)


@pytest.mark.parametrize("send", [to_the_program_alone, by_torchspans_name])
def test_a_signal_that_is_sent_to_one_of_both_reaches_the_program_once(run, send):
    assert seen(run, send, "SIGTERM") == ["SIGTERM"]


@pytest.mark.parametrize("send", [to_each_process_by_itself, to_each_process_from_the_last, by_the_programs_name])
def test_a_signal_that_is_sent_to_both_one_after_the_other_reaches_the_program(run, send):
    assert set(seen(run, send, "SIGTERM")) == {"SIGTERM"}


def seen(run, send, *names):
    """What the program gets when these signals are sent one after another."""
    lines = []
    for name in names:
        until_it_reads(run.pid)
        send(run.pid, getattr(signal, name))
        lines.append(run.stdout.readline().strip())
    # What was passed on without need comes before what is passed on afterwards.
    for _ in range(2):  # Python may call the handlers of two signals that it finds together in either order
        until_it_reads(run.pid)
        run.send_signal(signal.SIGRTMAX)
        lines += [line.strip() for line in iter(run.stdout.readline, "SIGRTMAX\n")]
    return lines


def test_timeout_interrupts_the_program(tmp_path):
    command = ["timeout", "--signal", "INT", "600", *RUN, "--output", "x", "--"]
    process = started(tmp_path, *command, sys.executable, "-S", "-c", PROGRAM, "SIGINT SIGRTMAX")
    with process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGALRM)  # its own alarm clock
        assert process.stdout.readline() == "SIGINT\n"
        process.stdin.close()
        assert set(process.stdout) <= {"SIGINT\n"}
    assert process.returncode == 124


TO_ITS_OWN_GROUP = """
import os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGRTMIN, signal.SIGRTMAX])
os.killpg(0, signal.SIGRTMIN)
print("sent", flush=True)
signal.sigwait([signal.SIGRTMAX])
print(len(list(iter(lambda: signal.sigtimedwait([signal.SIGRTMIN], 0), None))))
"""


def test_a_signal_of_the_program_to_its_own_group_reaches_it_once(tmp_path):
    """One of those that are counted where several wait."""
    command = [*RUN, "--output", "x", "--", sys.executable, "-S", "-c", TO_ITS_OWN_GROUP]
    with started(tmp_path, *command) as process:
        assert process.stdout.readline() == "sent\n"
        process.send_signal(signal.SIGRTMAX)
        assert process.stdout.read() == "1\n"
    assert process.returncode == 0


def test_a_thread_that_takes_signals_inside_run_neither_keeps_them_nor_hides_the_programs_end(tmp_path):
    """What a `sitecustomize` starts, such as an exporter of OpenTelemetry's, is there before torchspan is imported."""
    (tmp_path / "sitecustomize.py").write_text(
        "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()"
    )
    environ = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [*RUN, "--output", "x", "--", sys.executable, "-S", "-c", PROGRAM, "SIGTERM SIGRTMAX"]
    with started(tmp_path, *command, env=environ) as process:
        assert process.stdout.readline() == "ready\n"
        for send, number in ((to_run_alone, signal.SIGTERM), (to_the_program_alone, signal.SIGKILL)):
            to_run_alone(process.pid, signal.SIGSTOP)  # while `run` does not wait, the thread is offered the signals
            until(lambda: is_stopped(process.pid))
            send(process.pid, number)
            to_run_alone(process.pid, signal.SIGCONT)
            if number == signal.SIGTERM:
                assert process.stdout.readline() == "SIGTERM\n"
        assert process.wait() == -signal.SIGKILL


def test_a_program_that_handles_a_signal_ignored_by_nohup_gets_it(tmp_path):
    def as_nohup_does():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    command = [*RUN, "--output", "x", "--", sys.executable, "-S", "-c", PROGRAM, "SIGHUP SIGRTMAX"]
    process = started(tmp_path, *command, prepare=as_nohup_does)
    with process:
        assert process.stdout.readline() == "ready\n"
        assert seen(process, to_run_alone, "SIGHUP") == ["SIGHUP"]
        process.stdin.close()


def test_the_program_ignores_and_blocks_the_signals_that_it_would_without_run(tmp_path):
    def unusual():
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_DFL)
        for number in (signal.SIGHUP, signal.SIGUSR1, signal.SIGCHLD):
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGUSR2])

    command = ["grep", "Sig[BIC]", "/proc/self/status"]
    with started(tmp_path, *command, prepare=unusual) as alone:
        expected = alone.stdout.read()
    with started(tmp_path, *RUN, "--output", "x", "--", *command, prepare=unusual) as below:
        assert below.stdout.read() == expected
    assert below.returncode == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_signal_to_the_group_that_ends_the_program_ends_run_alike(tmp_path, number):
    environ = {**os.environ, "TMPDIR": str(tmp_path)}
    program = ["sh", "-c", "echo ready; exec sleep 60"]
    with started(tmp_path, *RUN, "--output", "x", "--", *program, env=environ) as process:
        assert process.stdout.readline() == "ready\n"
        os.killpg(process.pid, number)

        assert process.wait(timeout=60) == -number


@pytest.mark.fault("processes", "SIGKILL of torchspan run")
def test_sigkill_of_run_alone_leaves_the_spans_for_show_and_no_program(tmp_path):
    environ = {**os.environ, "TMPDIR": str(tmp_path)}
    program = [sys.executable, "-c", f"{TRACED}\nprint('ready', flush=True); import time; time.sleep(60)"]
    with started(tmp_path, *RUN, "--output", "x.jsonl", "--", *program, env=environ) as process:
        assert process.stdout.readline() == "ready\n"
        process.kill()

        assert process.stdout.read() == ""  # the program held the pipe
    shown = subprocess.run([*CLI, "show", "x.jsonl"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "work" in shown.stdout


@pytest.mark.parametrize("kill", [os.kill, os.killpg])
def test_the_next_run_removes_the_folder_of_one_that_was_killed_and_no_other(tmp_path, kill):
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    environ = {**os.environ, "TMPDIR": str(temporary)}
    program = ["sh", "-c", "echo ready; exec cat"]
    with (
        started(tmp_path, *RUN, "--output", "x", "--", *program, env=environ) as running,
        started(tmp_path, *RUN, "--output", "y", "--", *program, env=environ) as killed,
    ):
        assert running.stdout.readline() == killed.stdout.readline() == "ready\n"
        kill(killed.pid, signal.SIGKILL)
        assert killed.stdout.read() == ""  # the program has ended as well
        assert len(list(temporary.iterdir())) == 2
        subprocess.run([*RUN, "--output", "z", "--", "true"], cwd=tmp_path, env=environ, check=True)
        assert len(list(temporary.iterdir())) == 1
        running.stdin.close()
    assert list(temporary.iterdir()) == []


def is_stopped(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


@contextlib.contextmanager
def stopped_by_its_number(folder):
    """`torchspan run` around a program that another process has stopped: `run` waits."""
    process = started(folder, *RUN, "--output", "x", "--", sys.executable, "-S", "-c", PROGRAM, "SIGCONT SIGRTMAX")
    with process:
        assert process.stdout.readline() == "ready\n"
        until_it_reads(process.pid)
        to_the_program_alone(process.pid, signal.SIGSTOP)
        until(lambda: is_stopped(children(process.pid)[-1]))
        yield process
        process.stdin.close()


def test_a_program_that_is_stopped_and_continued_by_its_number_gets_what_is_sent_to_run(tmp_path):
    with stopped_by_its_number(tmp_path) as process:
        to_the_program_alone(process.pid, signal.SIGCONT)
        assert process.stdout.readline() == "SIGCONT\n"
        assert seen(process, to_run_alone) == []
    assert process.returncode == 0


def test_a_program_that_is_killed_while_it_is_stopped_ends_run(tmp_path):
    with stopped_by_its_number(tmp_path) as process:
        to_the_program_alone(process.pid, signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL


@pytest.mark.parametrize("continue_", [to_the_process_group, to_each_process_by_itself, to_run_alone])
def test_a_stopped_program_is_continued_by_a_sigcont_however_it_is_sent(tmp_path, continue_):
    with stopped_by_its_number(tmp_path) as process:
        continue_(process.pid, signal.SIGCONT)
        assert process.stdout.readline() == "SIGCONT\n"
        more = seen(process, to_run_alone)
        assert more == [] if continue_ is to_run_alone else set(more) <= {"SIGCONT"}
    assert process.returncode == 0


@pytest.mark.parametrize("stop", [to_the_process_group, to_run_alone])
def test_run_whose_stopped_program_is_continued_after_it_was_stopped_itself_continues(tmp_path, stop):
    """SIGSTOP, which no process can handle."""
    with stopped_by_its_number(tmp_path) as process:
        stop(process.pid, signal.SIGSTOP)
        until(lambda: is_stopped(process.pid))
        to_the_process_group(process.pid, signal.SIGCONT)
        assert process.stdout.readline() == "SIGCONT\n"
        assert set(seen(process, to_run_alone)) <= {"SIGCONT"}
    assert process.returncode == 0


def until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


# What a shell does with one job: the terminal is the job's until that stops; then a line says how to continue.
SHELL = """
import os, signal, sys
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
job = os.fork()
if job == 0:
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpid())
    for number in (signal.SIGTTOU, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    os.execvp(sys.argv[1], sys.argv[1:])
while True:
    _, status = os.waitpid(job, os.WUNTRACED)
    if not os.WIFSTOPPED(status):
        print("ended", os.waitstatus_to_exitcode(status), flush=True)
        break
    os.tcsetpgrp(0, os.getpgrp())
    print("stopped", signal.Signals(os.WSTOPSIG(status)).name, flush=True)
    if sys.stdin.readline() == "fg\\n":
        os.tcsetpgrp(0, job)
    os.killpg(job, signal.SIGCONT)
"""

ALONE = []


class Terminal:
    """A terminal with a shell that has one job."""

    def __init__(self, folder, prefix, program, *arguments):
        self.pid, self._descriptor = pty.fork()
        if self.pid == 0:
            with contextlib.suppress(BaseException):
                os.chdir(folder)
                os.environ["PYTHON_COLORS"] = "0"  # of tracebacks, from Python 3.13 on
                words = [sys.executable, "-S", "-c", program, *arguments]
                os.execv(sys.executable, [sys.executable, "-S", "-c", SHELL, *prefix, *words])
            os._exit(1)
        settings = termios.tcgetattr(self._descriptor)
        settings[3] &= ~termios.ECHO
        termios.tcsetattr(self._descriptor, termios.TCSANOW, settings)
        self._text = ""

    def types(self, text):
        os.write(self._descriptor, text.encode())

    def presses(self, key):
        """Type a key that is a signal, or the end, for a program that reads."""
        until_it_reads(self.pid)
        self.types(key)

    def is_resized(self):
        until_it_reads(self.pid)
        fcntl.ioctl(self._descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))

    def shows(self, line):
        """Wait for a line, and return those before it."""
        while f"{line}\r\n" not in self._text:
            self._text += os.read(self._descriptor, 4096).decode()
        before, _, self._text = self._text.partition(f"{line}\r\n")
        return before.split("\r\n")[:-1]

    def close(self):
        os.close(self._descriptor)
        os.waitpid(self.pid, 0)


@pytest.mark.parametrize("prefix", [ALONE, [*RUN, "--output", "x", "--"]], ids=["alone", "run"])
def test_a_terminal_stops_continues_resizes_interrupts_and_feeds_the_program(tmp_path, prefix):
    terminal = Terminal(tmp_path, prefix, PROGRAM, "SIGINT SIGQUIT SIGWINCH SIGCONT")

    assert terminal.shows("ready") == []
    terminal.presses("\x1a")
    assert terminal.shows("stopped SIGTSTP") == []
    terminal.types("fg\n")
    assert terminal.shows("SIGCONT") == []
    terminal.types("hello\n")
    assert terminal.shows("read hello") == []
    terminal.is_resized()
    assert terminal.shows("SIGWINCH") == []
    terminal.presses("\x03")
    assert terminal.shows("SIGINT") == []
    terminal.presses("\x1a")
    assert terminal.shows("stopped SIGTSTP") == []
    terminal.types("bg\n")  # continues to read, which a job in the background may not
    assert terminal.shows("stopped SIGTTIN") == ["SIGCONT"]
    terminal.types("fg\n")
    assert terminal.shows("SIGCONT") == []
    terminal.presses("\x1c")
    assert terminal.shows("SIGQUIT") == []
    terminal.presses("\x04")
    assert [line for line in terminal.shows("ended 0") if not re.match("torchspan: ", line)] == []
    terminal.close()


@pytest.mark.parametrize("prefix", [ALONE, [*RUN, "--output", "x", "--"]], ids=["alone", "run"])
def test_a_program_that_handles_control_z_is_not_stopped_and_dies_of_control_c(tmp_path, prefix):
    terminal = Terminal(tmp_path, prefix, PROGRAM, "SIGTSTP")

    assert terminal.shows("ready") == []
    terminal.presses("\x1a")
    assert terminal.shows("SIGTSTP") == []
    terminal.presses("\x03")
    assert "KeyboardInterrupt" in terminal.shows(f"ended {-signal.SIGINT}")
    terminal.close()


SUSPENDED = """
import os, signal, subprocess
number = os.getpid()
helper = subprocess.Popen(["sh", "-c", f"sleep 0.5; kill -CONT {number}"])
os.kill(number, signal.SIGTSTP)
helper.wait()
print("continued", flush=True)
"""


@pytest.mark.parametrize("prefix", [ALONE, [*RUN, "--output", "x", "--"]], ids=["alone", "run"])
def test_a_program_that_suspends_itself_is_a_stopped_job_until_another_process_continues_it(tmp_path, prefix):
    terminal = Terminal(tmp_path, prefix, SUSPENDED)
    assert terminal.shows("stopped SIGTSTP") == []
    assert terminal.shows("continued") == []
    terminal.types("bg\n")
    assert [line for line in terminal.shows("ended 0") if not re.match("torchspan: ", line)] == []
    terminal.close()
