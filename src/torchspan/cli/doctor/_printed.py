# SPDX-License-Identifier: Apache-2.0
"""The rows of `torchspan doctor` as lines and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from torchspan._version import __version__
from torchspan.answers.lines import Line, Style, broken, pad, printable
from torchspan.cli.doctor._check import Check, CheckFunction, Context, State
from torchspan.cli.doctor._secrets import Secrets

VERSION = 1
"""The version of the JSON. It changes when a key changes its meaning or goes away."""

_STYLES = {State.OK: Style.DIM, State.NOTE: Style.PLAIN, State.WARNING: Style.FALLBACK, State.FAILED: Style.ERROR}
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


def lines(rows: Iterable[Check], width: int) -> Iterator[Line]:
    """State, name, what was found, and what to do; at the end how many of each state, and which need a look."""
    names: dict[State, list[str]] = {state: [] for state in reversed(State)}
    yield [(f"torchspan {__version__}", Style.STRONG)]
    for row in rows:
        names[row.state].append(printable(row.name))
        style = _STYLES[row.state]
        yield [(pad(row.state.value, _INDENT), style), (printable(row.name), Style.STRONG)]
        for text, looks in ((row.summary, style), (row.remedy, Style.PLAIN)):
            for piece in broken(printable(text), width - _INDENT) if text else ():
                yield [(f"{' ' * _INDENT}{piece}", looks)]
    yield [("", Style.PLAIN)]
    yield [(", ".join(f"{len(group)} {state.value}" for state, group in names.items()), Style.STRONG)]
    for state in (State.FAILED, State.WARNING):
        for piece in broken(f"{state.value}: {', '.join(names[state])}", width) if names[state] else ():
            yield [(piece, _STYLES[state])]


def document(rows: Iterable[Check]) -> str:
    """The rows as JSON: docs/reference/doctor.md describes it."""
    checks = [{**row._asdict(), "state": row.state.value, "facts": dict(row.facts)} for row in rows]
    return json.dumps({"version": VERSION, "torchspan": __version__, "checks": checks}, indent=2, default=str)


def exit_status(rows: Iterable[Check]) -> int:
    """1 if something that was requested cannot work, else 0."""
    return int(any(row.state is State.FAILED for row in rows))
