# SPDX-License-Identifier: Apache-2.0
"""What switches tracing off, where the configuration comes from, torchspan's settings and plug-ins of the SDK."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torchspan.base.spelling import closest
from torchspan.cli.doctor._check import Check, Context, State
from torchspan.cli.doctor._packages import INSTALL, plugins
from torchspan.output.sdk._rule_texts import parsed
from torchspan.words import config_file
from torchspan.words.settings import (
    LONGEST_NAME,
    SETTINGS,
    Resolved,
    Source,
    describe,
    resolved,
    resolved_variables,
    unknown_variables,
)

_SOURCES = {Source.FILE: "the configuration file", Source.DEFAULT: "the default"}
_SAMPLERS = ("parentbased_torchspan", "torchspan")
_DEFAULT_SAMPLER = "parentbased_always_on"
_DROPPING = ("always_off", "parentbased_always_off", "traceidratio", "parentbased_traceidratio")
_BUILT_IN = ("", "always_on", _DEFAULT_SAMPLER, *_DROPPING)


def settings(context: Context) -> Iterator[Check]:
    """Each setting as a program gets it that gives no argument: option of the file, variable, default."""
    for row in resolved({}, file=context.options, environment=context.environment):
        yield _check(row, row.setting.name, describe(row.setting.name, row.value), row.value)
    for row in resolved_variables(context.environment):
        # As text: permissions are octal digits.
        default = row.setting.default if row.setting.default_text is None else row.setting.default_text
        value = context.variable(row.setting.variable) if row.source is Source.VARIABLE else str(default)
        yield _check(row, row.setting.name, value or "not set", value or None)


def _check(row: Resolved, name: str, text: str, value: Any) -> Check:
    facts = {"value": value, "source": row.source.value, "variable": row.setting.variable}
    source = _SOURCES.get(row.source, row.setting.variable)
    state, summary, remedy = State.OK, f"{name}: {text} ({source}).", ""
    if row.refused is not None:
        state, summary, remedy = State.FAILED, f"{row.refused}.", "Correct the value, or remove it."
    return Check(f"settings.{name}", state, summary, remedy, facts)


def unknown(context: Context) -> Iterator[Check]:
    """Variables and options that torchspan does not have: misspelled, most of them."""
    known = ["enabled", *(row.name for row in SETTINGS)]
    options = {str(name): closest(str(name)[:LONGEST_NAME], known) for name in context.options if name not in known}
    names = {**unknown_variables(context.environment), **options}
    listed = [f"{name[:LONGEST_NAME]}{f' (did you mean {meant}?)' if meant else ''}" for name, meant in names.items()]
    state, summary, remedy = State.OK, "Every TORCHSPAN_ variable and option is known.", ""
    if names:
        state, summary = State.NOTE, f"torchspan ignores names that are not its settings: {', '.join(listed)}."
        # Kubernetes sets variables for a service named torchspan, which resemble none of torchspan's.
        if options or any(names.values()):
            state, remedy = State.FAILED, "Correct the name, or remove it."
    yield Check("settings.unknown", state, summary, remedy)


def disabled(context: Context) -> Iterator[Check]:
    """OTEL_SDK_DISABLED, or the file's `disabled`."""
    variable, state, summary, remedy = "OTEL_SDK_DISABLED", State.OK, "The SDK is not disabled.", ""
    in_file = context.file is not None and context.file.node("disabled") is True
    if in_file or context.variable(variable).lower() == "true":
        source = "`disabled: true` in the configuration file" if in_file else f"{variable}={context.variable(variable)}"
        state, remedy = State.WARNING, "Remove that to trace."
        summary = f"{source}: every span and metric is dropped, the program's own included."
    yield Check("sdk.enabled", state, summary, remedy)


def file(context: Context) -> Iterator[Check]:
    """OTEL_CONFIG_FILE."""
    state, summary, remedy = State.OK, f"The SDK is configured by variables: {config_file.VARIABLE} is not set.", ""
    if context.file is not None:
        summary = f"The SDK is configured by the file {context.file.path}, and reads the variables that the file refers to alone."
        if context.file.problem:
            state, summary, remedy = State.FAILED, context.file.problem, context.file.remedy
    yield Check("sdk.configuration", state, summary, remedy)


def instrumentation(context: Context) -> Iterator[Check]:
    """Whether `opentelemetry-instrument` and `torchspan run` would enable torchspan."""
    variable = "OTEL_PYTHON_DISABLED_INSTRUMENTATIONS"
    names = [name.strip() for name in context.variable(variable).split(",")]
    others = sorted({plugin.name for plugin in plugins("opentelemetry_instrumentor")} - {"torchspan"})
    state, remedy = State.WARNING, "Remove that to trace."
    if not plugins("opentelemetry_instrumentor", "torchspan"):
        state, remedy = State.FAILED, f"Install torchspan with pip, also from a clone: {INSTALL}"
        summary = "torchspan's entry points are not installed: `opentelemetry-instrument` finds none of its plug-ins."
    elif {"*", "torchspan"} & {*names}:
        summary = f"{variable}={','.join(names)} disables torchspan."
    elif not context.options.get("enabled", True):
        summary = f"`enabled: false` in {config_file.PLACE} of the configuration file disables torchspan."
    else:
        more = f", and with it {', '.join(others)}" if others else ""
        state, summary, remedy = State.OK, f"`opentelemetry-instrument` enables torchspan{more}.", ""
    yield Check("instrumentation.enabled", state, summary, remedy)


def sampler(context: Context) -> Iterator[Check]:
    """Which spans are kept, and what torchspan's sampler would do. Nothing where a configuration file has the sampler."""
    variable = "OTEL_TRACES_SAMPLER"
    if context.file is not None:
        return
    configured, argument = context.variable(variable), context.variable(f"{variable}_ARG")
    setting = f"{variable}={configured}" if configured else f"{variable} is not set: {_DEFAULT_SAMPLER} decides"
    state, remedy = State.NOTE, f"To keep every compilation, and sample the rest by rules: {variable}={_SAMPLERS[0]}."
    summary = f"{setting}. It drops compilations below a parent that is not sampled; they remain in the metrics."
    if configured in _SAMPLERS:
        state, remedy = State.OK, ""
        summary = f"{setting}: compilations are kept, other spans sampled by rules ({argument or 'none'})."
        refused = [rule for rule in parsed(argument) if isinstance(rule, str)]
        if refused:
            state, remedy = State.FAILED, "Correct the rules that are ignored, or remove them."
            summary = f"{setting}: the sampler ignores {' It ignores '.join(refused)}"
    elif configured.lower() in _DROPPING and argument not in ("1", "1.0"):
        state = State.WARNING
        summary = f"{setting}, {variable}_ARG={argument}: it keeps compilations no more often than other traces."
    elif configured.lower() not in _BUILT_IN and not plugins("opentelemetry_traces_sampler", configured):
        state = State.FAILED
        summary = f"{setting} names a sampler that is not installed: {_DEFAULT_SAMPLER} decides."
    yield Check("sdk.sampler", state, summary, remedy)


def id_generator(context: Context) -> Iterator[Check]:
    """Where the ids of the program's own spans come from. Nothing where a configuration file has the generator."""
    variable, state, remedy = "OTEL_PYTHON_ID_GENERATOR", State.OK, ""
    if context.file is None:
        if context.variable(variable) != "torchspan":
            state, remedy = State.NOTE, f"To have ids that do not repeat after `random.seed()`: {variable}=torchspan."
        yield Check("sdk.id_generator", state, f"{variable}: {context.environment.get(variable, 'not set')}.", remedy)
