# SPDX-License-Identifier: Apache-2.0
"""The exporters that a program started here would get: whether they are installed, and whether the file of one can be written."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from torchspan.cli import _output as output
from torchspan.cli.doctor._check import Check, Context, State
from torchspan.cli.doctor._packages import plugins
from torchspan.output.sdk import _path
from torchspan.start.launched.configured import PROTOCOLS
from torchspan.words.environment_variables import TORCHSPAN_FILE
from torchspan.words.settings import value_of

SIGNALS = ("traces", "metrics", "logs")
GRPC, HTTP = "otlp_proto_grpc", "otlp_proto_http"
_DEFAULT_DISTRO = "opentelemetry.distro:OpenTelemetryDistro"
"""It exports all signals by `otlp` where nothing is said."""
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

    def is_installed(self) -> bool:
        """Whether a package has the entry point. Whether it can be imported, the row of the set-up says."""
        return bool(plugins(f"opentelemetry_{self.signal}_exporter", self.name))


def exporters(signal: str, context: Context) -> list[Exporter]:
    """The exporters of a signal, as OpenTelemetry's configurator chooses them by variables. Those of a file are left to `--send`.

    A protocol that OpenTelemetry's SDK for Python does not have stands in brackets.
    """
    source = f"OTEL_{signal.upper()}_EXPORTER"
    names = context.variable(source)
    distros = plugins("opentelemetry_distro", context.variable("OTEL_PYTHON_DISTRO") or None)
    if not names and distros and distros[0].value == _DEFAULT_DISTRO:
        names, source = "otlp", ""
    if context.file is not None or not names or names.lower() == "none":
        return []
    protocol = context.for_signal("PROTOCOL", signal)[0] or "grpc"
    points = {"otlp": PROTOCOLS.get(protocol, f"otlp ({protocol})")}
    return [Exporter(signal, points.get(name.strip(), name.strip()), source) for name in names.split(",")]


def installed(context: Context) -> Iterator[Check]:
    """A row for each signal: its exporters, and whether they are installed."""
    if context.file is not None:
        summary = "Not checked: the configuration file has the exporters."
        yield Check("exporters.traces", State.NOTE, summary, "To test them: torchspan doctor --send")
        return
    for signal in SIGNALS:
        yield _check(signal, exporters(signal, context), context)


def _check(signal: str, chosen: list[Exporter], context: Context) -> Check:
    name, variable = f"exporters.{signal}", f"OTEL_{signal.upper()}_EXPORTER"
    facts = {"exporters": [exporter.name for exporter in chosen]}
    if not chosen:
        asked = "none" if context.variable(variable) else "not set"
        remedy = f"To export {signal}: {variable}=otlp." if signal == "traces" else ""
        return Check(name, State.NOTE, f"No exporter of {signal}. {variable}: {asked}.", remedy, facts)
    listed, source = ", ".join(facts["exporters"]), chosen[0].source
    missing = [exporter.name for exporter in chosen if not exporter.is_installed()]
    if not missing:
        return Check(name, State.OK, f"{listed} ({source or 'default of the distro'}).", "", facts)
    here = sorted({point.name for point in plugins(f"opentelemetry_{signal}_exporter")})
    remedy = f"Installed here: {', '.join(here) or 'none'}; the extra torchspan[auto] installs otlp."
    if missing[0] in _PUBLISHED:
        remedy = f"Install it: pip install opentelemetry-exporter-{missing[0].replace('_', '-')}."
    summary = f"{source or 'The distro'} names {', '.join(missing)}, which is not installed; OpenTelemetry then sets up no signal at all."
    return Check(name, State.FAILED if source else State.WARNING, summary, remedy, facts)


def writable(context: Context) -> Iterator[Check]:
    """A row for the file of the exporter `torchspan_file`, opened as the exporter does it. Makes no file."""
    name, exporter, named = "file.path", "torchspan_file", context.variable(TORCHSPAN_FILE)
    if exporter not in [each.name for each in exporters("traces", context)]:
        if named and context.file is None:
            summary = f"{TORCHSPAN_FILE}={named}: `torchspan run` alone writes it: no exporter of traces is {exporter}."
            remedy = f"To write it without `run`: OTEL_TRACES_EXPORTER={exporter}."
            yield Check(name, State.NOTE, summary, remedy, {"file": named})
        return
    source, named = TORCHSPAN_FILE if named else "default", str(value_of(TORCHSPAN_FILE, context.environment))
    state, summary, remedy = State.OK, f"{exporter} can write {named} ({source}).", ""
    try:
        output.try_file(_path.expand(_path.absolute(named), pid=os.getpid(), time=_path.start_time()))
    except OSError as error:
        remedy = f"Name a file in a folder where you may write: {TORCHSPAN_FILE}=<file>."
        state, summary = State.FAILED, f"{exporter} cannot write {named}: {error.strerror or type(error).__name__}."
    yield Check(name, state, summary, remedy, {"file": named})
