# SPDX-License-Identifier: Apache-2.0
"""torchspan's settings: what holds for each, and where it comes from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from torchspan._base.spelling import closest
from torchspan._settings import SETTINGS, VARIABLES, Resolved, Setting, Source, describe, resolved, resolved_variables
from torchspan.cli.doctor._check import Check, Context, State

_PREFIX = "TORCHSPAN_"
_SOURCES = {Source.FILE: "the configuration file", Source.DEFAULT: "the default"}
_MOST_LETTERS = 80
"""Of a name that means nothing."""


def settings(context: Context) -> Iterator[Check]:
    """Each setting as a program gets it that gives no argument: option of the file, variable, default."""
    options = _options(context)
    for row in resolved({}, file=options, environment=context.environment):
        if isinstance(row.setting, Setting):
            yield _check(row, row.setting.name, describe(row.setting.name, row.value), _plain(row.value))
    for row in resolved_variables(context.environment):
        name = row.setting.variable.removeprefix(_PREFIX).lower()
        # As text: permissions are octal digits.
        value = context.variable(row.setting.variable) if row.source is Source.VARIABLE else row.setting.default
        yield _check(row, name, value or "not set", value or None)


def _options(context: Context) -> dict[str, Any]:
    options = None if context.file is None else context.file.options()
    return {} if options is None else {name: value for name, value in options.items() if name != "enabled"}


def _check(row: Resolved, name: str, text: str, value: Any) -> Check:
    source = _SOURCES.get(row.source, row.setting.variable)
    facts = {"value": value, "source": row.source.value, "variable": row.setting.variable}
    summary = f"{name} is {text} ({source})."
    if row.refused is not None:
        return Check(f"settings.{name}", State.FAILED, f"{row.refused}.", "Correct the value, or remove it.", facts)
    return Check(f"settings.{name}", State.OK, summary, facts=facts)


def _plain(value: object) -> Any:
    """The value as JSON holds it."""
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def unknown(context: Context) -> Iterator[Check]:
    """Variables and options that torchspan does not have: misspelled, most of them."""
    variables = {row.variable for row in (*SETTINGS, *VARIABLES)}
    names = sorted(name for name in context.environment if name.startswith(_PREFIX) and name not in variables)
    options = {row.name for row in SETTINGS}
    strange = sorted(str(name) for name in _options(context) if name not in options)
    facts = {"variables": names, "options": strange}
    if not names and not strange:
        yield Check("settings.unknown", State.OK, "Every TORCHSPAN_ variable and option is known.", facts=facts)
        return
    found = {**_meant(names, variables), **_meant(strange, options)}
    listed = ", ".join(f"{name} (did you mean {meant}?)" if meant else name for name, meant in found.items())
    yield Check(
        "settings.unknown",
        State.FAILED if any(found.values()) else State.WARNING,
        f"torchspan has no such setting, and ignores: {listed}.",
        "Correct the name, or remove it.",
        facts,
    )


def _meant(names: list[str], known: set[str]) -> Mapping[str, str | None]:
    return {name[:_MOST_LETTERS]: closest(name[:_MOST_LETTERS], known) for name in names}
