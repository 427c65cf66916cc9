# SPDX-License-Identifier: Apache-2.0
"""What switches tracing off, where the configuration comes from, and variables whose unit or default surprises."""

from __future__ import annotations

import math
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
    names = [row.name for row in SETTINGS]
    options = {str(name): closest(str(name)[:LONGEST_NAME], names) for name in _options(context) if name not in names}
    facts = {"variables": sorted(variables), "options": sorted(options)}
    if not variables and not options:
        yield Check("settings.unknown", State.OK, "Every TORCHSPAN_ variable and option is known.", facts=facts)
        return
    sources = [*variables.items(), *options.items()]
    listed = ", ".join(
        f"{name[:LONGEST_NAME]} (did you mean {meant}?)" if meant else name[:LONGEST_NAME] for name, meant in sources
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


# ------------------------------------------------------------------------------------------------------------------
_LONGEST_TIMEOUT_S = 600.0
"""Above that, milliseconds were probably meant, which the specification has where exporters for Python read seconds."""
_TIMEOUTS = (
    "OTEL_EXPORTER_OTLP_TIMEOUT",
    "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
    "OTEL_EXPORTER_OTLP_METRICS_TIMEOUT",
    "OTEL_EXPORTER_OTLP_LOGS_TIMEOUT",
)


def disabled(context: Context) -> Iterator[Check]:
    """OTEL_SDK_DISABLED, or the file's `disabled`."""
    variable = "OTEL_SDK_DISABLED"
    in_file = context.file is not None and context.file.node("disabled") is True
    value = context.variable(variable)
    facts = {"variable": value or None, "file": in_file}
    if value.lower() == "true":
        yield Check(
            "sdk.enabled",
            State.WARNING,
            f"{variable}={value}: every span and metric is dropped, the program's own included.",
            f"Unset {variable} to trace.",
            facts,
        )
    elif in_file:
        yield Check(
            "sdk.enabled",
            State.WARNING,
            "`disabled: true` in the configuration file: the SDK is not set up, and every span and metric is dropped.",
            "Remove `disabled` from the file to trace.",
            facts,
        )
    else:
        yield Check("sdk.enabled", State.OK, "The SDK is not disabled.", facts=facts)


def file(context: Context) -> Iterator[Check]:
    """OTEL_CONFIG_FILE."""
    file, name = context.file, "sdk.configuration"
    if file is None:
        summary = f"The SDK is configured by variables: {_config_file.VARIABLE} is not set."
        yield Check(name, State.OK, summary, facts={"file": None})
    elif file.problem:
        yield Check(name, State.FAILED, file.problem, file.remedy, {"file": file.path})
    else:
        yield Check(
            name,
            State.OK,
            f"The SDK is configured by the file {file.path}. OpenTelemetry ignores its own variables where the file does "
            "not refer to them.",
            facts={"file": file.path},
        )


def instrumentation(context: Context) -> Iterator[Check]:
    """Whether `opentelemetry-instrument` and `torchspan run` would enable torchspan."""
    name, variable = "instrumentation.enabled", "OTEL_PYTHON_DISABLED_INSTRUMENTATIONS"
    names = [name.strip() for name in context.variable(variable).split(",") if name.strip()]
    options = None if context.file is None else context.file.options()
    instrumentors = plugins("opentelemetry_instrumentor", "torchspan")
    others = sorted({plugin.name for plugin in plugins("opentelemetry_instrumentor")} - {"torchspan"})
    facts = {
        "found": bool(instrumentors),
        "disabled": names,
        "options": sorted(map(str, options or ())),
        "others": others,
    }
    if not instrumentors:
        yield Check(
            name,
            State.FAILED,
            "torchspan's entry points are not installed: `opentelemetry-instrument` does not find its instrumentor, "
            "sampler, id generator and exporter.",
            f"Install torchspan with pip, also from a clone: {INSTALL}",
            facts,
        )
    elif {"*", "torchspan"} & {*names}:
        yield Check(
            name,
            State.WARNING,
            f"{variable}={','.join(names)} disables torchspan.",
            f"Remove {'*' if '*' in names else 'torchspan'} from {variable} to trace.",
            facts,
        )
    elif options is not None and not options.get("enabled", True):
        yield Check(
            name,
            State.WARNING,
            "`enabled: false` in the configuration file disables torchspan.",
            f"Remove it from {_config_file.PLACE} to trace.",
            facts,
        )
    else:
        more = f", and with it {', '.join(others)}" if others else ""
        yield Check(name, State.OK, f"`opentelemetry-instrument` enables torchspan{more}.", facts=facts)


def internal_metrics(context: Context) -> Iterator[Check]:
    """OTEL_PYTHON_SDK_INTERNAL_METRICS_ENABLED: the SDK counts the spans that it loses only if asked to."""
    variable, name = "OTEL_PYTHON_SDK_INTERNAL_METRICS_ENABLED", "sdk.internal_metrics"
    if context.variable(variable).lower() == "true":
        summary = f"{variable}=true: the SDK counts the spans that a full queue or an exporter loses."
        yield Check(name, State.OK, summary, facts={"enabled": True})
        return
    summary = f"{variable} is not `true`: spans that a full queue or an exporter loses are not counted."
    yield Check(name, State.NOTE, summary, f"To count them: {variable}=true", {"enabled": False})


def timeouts(context: Context) -> Iterator[Check]:
    """How long an exporter tries. Nothing else bounds how long it holds up the end of a program."""
    name = "exit.otlp"
    values = {variable: text for variable in _TIMEOUTS if (text := context.variable(variable))}
    facts = {"variables": values, "default_s": 10}
    for variable, text in values.items():
        seconds = _seconds(text)
        if seconds is None:
            summary = f"{variable}={text} is not a number: an exporter over gRPC cannot be created, and the SDK sets up no signal at all."
            yield Check(name, State.FAILED, summary, f"Set {variable} to seconds, such as 10.", facts)
            return
        if seconds > _LONGEST_TIMEOUT_S:
            summary = (
                f"{variable}={text}: exporters for Python read it as seconds, where OpenTelemetry's specification has "
                "milliseconds. With an endpoint that does not answer, a program waits at its end for up to 30 s per signal."
            )
            remedy = f"Set {variable} to seconds, such as {max(seconds / 1000, 1):g}."
            yield Check(name, State.WARNING, summary, remedy, facts)
            return
    summary = (
        f"One export, retries included, takes at most {values.get(_TIMEOUTS[0], '10')} s, also at the end of a program."
    )
    yield Check(name, State.NOTE, summary, facts=facts)


def _seconds(text: str) -> float | None:
    try:
        seconds = float(text)
    except ValueError:
        return None
    return None if math.isnan(seconds) else seconds
