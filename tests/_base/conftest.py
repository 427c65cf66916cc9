# SPDX-License-Identifier: Apache-2.0
"""What tests of files and folders share."""

import pytest


@pytest.fixture
def victim(tmp_path):
    """A file that must stay as it is."""
    file = tmp_path / "victim"
    file.write_text("precious")
    yield file
    assert file.read_text() == "precious"
