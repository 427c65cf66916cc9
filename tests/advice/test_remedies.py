# SPDX-License-Identifier: Apache-2.0
"""Each remedy that torchspan prints has programs in which the tests follow it, and programs in which it would not help."""

import ast
import re
from pathlib import Path

import pytest

from support.advice import caches, engines, recompilations
from torchspan.reading.answers.remedies import REMEDIES

PROGRAMS = [*recompilations.PROGRAMS, *caches.PROGRAMS, *engines.PROGRAMS]
SOURCE = Path(__file__).resolve().parents[2] / "src" / "torchspan"


@pytest.mark.parametrize("kind", REMEDIES)
def test_each_remedy_has_three_programs_that_follow_it_and_two_that_look_alike(kind):
    programs = [program for program in PROGRAMS if program.kind == kind]
    assert len([program for program in programs if program.is_helped]) >= 3
    assert len([program for program in programs if not program.is_helped]) >= 2


def test_each_program_is_for_a_remedy():
    assert {program.kind for program in PROGRAMS} == REMEDIES.keys()


def remedies_of(module):
    """What a module passes as remedies, as source, without what it takes from the table or passes on."""
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.keyword) and node.arg == "remedy_pieces":
            yield ast.unparse(node.value)


def test_no_answer_has_a_remedy_that_is_not_in_the_table():
    passed = {text for module in (SOURCE / "reading" / "answers").glob("*.py") for text in remedies_of(module)}
    elsewhere = {text for text in passed if "remedies." not in text}
    assert elsewhere == {"() if export else _advice(node)", "self.advice", "remedy"}
    names = {
        name for module in SOURCE.rglob("*.py") for name in re.findall(r'\bremedy\(\s*"(\w+)"', module.read_text())
    }
    assert names == REMEDIES.keys()
