# SPDX-License-Identifier: Apache-2.0
"""Spans that a test chooses, and what they say."""

import pytest

from support import first_screen
from support.recording import Recording
from torchspan import answers, traces
from torchspan.reading.answers.drawing import Drawing


@pytest.fixture
def recording(tmp_path):
    return Recording(tmp_path / "trace.jsonl")


@pytest.fixture
def said(recording):
    """What the recorded spans say, as data."""
    return lambda: answers.read(recording.path).answers


@pytest.fixture
def drawn(recording):
    """The drawing of the recorded spans, line by line: `drawn(width)`."""

    def drawn(width):
        lines = Drawing.of(traces.read(recording.path).records).lines(width)
        return ["".join(text for text, _ in line).rstrip() for line in lines]

    return drawn


@pytest.fixture
def findings(drawn):
    """What the table says below its first row about what happened, each paragraph in one line."""
    return lambda: first_screen.findings(drawn(1000))
