# SPDX-License-Identifier: Apache-2.0
"""Files of traces, and the pages that are made of them."""

import pytest

from support.browser import Browser
from support.recording import Recording


@pytest.fixture
def recording(tmp_path):
    return Recording(tmp_path / "trace.jsonl")


@pytest.fixture(scope="module")
def browser():
    """One browser for the tests of a file, which are marked with it."""
    with Browser() as browser:
        browser.resize(1300, 1000)
        yield browser
