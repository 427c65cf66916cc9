# SPDX-License-Identifier: Apache-2.0
"""The name of a test is a sentence that can be read at a glance."""

import re
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
_NAME = re.compile(r"^ *(?:async )?def (test_\w+)", re.MULTILINE)


def test_no_name_of_a_test_is_longer_than_ninety_characters():
    names = [name for file in TESTS.rglob("*.py") for name in _NAME.findall(file.read_text("utf-8"))]
    assert len(names) > 1000
    assert [name for name in names if len(name) > 90] == []
