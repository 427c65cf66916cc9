# SPDX-License-Identifier: Apache-2.0
"""The exporters that a program started here would get, and whether they can be loaded."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from importlib.metadata import entry_points
from typing import NamedTuple

from torchspan._launched.configured import PROTOCOLS
from torchspan.cli.doctor._check import Check, Context, State
from torchspan.cli.doctor._configuration import silence

SIGNALS = ("traces", "metrics", "logs")
PROTOCOL = "OTEL_EXPORTER_OTLP_PROTOCOL"
GRPC, HTTP = "otlp_proto_grpc", "otlp_proto_http"
_DISTRO = "OTEL_PYTHON_DISTRO"
_DEFAULT_DISTRO = "opentelemetry.distro:OpenTelemetryDistro"
_PUBLISHED = (GRPC, HTTP, "otlp_json_file", "otlp_json_http", "prometheus", "zipkin")
"""Exporters that OpenTelemetry publishes in a package of the same name."""


class Exporter(NamedTuple):
    """One exporter of one signal.

    Attributes:
        name: Of its entry point.
        source: The variable that names it; empty where it is the distro's default.
    """

    signal: str
    name: str
    source: str


class UnknownExportersError(Exception):
    """Which exporters a signal has cannot be said. The message says why and what to do; two sentences."""


def exporters(signal: str, context: Context) -> list[Exporter]:
    """The exporters of a signal, as OpenTelemetry's configurator chooses them by variables. Raises UnknownExportersError."""
    variable = f"OTEL_{signal.upper()}_EXPORTER"
    names = context.variable(variable)
    source = variable
    if not names and _has_default_distro(context):
        names, source = "otlp", ""
    if not names or names.lower() == "none":
        return []
    return [Exporter(signal, _entry_point(name.strip(), signal, context), source) for name in names.split(",")]


def known_exporters(context: Context, *signals: str) -> Iterator[Exporter]:
    """The exporters of these signals. Those that cannot be said have a row of `loadable`, those of a file are left to `--send`."""
    for signal in signals if context.file is None else ():
        with contextlib.suppress(UnknownExportersError):
            yield from exporters(signal, context)


def _has_default_distro(context: Context) -> bool:
    """Whether OpenTelemetry's own distro would run, which exports all signals by `otlp` where nothing is said."""
    name = context.variable(_DISTRO)
    points = [point for point in entry_points(group="opentelemetry_distro") if name in ("", point.name)]
    return bool(points) and points[0].value == _DEFAULT_DISTRO


def _entry_point(name: str, signal: str, context: Context) -> str:
    if name != "otlp":
        return name
    variable = f"OTEL_EXPORTER_OTLP_{signal.upper()}_PROTOCOL"
    variable = variable if context.variable(variable) else PROTOCOL
    protocol = context.variable(variable) or "grpc"
    if protocol not in PROTOCOLS:
        raise UnknownExportersError(
            f"{variable}={protocol} is not a protocol of OpenTelemetry's SDK for Python, which then sets up no "
            f"signal at all. Set it to one of {', '.join(PROTOCOLS)}."
        )
    return PROTOCOLS[protocol]


def loadable(context: Context) -> Iterable[Check]:
    """A row for each signal: its exporters, and whether they can be loaded."""
    if context.file is not None:
        summary = "Not checked: the configuration file has the exporters."
        yield Check(
            "exporters.traces", State.NOTE, summary, "To send a test trace through them: torchspan doctor --send"
        )
        return
    # Before the package grpc is imported: its C core would write what it sees on connections to stderr.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    for signal in SIGNALS:
        yield _check(signal, context)


def _check(signal: str, context: Context) -> Check:
    name = f"exporters.{signal}"
    try:
        chosen = exporters(signal, context)
    except UnknownExportersError as error:
        summary, _, remedy = str(error).partition(". ")
        return Check(name, State.FAILED, f"{summary}.", remedy)
    facts = {"exporters": [exporter.name for exporter in chosen]}
    if not chosen:
        variable = f"OTEL_{signal.upper()}_EXPORTER"
        asked = "none" if context.variable(variable) else "not set"
        remedy = f"To export {signal}: {variable}=otlp." if signal == "traces" else ""
        return Check(name, State.NOTE, f"No exporter of {signal}. {variable}: {asked}.", remedy, facts)
    problems = [row for exporter in chosen if (row := problem(exporter)) is not None]
    if problems:
        state = State.FAILED if any(exporter.source for exporter in chosen) else State.WARNING
        summary = "; ".join([*(text for text, _ in problems), "OpenTelemetry then sets up no signal at all"])
        return Check(name, state, f"{summary}.", problems[0][1], facts)
    listed = ", ".join(exporter.name for exporter in chosen)
    return Check(name, State.OK, f"{listed} ({chosen[0].source or 'default of the distro'}).", "", facts)


def problem(exporter: Exporter) -> tuple[str, str] | None:
    """Why an exporter cannot be loaded, and what to do; None where it can."""
    points = {point.name: point for point in entry_points(group=f"opentelemetry_{exporter.signal}_exporter")}
    install = f"pip install opentelemetry-exporter-{exporter.name.replace('_', '-')}."
    if exporter.name not in points:
        listed = f"Installed here: {', '.join(sorted(points)) or 'none'}; the extra torchspan[auto] installs otlp."
        remedy = f"Install it: {install}" if exporter.name in _PUBLISHED else listed
        return f"{exporter.source or 'The distro'} names {exporter.name}, which is not installed", remedy
    try:
        with silence():
            points[exporter.name].load()
    except Exception as error:
        return (
            f"{exporter.name} cannot be imported: {type(error).__name__}: {error}",
            "Reinstall it and its dependencies.",
        )
    return None
