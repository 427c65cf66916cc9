# SPDX-License-Identifier: Apache-2.0
"""torchspan's settings: what holds for each, and where it comes from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torchspan._base.spelling import closest
from torchspan._settings import (
    LONGEST_NAME,
    PREFIX,
    SETTINGS,
    Resolved,
    Setting,
    Source,
    describe,
    resolved,
    resolved_variables,
    unknown_variables,
)
from torchspan.cli.doctor._check import Check, Context, State

_SOURCES = {Source.FILE: "the configuration file", Source.DEFAULT: "the default"}


def settings(context: Context) -> Iterator[Check]:
    """Each setting as a program gets it that gives no argument: option of the file, variable, default."""
    options = _options(context)
    for row in resolved({}, file=options, environment=context.environment):
        if isinstance(row.setting, Setting):
            yield _check(row, row.setting.name, describe(row.setting.name, row.value), _plain(row.value))
    for row in resolved_variables(context.environment):
        name = row.setting.variable.removeprefix(PREFIX).lower()
        # As text: permissions are octal digits.
        value = context.variable(row.setting.variable) if row.source is Source.VARIABLE else row.setting.default
        yield _check(row, name, value or "not set", value or None)


def _options(context: Context) -> dict[str, Any]:
    options = None if context.file is None else context.file.options()
    return {} if options is None else {name: value for name, value in options.items() if name != "enabled"}


def _check(row: Resolved, name: str, text: str, value: Any) -> Check:
    source = _SOURCES.get(row.source, row.setting.variable)
    facts = {"value": value, "source": row.source.value, "variable": row.setting.variable}
    summary = f"{name}: {text} ({source})."
    if row.refused is not None:
        return Check(f"settings.{name}", State.FAILED, f"{row.refused}.", "Correct the value, or remove it.", facts)
    return Check(f"settings.{name}", State.OK, summary, facts=facts)


def _plain(value: object) -> Any:
    """The value as JSON holds it."""
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def unknown(context: Context) -> Iterator[Check]:
    """Variables and options that torchspan does not have: misspelled, most of them."""
    variables = unknown_variables(context.environment)
    known = [row.name for row in SETTINGS]
    options = {str(name): closest(str(name)[:LONGEST_NAME], known) for name in _options(context) if name not in known}
    facts = {"variables": sorted(variables), "options": sorted(options)}
    if not variables and not options:
        yield Check("settings.unknown", State.OK, "Every TORCHSPAN_ variable and option is known.", facts=facts)
        return
    found = [*variables.items(), *options.items()]
    listed = ", ".join(
        f"{name[:LONGEST_NAME]} (did you mean {meant}?)" if meant else name[:LONGEST_NAME] for name, meant in found
    )
    is_asked_for = bool(options) or any(variables.values())
    yield Check(
        "settings.unknown",
        State.FAILED if is_asked_for else State.NOTE,
        f"torchspan ignores names that are not its settings: {listed}.",
        "Correct the name, or remove it."
        if is_asked_for
        else "Nothing to do if something else reads them: Kubernetes sets such variables for a service named torchspan.",
        facts,
    )
