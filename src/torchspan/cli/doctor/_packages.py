# SPDX-License-Identifier: Apache-2.0
"""What of OpenTelemetry is installed, and whether anything would configure its SDK."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import EntryPoint, PackageNotFoundError, entry_points, version

from torchspan.cli.doctor._check import Check, Context, State

INSTALL = "pip install 'torchspan[auto]'"

READ_BY_THE_CONFIGURATOR = (
    "OTEL_CONFIG_FILE",
    "OTEL_TRACES_EXPORTER",
    "OTEL_METRICS_EXPORTER",
    "OTEL_LOGS_EXPORTER",
    "OTEL_TRACES_SAMPLER",
    "OTEL_PYTHON_ID_GENERATOR",
    "OTEL_EXPERIMENTAL_RESOURCE_DETECTORS",
)
"""Variables that ask for something and that have an effect through a configurator alone, or mostly."""


def installed(distribution: str) -> str | None:
    """The version of an installed distribution, from its metadata; None if it is not there."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def named(group: str, name: str | None = None) -> EntryPoint | None:
    """The entry point of a group that OpenTelemetry takes: the first, or the first of that name; None without one."""
    found = entry_points(group=group) if name is None else entry_points(group=group, name=name)
    return next(iter(found), None)


def sdk(_context: Context) -> Iterator[Check]:
    """Without the SDK, OpenTelemetry's API drops every span."""
    found = installed("opentelemetry-sdk")
    if found is None:
        yield Check(
            "sdk.installed",
            State.FAILED,
            "OpenTelemetry's SDK is not installed: spans and metrics go nowhere.",
            f"Install the SDK, exporters and what configures them: {INSTALL}",
            {"version": None},
        )
        return
    yield Check("sdk.installed", State.OK, f"OpenTelemetry's SDK {found} is installed.", facts={"version": found})


def configurator(context: Context) -> Iterator[Check]:
    """Without a configurator `opentelemetry-instrument` makes no provider."""
    variable = "OTEL_PYTHON_CONFIGURATOR"
    wanted = context.variable(variable) or None
    found = named("opentelemetry_configurator", wanted)
    facts = {"wanted": wanted, "found": None if found is None else found.value}
    if found is not None:
        summary = f"`opentelemetry-instrument` configures the SDK with {found.value}."
        yield Check("sdk.configurator", State.OK, summary, facts=facts)
        return
    asking = [name for name in READ_BY_THE_CONFIGURATOR if context.variable(name)]
    if wanted is not None:
        yield Check(
            "sdk.configurator",
            State.FAILED,
            f"{variable}={wanted} names a configurator that is not installed: nothing configures the SDK.",
            f"Unset {variable}, or install the package that brings {wanted}.",
            facts,
        )
        return
    missing = "No distro and no configurator is installed: `opentelemetry-instrument` configures no SDK"
    yield Check(
        "sdk.configurator",
        State.FAILED if asking else State.WARNING,
        f"{missing}, and {', '.join(asking)} {'have' if len(asking) > 1 else 'has'} no effect there."
        if asking
        else f"{missing}. A program that sets its own provider does not need one.",
        f"Install one: {INSTALL}",
        {**facts, "without_effect": asking},
    )
