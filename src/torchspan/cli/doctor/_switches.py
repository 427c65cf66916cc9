# SPDX-License-Identifier: Apache-2.0
"""What switches tracing off, or to another provider, and where the configuration comes from."""

from __future__ import annotations

from collections.abc import Iterator

from torchspan import _config_file
from torchspan.cli.doctor._check import Check, Context, State
from torchspan.cli.doctor._packages import INSTALL, plugins


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
    found, name = context.file, "sdk.configuration"
    if found is None:
        summary = f"The SDK is configured by variables: {_config_file.VARIABLE} is not set."
        yield Check(name, State.OK, summary, facts={"file": None})
    elif found.problem:
        yield Check(name, State.FAILED, found.problem, found.remedy, {"file": found.path})
    else:
        yield Check(
            name,
            State.OK,
            f"The SDK is configured by the file {found.path}. OpenTelemetry ignores its own variables where the file does "
            "not refer to them.",
            facts={"file": found.path},
        )


def provider(context: Context) -> Iterator[Check]:
    """The variables with which OpenTelemetry's API makes providers itself."""
    for signal in ("tracer", "meter"):
        variable = f"OTEL_PYTHON_{signal.upper()}_PROVIDER"
        value = context.environment.get(variable)
        found = plugins(f"opentelemetry_{signal}_provider", value or "")
        facts = {"variable": value, "found": found[0].value if found else None}
        if value is None:
            summary = f"The {signal} provider is the one that the configurator or the program sets."
            yield Check(f"sdk.{signal}_provider", State.OK, summary, facts=facts)
        elif not found:
            yield Check(
                f"sdk.{signal}_provider",
                State.FAILED,
                f"{variable}={value} names a provider that is not installed: the first use of OpenTelemetry raises an exception, unless "
                "a provider has been set before.",
                f"Unset {variable}, or install the package that provides it.",
                facts,
            )
        else:
            yield Check(
                f"sdk.{signal}_provider",
                State.NOTE,
                f"{variable}={value}: until something sets another one, the {signal} provider is {found[0].value}.",
                f"Unset {variable}, unless that is intended.",
                facts,
            )


def instrumentation(context: Context) -> Iterator[Check]:
    """Whether `opentelemetry-instrument` and `torchspan run` would enable torchspan."""
    name, variable = "instrumentation.enabled", "OTEL_PYTHON_DISABLED_INSTRUMENTATIONS"
    names = [each.strip() for each in context.variable(variable).split(",") if each.strip()]
    options = None if context.file is None else context.file.options()
    found = plugins("opentelemetry_instrumentor", "torchspan")
    others = sorted({each.name for each in plugins("opentelemetry_instrumentor")} - {"torchspan"})
    facts = {"found": bool(found), "disabled": names, "options": sorted(map(str, options or ())), "others": others}
    if not found:
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
