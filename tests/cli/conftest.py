# SPDX-License-Identifier: Apache-2.0
"""The command line, and what it writes."""

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from support import first_screen, steps
from support.recording import Recording
from torchspan import cli


@pytest.fixture
def recording(tmp_path):
    return Recording(tmp_path / "trace.jsonl")


@pytest.fixture(autouse=True)
def plain_terminal(monkeypatch):
    for name in ("COLUMNS", "NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYTHONIOENCODING", "utf-8")


@pytest.fixture
def torchspan(capsys):
    """Call the command line in this process: `status, out, err = torchspan("show", file)`."""

    def call(*words):
        status = cli.main([str(word) for word in words])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return call


class Shown(NamedTuple):
    """What `torchspan show` writes: the first screen, and the waterfalls below it."""

    screen: str
    waterfalls: str


@pytest.fixture
def shown(torchspan):
    """Show files that can be read: `shown(file).waterfalls`."""

    def call(*words):
        status, out, err = torchspan("show", *words)
        assert (status, err) == (0, "")
        screen, _, waterfalls = out.partition("\n\n")
        return Shown(f"{screen}\n", waterfalls)

    return call


@pytest.fixture
def findings(shown):
    """What the first screen says below a row about what happened, line by line: `findings(file)`."""
    return lambda path, number=1: first_screen.findings(shown(path).screen.splitlines(), number)


@pytest.fixture
def shell(tmp_path):
    """Call the command line as a process of its own, in an empty folder."""
    folder = tmp_path / "cwd"
    folder.mkdir()

    def call(*words, **options):
        command = [sys.executable, "-m", "torchspan", *map(str, words)]
        options = {"cwd": folder, "capture_output": True, "text": True, "encoding": "utf-8", "timeout": 120, **options}
        return subprocess.run(command, check=False, **options)

    call.folder = Path(folder)
    return call


@pytest.fixture
def lines_run(torchspan):
    """How many lines of Python run in a command."""

    return lambda words: steps.lines_run(torchspan, *words)
