# SPDX-License-Identifier: Apache-2.0
"""The rows of `torchspan doctor` as lines and as JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator

from torchspan.base.version import __version__
from torchspan.cli.doctor._check import Check, CheckFunction, Context, State
from torchspan.cli.doctor._endpoints import SEND
from torchspan.reading.answers.lines import Line, Style, broken, pad, printable

VERSION = 1
"""The version of the JSON. It changes when a key changes its meaning or goes away."""

_STYLES = {State.OK: Style.DIM, State.NOTE: Style.PLAIN, State.WARNING: Style.FALLBACK, State.FAILED: Style.ERROR}
_INDENT = 9
"""Columns of the longest state, and two."""


def rows(checks: Iterable[CheckFunction], context: Context) -> Iterator[Check]:
    """What the checks found, in their order, without credentials. A check that raises is a row."""
    hide = context.secrets.hide
    for check in checks:
        for row in _rows_of(check, context):
            yield row._replace(summary=hide(row.summary), remedy=hide(row.remedy), facts=hide(row.facts))


def _rows_of(check: CheckFunction, context: Context) -> Iterator[Check]:
    try:
        yield from check(context)
    except (Exception, SystemExit) as error:
        summary = f"This check itself failed: {type(error).__name__}: {error}"
        remedy = "Please report it, and include this line. The other rows are valid."
        yield Check(f"doctor.{check.__name__}", State.FAILED, summary, remedy)


def lines(rows: Iterable[Check], width: int, encoding: str = "utf-8", *, lists_all: bool) -> Iterator[Line]:
    """State, name, what was found, and what to do; at the end how many rows of each state.

    Args:
        lists_all: Rows of every state. Otherwise those that need a look and the result of a test trace.
    """
    counts: Counter[State] = Counter()
    yield [(f"torchspan {__version__}", Style.STRONG)]
    for row in rows:
        counts[row.state] += 1
        if lists_all or row.state in (State.FAILED, State.WARNING) or row.name == SEND:
            yield from _lines_of(row, width, encoding)
    yield [("", Style.PLAIN)]
    counted = ", ".join(f"{counts[state]} {state.value}" for state in reversed(State))
    for piece in broken(counted if lists_all else f"{counted}; torchspan doctor --all lists every check", width):
        yield [(piece, Style.STRONG)]


def _lines_of(row: Check, width: int, encoding: str) -> Iterator[Line]:
    style = _STYLES[row.state]
    yield [(pad(row.state.value, _INDENT), style), (printable(row.name), Style.STRONG)]
    for text, looks in ((row.summary, style), (row.remedy, Style.PLAIN)):
        for piece in broken(printable(text, encoding), width - _INDENT) if text else ():
            yield [(f"{' ' * _INDENT}{piece}", looks)]


def document(rows: Iterable[Check]) -> str:
    """The rows as JSON: docs/reference/doctor.md describes it."""
    checks = [{**row._asdict(), "state": row.state.value, "facts": dict(row.facts)} for row in rows]
    return json.dumps({"version": VERSION, "torchspan": __version__, "checks": checks}, indent=2, default=str)


def exit_status(rows: Iterable[Check]) -> int:
    """1 if something that was requested cannot work, else 0."""
    return int(any(row.state is State.FAILED for row in rows))
