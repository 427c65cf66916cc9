# SPDX-License-Identifier: Apache-2.0
"""Spans that a test chooses, and what they say."""

import pytest

from support.recording import Recording
from torchspan import answers


@pytest.fixture
def recording(tmp_path):
    return Recording(tmp_path / "trace.jsonl")


@pytest.fixture
def said(recording):
    """What the recorded spans say, as data."""
    return lambda: answers.read(recording.path).answers
