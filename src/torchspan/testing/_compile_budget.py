# SPDX-License-Identifier: Apache-2.0
"""What a test may compile: a file next to the test, without times, places, texts of the program and names that change from run to run."""

from __future__ import annotations

import json
from pathlib import Path

from torchspan.reading.answers import Report
from torchspan.reading.answers._attributes import number
from torchspan.reading.answers._compiled import Compiled
from torchspan.reading.comparison._facts import ComparedFact, Facts
from torchspan.reading.comparison._sides import works_of
from torchspan.words import phase, semconv

FORMAT = "torchspan.budget/1"
_KINDS = ("coverage", "engines", "fallback", "breaks", "recompiles")
_UPDATE = "run pytest --torchspan-update"
_Budget = dict[str, dict[str, str]]
"""By compilation and by subject, what there is, in words."""


def check(file: Path, test: str, trace: Report) -> None:
    """Compare what a test has compiled with its budget.

    Args:
        file: The file of budgets.
        test: The name of the test in it.
        trace: What the test has compiled.

    Raises:
        AssertionError: The test compiled something else, or has no budget. The message has each difference, with the line of an operator.
    """
    __tracebackhide__ = True
    now, why = _budget(trace)
    budget = _read(file).get(test)
    if budget is None:
        raise AssertionError(f"{test} has no budget in {file.name}; {_UPDATE} to write it")
    before, after = (
        {(work, subject): text for work, texts in side.items() for subject, text in texts.items()}
        for side in (budget, now)
    )
    lines = [
        f"{key[0]}: {key[1]}: budget {before.get(key, 'none')} → now {after.get(key, 'none')}{why.get(key, '')}"
        for key in sorted({*before, *after})
        if before.get(key) != after.get(key)
    ]
    if lines:
        raise AssertionError("\n  ".join([f"other than its budget in {file.name}; if it is meant, {_UPDATE}:", *lines]))


def update(file: Path, test: str, trace: Report) -> None:
    """Write what a test has compiled into the file of budgets. Raises AssertionError if it compiled nothing."""
    tests = {**_read(file), test: _budget(trace)[0]}
    document = {"format": FORMAT, "tests": tests}
    file.write_text(json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")


def _read(file: Path) -> dict[str, _Budget]:
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
        if document["format"] == FORMAT:
            return dict(document["tests"])
    except FileNotFoundError:
        return {}
    except (ValueError, LookupError, TypeError):
        pass
    raise AssertionError(f"{file} is not a file of budgets, {FORMAT}; remove it, and {_UPDATE}")


def _budget(trace: Report) -> tuple[_Budget, dict[tuple[str, str], str]]:
    """What was compiled, and by compilation and subject what explains it."""
    budget: _Budget = {}
    reasons: dict[tuple[str, str], str] = {}
    works = {key: work for key, work in works_of(trace.traces).items() if work.is_compilation}
    for key, work in sorted(works.items()):
        name = " ".join((key.what, key.name, "" if key.inputs.isdigit() else key.inputs)).strip()
        facts = {key.subject: fact for key, fact in Facts.of(work).facts.items() if key.kind in _KINDS}
        budget.setdefault(name, {}).update({subject: _text(fact) for subject, fact in facts.items()} | _layers(work))
        reasons |= {(name, subject): f" ({fact.why})" for subject, fact in facts.items() if fact.why}
    if not budget:
        raise AssertionError("nothing was compiled in this test, so it has no budget; compile in the test itself")
    return budget, reasons


def _text(fact: ComparedFact) -> str:
    """`3 of 5`, or a number and its reasons: the text of a fact with its classes."""
    classes = sorted({part[0] for part in fact.content if isinstance(part, tuple) and part[0]})
    return " ".join([fact.text, *classes])


def _layers(work: Compiled) -> dict[str, str]:
    builds = [node.span.attributes for node in work.every if node.span.name == phase.BUILD_ENGINE.name]
    layers = sum(number(attributes, semconv.NETWORK_LAYERS) or 0 for attributes in builds)
    return {"layers": f"{layers:.0f}"} if builds else {}
