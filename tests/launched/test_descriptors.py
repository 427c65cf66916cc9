# SPDX-License-Identifier: Apache-2.0
"""Descriptors of torchspan's in a program that closes all, gives their numbers to its own files, or mocks `os`."""

import re
import signal

import pytest

SPAN = """
import os, sys
from opentelemetry import trace
def span(name):
    with trace.get_tracer("app").start_as_current_span(name):
        pass
"""

CRASH = "import ctypes; ctypes.string_at(0)"


def test_a_crash_is_not_written_into_a_file_that_was_opened_after_all_were_closed(program, tmp_path):
    data = [tmp_path / f"{number}.db" for number in range(4)]
    for path in data:
        path.write_text("a record of the program")
    app = program(
        f"""
import os
os.closerange(3, 256)
files = [open(f"{{number}}.db", "r+b") for number in range(4)]
{CRASH}
"""
    )
    assert app.below_run().status == -signal.SIGSEGV
    assert [path.read_text() for path in data] == ["a record of the program"] * 4
    (crash,) = (tmp_path / "reports").glob("*.crash")
    assert crash.read_text().startswith("Fatal Python error: Segmentation fault")


TAKEN = """
def numbers():
    found = []
    for number in map(int, os.listdir("/proc/self/fd")):
        try:
            if os.readlink(f"/proc/self/fd/{number}").startswith(os.getcwd()):
                found.append(number)
        except FileNotFoundError:
            pass
    return found

span("before")
taken = numbers()
mine = os.open("mine.db", os.O_RDWR | os.O_CREAT)
os.write(mine, b"a record of the program")
os.lseek(mine, 0, os.SEEK_SET)
for number in taken:
    os.dup2(mine, number)
span("after")
print(len(taken), all(os.path.sameopenfile(mine, number) for number in taken), flush=True)
"""


@pytest.mark.parametrize(("end", "status"), [("", 0), (CRASH, -signal.SIGSEGV)], ids=["ends", "crashes"])
def test_numbers_of_torchspans_that_the_program_gave_to_its_own_file_are_left_alone(program, tmp_path, end, status):
    ran = program(SPAN + TAKEN + end).below_run()
    assert (ran.status, ran.out, ran.err) == (status, "3 True\n", "")
    assert (tmp_path / "mine.db").read_text() == "a record of the program"
    assert sorted(name for name, _ in ran.filed) == ["after", "before"]


MOCKED = """
from unittest import mock
names = ["os.open", "os.write", "os.close", "os.fstat", "os.lstat", "os.read", "os.pread", "os.ftruncate", "os.replace",
    "os.unlink", "os.pipe", "os.fdopen", "os.mkdir", "fcntl.flock", "fcntl.fcntl", "resource.getrlimit", "tempfile.TemporaryFile"]
for name in names:
    with mock.patch(name, return_value={result}) as mocked:
        span(name)
    print(name, mocked.call_count)
"""


@pytest.mark.parametrize("result", ["mock.MagicMock()", "0", "os.dup(1)"])
def test_mocks_of_the_program_in_place_of_the_systems_functions_are_not_called(program, result):
    app = program(SPAN + MOCKED.replace("{result}", result))
    ran = app.below_run()
    assert (ran.status, ran.out, ran.err) == (0, app.alone().out, "")
    assert len(ran.filed) == 17


def test_a_process_id_that_the_program_mocks_is_not_that_of_its_spans_or_of_its_report(program, tmp_path):
    """The end said that the spans were missing from the file: they were there with the other id."""
    ran = program(
        f"{SPAN}\nfrom unittest import mock\nwith mock.patch('os.getpid', return_value=1234):\n    span('work')\n"
        "print(os.getpid())"
    ).below_run()
    (report,) = ran.reports
    assert (report.pid, report.ended, len(ran.filed)) == (int(ran.out), 1, 1)
    assert re.findall(r'"process.pid","value":{"intValue":"(\d+)"}', (tmp_path / "run.jsonl").read_text()) == [
        ran.out.strip()
    ]
