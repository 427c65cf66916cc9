# SPDX-License-Identifier: Apache-2.0
"""The exporters that a program started here would get, and whether they can be loaded."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import entry_points
from typing import Any, NamedTuple

from torchspan._config_file import VARIABLE
from torchspan._launched.configured import PROTOCOLS
from torchspan.cli.doctor._check import Check, Context, State
from torchspan.cli.doctor._configuration import ConfigurationFile, silence

SIGNALS = ("traces", "metrics", "logs")
PROTOCOL = "OTEL_EXPORTER_OTLP_PROTOCOL"
GRPC, HTTP = "otlp_proto_grpc", "otlp_proto_http"
_DISTRO = "OTEL_PYTHON_DISTRO"
_DEFAULT_DISTRO = "opentelemetry.distro:OpenTelemetryDistro"
_IN_FILE = {"otlp_grpc": GRPC, "otlp_http": HTTP, "otlp_file_development": "otlp_json_file"}
"""Exporters of a configuration file by the names of the entry points that hold the same."""

_PUBLISHED = (GRPC, HTTP, "otlp_json_file", "otlp_json_http", "prometheus", "zipkin")
"""Exporters that OpenTelemetry publishes in a package of the same name."""


class Exporter(NamedTuple):
    """One exporter of one signal.

    Attributes:
        name: Of its entry point.
        source: The variable, or the file, that names it; empty where it is the distro's default.
        options: What a configuration file gives it.
    """

    signal: str
    name: str
    source: str
    options: Mapping[str, Any] = {}


class UnknownExportersError(Exception):
    """Which exporters a signal has cannot be said. The message says why and what to do; two sentences."""


def exporters(signal: str, context: Context) -> list[Exporter]:
    """The exporters of a signal, as OpenTelemetry's configurator chooses them. Raises UnknownExportersError."""
    if context.file is not None:
        return list(_declared(signal, context.file))
    variable = f"OTEL_{signal.upper()}_EXPORTER"
    names = context.variable(variable)
    source = variable
    if not names and _has_default_distro(context):
        names, source = "otlp", ""
    if not names or names.lower() == "none":
        return []
    return [Exporter(signal, _entry_point(name.strip(), signal, context), source) for name in names.split(",")]


def known_exporters(context: Context, *signals: str) -> Iterator[Exporter]:
    """The exporters of these signals. Those that cannot be said have a row of `loadable`."""
    for signal in signals:
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


def _declared(signal: str, file: ConfigurationFile) -> Iterator[Exporter]:
    """The exporters that a configuration file declares."""
    provider, holders = {
        "traces": ("tracer_provider", "processors"),
        "metrics": ("meter_provider", "readers"),
        "logs": ("logger_provider", "processors"),
    }[signal]
    for holder in file.node(provider, holders) or ():
        for around in ("batch", "simple", "periodic", "pull"):
            declared = getattr(getattr(holder, around, None), "exporter", None)
            if declared is not None:
                name, options = _named(declared)
                yield Exporter(signal, _IN_FILE.get(name, name), VARIABLE, options)


def _named(declared: Any) -> tuple[str, Mapping[str, Any]]:
    """The one exporter that is set in a node of a configuration file, and its options."""
    for name, options in {**vars(declared), **getattr(declared, "additional_properties", {})}.items():
        if name != "additional_properties" and options is not None:
            return name, options if isinstance(options, Mapping) else dict(vars(options))
    return "console", {}


def loadable(context: Context) -> Iterable[Check]:
    """A row for each signal: its exporters, and whether they can be loaded."""
    # Before the package grpc is imported: its C core would write what it sees on connections to stderr.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    for signal in SIGNALS:
        yield _check(signal, context)


def _check(signal: str, context: Context) -> Check:
    name = f"exporters.{signal}"
    if context.file is not None and context.file.problem:
        summary = "The configuration file cannot be used, so nothing is set."
        return Check(name, State.NOTE, summary, "See sdk.configuration.")
    try:
        chosen = exporters(signal, context)
    except UnknownExportersError as error:
        summary, _, remedy = str(error).partition(". ")
        return Check(name, State.FAILED, f"{summary}.", remedy)
    facts = {"exporters": [exporter.name for exporter in chosen]}
    if not chosen:
        variable = f"OTEL_{signal.upper()}_EXPORTER"
        asked = "none" if context.variable(variable) else "not set"
        where = "The configuration file configures none" if context.file is not None else f"{variable}: {asked}"
        remedy = f"To export {signal}: {variable}=otlp." if signal == "traces" else ""
        return Check(name, State.NOTE, f"No exporter of {signal}. {where}.", remedy, facts)
    problems = [row for exporter in chosen if (row := problem(exporter)) is not None]
    if problems:
        state = State.FAILED if any(exporter.source for exporter in chosen) else State.WARNING
        lost = "OpenTelemetry then sets up no signal at all" if context.file is None else ""
        summary = "; ".join([text for text, _ in problems] + ([lost] if lost else []))
        return Check(name, state, f"{summary}.", problems[0][1], facts)
    listed = ", ".join(exporter.name for exporter in chosen)
    return Check(name, State.OK, f"{listed} ({chosen[0].source or 'default of the distro'}).", "", facts)


def problem(exporter: Exporter) -> tuple[str, str] | None:
    """Why an exporter cannot be loaded, and what to do; None where it can."""
    points = {point.name: point for point in entry_points(group=f"opentelemetry_{exporter.signal}_exporter")}
    install = f"pip install opentelemetry-exporter-{exporter.name.replace('_', '-')}."
    if exporter.name not in points:
        if exporter.name == "console":  # a configuration file makes it itself
            return None
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
