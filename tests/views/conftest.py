# SPDX-License-Identifier: Apache-2.0
"""Files of traces, and the pages that are made of them."""

import pytest

from support.browser import Browser
from support.recording import Recording
from torchspan import cli


@pytest.fixture
def recording(tmp_path):
    return Recording(tmp_path / "trace.jsonl")


@pytest.fixture(scope="module")
def browser():
    """One browser for the tests of a file, which are marked with it."""
    with Browser() as browser:
        browser.resize(1300, 1000)
        yield browser


@pytest.fixture
def torchspan(capsys, monkeypatch):
    """Call the command line in this process: `status, out, err = torchspan("show", file)`."""
    for name in ("COLUMNS", "NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYTHONIOENCODING", "utf-8")

    def call(*words):
        status = cli.main([str(word) for word in words])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return call
