# SPDX-License-Identifier: Apache-2.0
"""What of OpenTelemetry is installed, and whether anything would configure its SDK."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint, PackageNotFoundError, entry_points, version
from typing import Any

from torchspan.cli.doctor._check import Check, Context, State

INSTALL = "pip install 'torchspan[auto]'"

CONFIGURED = (
    "OTEL_CONFIG_FILE",
    "OTEL_TRACES_EXPORTER",
    "OTEL_METRICS_EXPORTER",
    "OTEL_LOGS_EXPORTER",
    "OTEL_PYTHON_ID_GENERATOR",
)
"""Variables that ask for something and that a configurator alone reads."""


def installed(distribution: str) -> str | None:
    """The version of an installed distribution, from its metadata; None if it is missing."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def plugins(group: str, name: str | None = None) -> list[EntryPoint]:
    """The entry points of a group, or those of them that have this name, in the order in which OpenTelemetry sees them."""
    points = _entry_points(tuple(sys.path))
    return list(points.select(group=group) if name is None else points.select(group=group, name=name))


@functools.lru_cache(maxsize=1)
def _entry_points(_search_path: tuple[str, ...]) -> Any:  # `SelectableGroups` before Python 3.12
    """Those of all distributions on the path: reading them takes longer than the rest of doctor."""
    return entry_points()


def sdk(_context: Context) -> Iterator[Check]:
    """Without the SDK, OpenTelemetry's API drops every span."""
    name, version = "sdk.installed", installed("opentelemetry-sdk")
    if version is None:
        summary = "OpenTelemetry's SDK is not installed: spans and metrics go nowhere."
        remedy = f"Install the SDK, exporters and what configures them: {INSTALL}"
        yield Check(name, State.FAILED, summary, remedy, {"version": None})
        return
    yield Check(name, State.OK, f"OpenTelemetry's SDK {version} is installed.", facts={"version": version})


def configurator(context: Context) -> Iterator[Check]:
    """Without a configurator `opentelemetry-instrument` makes no provider."""
    name, configurators = "sdk.configurator", plugins("opentelemetry_configurator")
    if configurators:
        summary = f"`opentelemetry-instrument` configures the SDK with {configurators[0].value}."
        yield Check(name, State.OK, summary)
        return
    asking = [variable for variable in CONFIGURED if context.variable(variable)]
    effect = f"{', '.join(asking)} {'have' if len(asking) > 1 else 'has'} no effect there"
    yield Check(
        name,
        State.FAILED if asking else State.WARNING,
        "No configurator is installed: nothing configures the SDK under `opentelemetry-instrument`, "
        + (f"and {effect}." if asking else "unless the program does it."),
        f"Install OpenTelemetry's own: {INSTALL}",
    )


def ddtrace(context: Context) -> Iterator[Check]:
    """Another tracer that may take torchspan's spans. Nothing where it does not."""
    version = installed("ddtrace")
    if version is not None and context.variable("DD_TRACE_OTEL_ENABLED").lower() in ("1", "true"):
        yield Check(
            "conflicts.ddtrace",
            State.WARNING,
            f"ddtrace {version} is installed and DD_TRACE_OTEL_ENABLED is set: where ddtrace sets its tracer provider, "
            "torchspan's spans go to ddtrace. OTEL_TRACES_EXPORTER, the sampler and the id generator have no effect on them.",
            "To export through OpenTelemetry: unset DD_TRACE_OTEL_ENABLED.",
            {"version": version},
        )
