# SPDX-License-Identifier: Apache-2.0
"""What switches tracing off, where the configuration comes from, and torchspan's settings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torchspan import _config_file
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
from torchspan.cli.doctor._packages import INSTALL, plugins

# --- torchspan's settings -------------------------------------------------------------------------------------------
_SOURCES = {Source.FILE: "the configuration file", Source.DEFAULT: "the default"}


def settings(context: Context) -> Iterator[Check]:
    """Each setting as a program gets it that gives no argument: option of the file, variable, default."""
    for row in resolved({}, file=file_options(context), environment=context.environment):
        if isinstance(row.setting, Setting):
            # As text where JSON has no such value.
            plain = row.value if isinstance(row.value, (bool, int, float, str, type(None))) else str(row.value)
            yield _check(row, row.setting.name, describe(row.setting.name, row.value), plain)
    for row in resolved_variables(context.environment):
        name = row.setting.variable.removeprefix(PREFIX).lower()
        # As text: permissions are octal digits.
        value = context.variable(row.setting.variable) if row.source is Source.VARIABLE else row.setting.default
        yield _check(row, name, value or "not set", value or None)


def file_options(context: Context) -> dict[str, Any]:
    """The settings in the configuration file."""
    options = None if context.file is None else context.file.options()
    return {} if options is None else {name: value for name, value in options.items() if name != "enabled"}


def _check(row: Resolved, name: str, text: str, value: Any) -> Check:
    source = _SOURCES.get(row.source, row.setting.variable)
    facts = {"value": value, "source": row.source.value, "variable": row.setting.variable}
    summary = f"{name}: {text} ({source})."
    if row.refused is not None:
        return Check(f"settings.{name}", State.FAILED, f"{row.refused}.", "Correct the value, or remove it.", facts)
    return Check(f"settings.{name}", State.OK, summary, facts=facts)


def unknown(context: Context) -> Iterator[Check]:
    """Variables and options that torchspan does not have: misspelled, most of them."""
    name, names = "settings.unknown", [row.name for row in SETTINGS]
    variables = unknown_variables(context.environment)
    options = {
        str(name): closest(str(name)[:LONGEST_NAME], names) for name in file_options(context) if name not in names
    }
    if not variables and not options:
        yield Check(name, State.OK, "Every TORCHSPAN_ variable and option is known.")
        return
    listed = ", ".join(
        f"{name[:LONGEST_NAME]} (did you mean {meant}?)" if meant else name[:LONGEST_NAME]
        for name, meant in (*variables.items(), *options.items())
    )
    summary = f"torchspan ignores names that are not its settings: {listed}."
    if options or any(variables.values()):
        yield Check(name, State.FAILED, summary, "Correct the name, or remove it.")
        return
    remedy = "Nothing to do if something else reads them: Kubernetes sets such variables for a service named torchspan."
    yield Check(name, State.NOTE, summary, remedy)


# ------------------------------------------------------------------------------------------------------------------
def disabled(context: Context) -> Iterator[Check]:
    """OTEL_SDK_DISABLED, or the file's `disabled`."""
    variable, name, source = "OTEL_SDK_DISABLED", "sdk.enabled", ""
    if context.file is not None and context.file.node("disabled") is True:
        source = "`disabled: true` in the configuration file"
    if context.variable(variable).lower() == "true":
        source = f"{variable}={context.variable(variable)}"
    if source:
        summary = f"{source}: every span and metric is dropped, the program's own included."
        yield Check(name, State.WARNING, summary, "Remove that to trace.")
    else:
        yield Check(name, State.OK, "The SDK is not disabled.")


def file(context: Context) -> Iterator[Check]:
    """OTEL_CONFIG_FILE."""
    file, name = context.file, "sdk.configuration"
    if file is None:
        yield Check(name, State.OK, f"The SDK is configured by variables: {_config_file.VARIABLE} is not set.")
    elif file.problem:
        yield Check(name, State.FAILED, file.problem, file.remedy)
    else:
        summary = (
            f"The SDK is configured by the file {file.path}: exporters, sampler and id generator, too. OpenTelemetry ignores "
            "its own variables where the file does not refer to them."
        )
        yield Check(name, State.OK, summary)


def instrumentation(context: Context) -> Iterator[Check]:
    """Whether `opentelemetry-instrument` and `torchspan run` would enable torchspan."""
    name, variable = "instrumentation.enabled", "OTEL_PYTHON_DISABLED_INSTRUMENTATIONS"
    disabled = [name.strip() for name in context.variable(variable).split(",")]
    options = {} if context.file is None else context.file.options() or {}
    if not plugins("opentelemetry_instrumentor", "torchspan"):
        summary = (
            "torchspan's entry points are not installed: `opentelemetry-instrument` does not find its instrumentor, "
            "sampler, id generator and exporter."
        )
        yield Check(name, State.FAILED, summary, f"Install torchspan with pip, also from a clone: {INSTALL}")
    elif {"*", "torchspan"} & {*disabled}:
        summary = f"{variable}={','.join(disabled)} disables torchspan."
        remedy = f"Remove {'*' if '*' in disabled else 'torchspan'} from {variable} to trace."
        yield Check(name, State.WARNING, summary, remedy)
    elif not options.get("enabled", True):
        summary = "`enabled: false` in the configuration file disables torchspan."
        yield Check(name, State.WARNING, summary, f"Remove it from {_config_file.PLACE} to trace.")
    else:
        others = sorted({plugin.name for plugin in plugins("opentelemetry_instrumentor")} - {"torchspan"})
        more = f", and with it {', '.join(others)}" if others else ""
        yield Check(name, State.OK, f"`opentelemetry-instrument` enables torchspan{more}.")


def internal_metrics(context: Context) -> Iterator[Check]:
    """OTEL_PYTHON_SDK_INTERNAL_METRICS_ENABLED: the SDK counts the spans that it loses only if asked to."""
    variable, name = "OTEL_PYTHON_SDK_INTERNAL_METRICS_ENABLED", "sdk.internal_metrics"
    if context.variable(variable).lower() == "true":
        summary = f"{variable}=true: the SDK counts the spans that a full queue or an exporter loses."
        yield Check(name, State.OK, summary)
        return
    summary = f"{variable} is not `true`: spans that a full queue or an exporter loses are not counted."
    yield Check(name, State.NOTE, summary, f"To count them: {variable}=true")
