# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: RUF001
# The multiplication sign is part of the expected output.
"""A program that is killed while it compiles or exports: what hung, where, and who waited for it."""

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from support.child import UNMEASURED

pytestmark = pytest.mark.slow

CLI = [sys.executable, "-c", "import sys; from torchspan.cli import main; sys.exit(main())"]

PROGRAM = """
import os, signal, threading, time
import torch

is_compiling = threading.Event()

def request():
    is_compiling.wait(60)
    other(torch.ones(3))

def stuck(graph, inputs):
    is_compiling.set()
    until = time.monotonic() + 30
    while "torch.compile_wait" not in open("trace.jsonl").read() and time.monotonic() < until:
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGKILL)

@torch.compile(backend=stuck)
def slow(x):
    return x.sin() + 1

@torch.compile(backend="eager")
def other(x):
    return x.cos() + 1

threading.Thread(target=request, daemon=True).start()
slow(torch.ones(3))
"""


def end_of(program, folder):
    """What the end of a run of the program prints, and what its file shows."""
    (folder / "app.py").write_text(program)
    base = {name: text for name, text in os.environ.items() if not name.startswith(("OTEL_", "TORCHSPAN_", "COLUMNS"))}

    def torchspan(*words):
        return subprocess.run(
            [*CLI, *words],
            cwd=folder,
            env={**base, **UNMEASURED, "PYTHONIOENCODING": "utf-8"},
            capture_output=True,
            encoding="utf-8",
            timeout=120,
            check=False,
        )

    printed = torchspan("run", "--output", "trace.jsonl", "--", sys.executable, "app.py")
    return SimpleNamespace(err=printed.stderr, shown=torchspan("show", "trace.jsonl").stdout)


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """The end of a run whose program was killed in a backend, while another thread waited for Dynamo's lock."""
    return end_of(PROGRAM, tmp_path_factory.mktemp("killed"))


def test_the_function_whose_compilation_was_killed_has_its_name_file_and_line(killed):
    (row,) = [line.split() for line in killed.shown.splitlines() if line.startswith("1 ")]
    assert row[:4] == ["1", "slow", "app.py:18", "×1"]
    assert row[-3:] == ["did", "not", "end"]


def test_the_thread_that_waited_for_it_has_a_row_with_what_it_was_to_compile(killed):
    (row,) = [line.split("  ") for line in killed.shown.splitlines() if "compile_wait" in line and line[0].isdigit()]
    assert [row[1].strip(), row[2]] == ["torch.compile_wait · other for 0/0", "app.py:22"]


def test_the_death_report_names_the_function_that_was_compiled_and_who_waited(killed):
    assert [line for line in killed.err.splitlines() if line.startswith("torchspan: ")][:2] == [
        "torchspan: SIGKILL in torch.compile_phase backend_compile (torch.compile_frame · slow 0/0 · app.py:18)",
        "torchspan: torch.compile_wait · other for 0/0 · app.py:22 did not end",
    ]


EXPORT = """
import os, signal
import torch

class Net(torch.nn.Module):
    def forward(self, x):
        os.kill(os.getpid(), signal.SIGKILL)

torch.export.export(Net(), (torch.ones(3),))
"""


def test_an_export_that_was_killed_has_the_line_that_called_it(tmp_path):
    ended = end_of(EXPORT, tmp_path)
    (row,) = [row.split("  ") for row in ended.shown.splitlines() if row.startswith("1 ")]
    assert (row[1].strip(), row[-1]) == ("Net", "did not end, called at app.py:9")
    (said,) = [text for text in ended.err.splitlines() if text.startswith("torchspan: SIGKILL")]
    assert said == "torchspan: SIGKILL in torch.export.trace (torch.export · app.py:9 · Net)"
