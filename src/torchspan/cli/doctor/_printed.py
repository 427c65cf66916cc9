# SPDX-License-Identifier: Apache-2.0
"""The rows of `torchspan doctor` as lines and as JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator

from torchspan._version import __version__
from torchspan.answers.lines import Line, Style, broken, pad, printable
from torchspan.cli.doctor import _send
from torchspan.cli.doctor._check import Check, CheckFunction, Context, State
from torchspan.cli.doctor._secrets import Secrets

VERSION = 1
"""The version of the JSON. It changes when a key changes its meaning or goes away."""

_STYLES = {State.OK: Style.DIM, State.NOTE: Style.PLAIN, State.WARNING: Style.FALLBACK, State.FAILED: Style.ERROR}
_NEEDS_A_LOOK = (State.FAILED, State.WARNING)
_PASSED, _DEFAULT, _NOTES = (
    ("check passed", "checks passed"),
    ("setting at its default", "settings at their default"),
    ("note", "notes"),
)
"""What a last line counts, as one and as several."""
_INDENT = 9
"""Columns of the longest state, and two."""


def rows(checks: Iterable[CheckFunction], context: Context) -> Iterator[Check]:
    """What the checks found, in their order, without credentials. A check that raises is a row."""
    secrets = Secrets(context)
    for check in checks:
        try:
            for row in check(context):
                yield _without(secrets, row)
        except (Exception, SystemExit) as error:
            yield _without(secrets, _raised(check, error))


def _raised(check: CheckFunction, error: BaseException) -> Check:
    name = getattr(check, "__name__", type(check).__name__).strip("_")
    return Check(
        f"doctor.{name}",
        State.FAILED,
        f"This check itself failed: {type(error).__name__}: {error}",
        "Please report it, and include this line. The other rows are valid.",
    )


def _without(secrets: Secrets, row: Check) -> Check:
    return Check(
        row.name, row.state, secrets.hide(row.summary), secrets.hide(row.remedy), secrets.hide(dict(row.facts))
    )


def lines(rows: Iterable[Check], width: int, encoding: str = "utf-8", *, lists_all: bool) -> Iterator[Line]:
    """State, name, what was found, and what to do.

    Args:
        lists_all: Rows of every state; at the end how many of each, and which need a look. Otherwise rows that need a look and the
            result of a test trace; at the end how many others there are.
    """
    names: dict[State, list[str]] = {state: [] for state in reversed(State)}
    others: Counter[tuple[str, str]] = Counter()
    yield [(f"torchspan {__version__}", Style.STRONG)]
    for row in rows:
        names[row.state].append(printable(row.name))
        if lists_all or row.state in _NEEDS_A_LOOK or row.name == _send.NAME:
            yield from _lines_of(row, width, encoding)
        else:
            others[_kind(row)] += 1
    yield [("", Style.PLAIN)]
    if not lists_all:
        counts = [f"{others[kind]} {kind[others[kind] > 1]}" for kind in (_PASSED, _DEFAULT, _NOTES) if others[kind]]
        for piece in broken(f"{', '.join(counts)}; torchspan doctor --all lists them", width) if counts else ():
            yield [(piece, Style.STRONG)]
        return
    yield [(", ".join(f"{len(group)} {state.value}" for state, group in names.items()), Style.STRONG)]
    for state in _NEEDS_A_LOOK:
        for piece in broken(f"{state.value}: {', '.join(names[state])}", width) if names[state] else ():
            yield [(piece, _STYLES[state])]


def _lines_of(row: Check, width: int, encoding: str) -> Iterator[Line]:
    style = _STYLES[row.state]
    yield [(pad(row.state.value, _INDENT), style), (printable(row.name), Style.STRONG)]
    for text, looks in ((row.summary, style), (row.remedy, Style.PLAIN)):
        for piece in broken(printable(text, encoding), width - _INDENT) if text else ():
            yield [(f"{' ' * _INDENT}{piece}", looks)]


def _kind(row: Check) -> tuple[str, str]:
    if row.state is State.NOTE:
        return _NOTES
    return _DEFAULT if row.facts.get("source") == "default" else _PASSED


def document(rows: Iterable[Check]) -> str:
    """The rows as JSON: docs/reference/doctor.md describes it."""
    checks = [{**row._asdict(), "state": row.state.value, "facts": dict(row.facts)} for row in rows]
    return json.dumps({"version": VERSION, "torchspan": __version__, "checks": checks}, indent=2, default=str)


def exit_status(rows: Iterable[Check]) -> int:
    """1 if something that was requested cannot work, else 0."""
    return int(any(row.state is State.FAILED for row in rows))
