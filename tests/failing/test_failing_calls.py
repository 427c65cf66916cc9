# SPDX-License-Identifier: Apache-2.0
"""Each call of torchspan's functions fails in turn, and the program does not notice. `make failing-calls` tries all of them."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import torchspan
from failing.scripts import SCRIPTS
from support.child import UNMEASURED
from support.failing_calls import ABOVE_THE_GUARDS

PROGRAM = Path(__file__).with_name("program.py")
SLOW = {"tensorrt_compiles": 1, "tensorrt_backends": 1, "compiles": 3, "heartbeats": 4}
SAMPLES = {name: 8 if name.startswith("phases") else 12 for name in SCRIPTS} | SLOW
SAMPLES["observed"] += 3
"""Tries of each script: 200 in all, few of those that take a second or more."""
CONTROL = "unguarded"
"""The script whose calls nothing guards: what a difference looks like."""

LINES_LIMIT = {"Guard.call": 12, "Guard._end_again": 14}
"""How long a function above the guards may be, in lines of code, where that is not 10: the guard has one body for each of its two jobs."""
ABOVE = [(module, name) for module, names in ABOVE_THE_GUARDS.items() for name in names]


@pytest.fixture(scope="module")
def reports():
    """The report on each script."""
    scripts = (*(f"{name}={tries}" for name, tries in SAMPLES.items()), CONTROL)
    done = subprocess.run(
        [sys.executable, PROGRAM, *scripts], capture_output=True, text=True, check=False, env=UNMEASURED, timeout=600
    )
    assert done.returncode == 0, done.stderr
    return {report["script"]: report for report in map(json.loads, done.stdout.splitlines())}


def test_200_calls_fail():
    assert sum(SAMPLES.values()) == 200


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_call_of_torchspan_that_fails_changes_nothing_for_the_program(reports, script):
    assert reports[script]["tries"] == SAMPLES[script]
    assert reports[script]["different"] == []


def test_a_call_that_nothing_guards_is_found(reports):
    kinds = {
        (error, kind)
        for place, error, kind, _ in reports[CONTROL]["different"]
        if place == "torchspan.words.semconv._emitted.identifier"
    }
    assert ("MemoryError", "result") in kinds
    assert ("KeyboardInterrupt", "result") not in kinds  # which is the program's


def functions(tree, outer=()):
    """(qualified name without `<locals>`, node) of each function."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Lambda):
            yield ".".join((*outer, "<lambda>")), node
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            path = (*outer, node.name)
            if not isinstance(node, ast.ClassDef):
                yield ".".join(path), node
            yield from functions(node, path)
        else:
            yield from functions(node, outer)


@pytest.mark.parametrize(("module", "name"), ABOVE, ids=lambda part: part)
def test_a_function_above_the_guards_is_short(module, name):
    path = Path(torchspan.__file__).parent.joinpath(*module.split("."))
    source = path.with_suffix(".py") if path.with_suffix(".py").exists() else path / "__init__.py"
    nodes = [node for found, node in functions(ast.parse(source.read_text(encoding="utf-8"))) if found == name]
    assert nodes, f"{source} has no {name}"
    for node in nodes:
        body = node.body if isinstance(node.body, list) else [node.body]
        has_docstring = isinstance(node.body, list) and ast.get_docstring(node) is not None
        parts = [part for statement in body[has_docstring:] for part in ast.walk(statement)]
        assert len({part.lineno for part in parts if hasattr(part, "lineno")}) <= LINES_LIMIT.get(name, 10)
