# SPDX-License-Identifier: Apache-2.0
"""The threat model and the table of findings name tests; each of them exists."""

import ast
import functools
import re
from pathlib import Path

import pytest

from privacy.findings import FINDINGS

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "explanation" / "threat-model.md").read_text(encoding="utf-8")
NAMED = re.findall(r"`(tests/[^`]+::test_[^`]+)`", PAGE)


@functools.cache
def names_in(file):
    """Names of the tests in a file; none where there is no such file."""
    path = ROOT / file
    tree = ast.parse(path.read_text(encoding="utf-8")) if path.is_file() else ast.Module([], [])
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("name", sorted({*NAMED, *(name for names in FINDINGS.values() for name in names)}))
def test_a_test_that_is_named_exists(name):
    file, _, function = name.partition("::")
    assert function in names_in(file)


def test_each_claim_of_what_is_defended_names_a_test():
    claims = PAGE.partition("## What is defended")[2].partition("\n## ")[0]
    rows = [line for line in claims.splitlines() if line.startswith("| ") and "held by" not in line]
    assert len(rows) >= 15
    assert [row for row in rows if "::test_" not in row] == []


def test_each_finding_of_the_audit_has_a_test():
    assert [finding for finding, names in FINDINGS.items() if not names] == []


def test_the_page_is_found_from_the_readme():
    assert "docs/explanation/threat-model.md" in (ROOT / "README.md").read_text(encoding="utf-8")
