# SPDX-License-Identifier: Apache-2.0
"""Whether the endpoints of the OTLP exporters accept what would be sent to them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from urllib.parse import unquote

from torchspan import _config_file
from torchspan._launched.configured import PROTOCOLS
from torchspan.answers.lines import printable
from torchspan.cli.doctor._asking import TIMEOUT_S
from torchspan.cli.doctor._check import Check, Context, State
from torchspan.cli.doctor._exporters import GRPC, HTTP, SIGNALS, Exporter, known_exporters, problem
from torchspan.cli.doctor._outcomes import REFUSALS, meaning
from torchspan.cli.doctor._packages import plugins
from torchspan.cli.doctor._secrets import HIDDEN
from torchspan.environment_variables import TORCHSPAN_RUN

LIMIT_S = 30.0
"""Seconds after which the process that asks is ended. Its requests end after 3 s; a busy machine needs long for its imports."""

_PROGRAM = "from torchspan.cli.doctor._asking import main; main()"
_PREFIX = "OTEL_EXPORTER_OTLP"
_DEFAULTS = {GRPC: "http://localhost:4317", HTTP: "http://localhost:4318"}
_DEFAULT = (
    "No variable sets an endpoint. Set OTEL_EXPORTER_OTLP_ENDPOINT, or OTEL_TRACES_EXPORTER=torchspan_file for a file, "
    "or start the program with `torchspan run`, which needs no endpoint."
)
_LONG_S = 600
_DECIDING = re.compile(r"OTEL_EXPORTER_OTLP_(PROTOCOL|HEADERS|CERTIFICATE|CLIENT_CERTIFICATE|CLIENT_KEY)\b")
_SHOWN = re.compile(r"((?:[A-Za-z][A-Za-z0-9+.-]*://)?)([^/?#]*@)?([^/?#@]*)([/?#][^@]*)?")
"""Of a URL: scheme, user and password, host and port, the rest."""


def reachable(context: Context, limit_s: float = LIMIT_S) -> Iterable[Check]:
    """A row for each OTLP exporter: what its endpoint answers to one request without content. None where nothing is sent."""
    if context.variable("OTEL_SDK_DISABLED").lower() == "true":
        return
    every = known_exporters(context, *SIGNALS)
    chosen = [exporter for exporter in every if exporter.name in (GRPC, HTTP) and problem(exporter) is None]
    outcomes = _ask(chosen, context.environment, limit_s) if chosen else {}
    for exporter in chosen:
        yield _row(exporter, context, outcomes.get(f"{exporter.signal} {exporter.name}", "timeout"))


def exporting(environment: Mapping[str, str], *arguments: str, limit_s: float) -> subprocess.CompletedProcess[bytes]:
    """Run the program that exports, in the environment of a program without what instruments it before it begins.

    Raises subprocess.TimeoutExpired.
    """
    own = {name: value for name, value in environment.items() if name != TORCHSPAN_RUN}
    entries = own.pop("PYTHONPATH", "").split(os.pathsep)
    kept = [entry for entry in entries if entry and Path(entry).name != "auto_instrumentation"]
    return subprocess.run(
        [sys.executable, "-c", _PROGRAM, *arguments],
        env={"GRPC_VERBOSITY": "NONE", **own, **({"PYTHONPATH": os.pathsep.join(kept)} if kept else {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # what libraries log there may have credentials
        timeout=limit_s,
        check=False,
    )


def _ask(chosen: list[Exporter], environment: Mapping[str, str], limit_s: float) -> Mapping[str, str]:
    names = (f"{_PREFIX}_TIMEOUT", *(f"{_PREFIX}_{signal.upper()}_TIMEOUT" for signal in SIGNALS))
    own = {**environment, **dict.fromkeys(names, str(TIMEOUT_S))}
    request = json.dumps([(exporter.signal, exporter.name) for exporter in chosen])
    try:
        outcomes: dict[str, str] = json.loads(exporting(own, "ask", request, limit_s=limit_s).stdout)
    except subprocess.TimeoutExpired:
        return {}
    except ValueError:  # an exporter that cannot be imported has a row of its own
        return dict.fromkeys((f"{exporter.signal} {exporter.name}" for exporter in chosen), "failed to start")
    return outcomes


def _row(exporter: Exporter, context: Context, outcome: str) -> Check:
    url, source = _variable("ENDPOINT", exporter, context)
    address = shown(url or _DEFAULTS[exporter.name])
    text, remedy = meaning(outcome)
    remedy = deciding(remedy, exporter, context)
    state = State.FAILED
    if outcome == "accepted":
        state, text, remedy = State.OK, f"it accepts {exporter.signal}", ""
    # Without one of its own, a signal shares the endpoint that is named for all.
    is_named = source and (source != f"{_PREFIX}_ENDPOINT" or exporter.signal == "traces")
    if state is State.FAILED and not (is_named or exporter.source):
        state = State.WARNING
        remedy = remedy if source else _DEFAULT if exporter.signal == "traces" else "See endpoints.traces."
    headers = sorted(_header_names(exporter, context))
    if outcome in REFUSALS:
        text += f" (headers: {', '.join(headers) or 'none'})"
    protocol = "gRPC" if exporter.name == GRPC else "HTTP"
    source = source or "the exporter's default"
    summary = f"{address} over {protocol} ({source}): {text}."
    facts = {"endpoint": address, "source": source, "headers": headers, "answer": outcome}
    return Check(f"endpoints.{exporter.signal}", state, summary, remedy, facts)


def _variable(name: str, exporter: Exporter, context: Context) -> tuple[str, str]:
    """The value of a variable of OTLP exporters, that of the signal first, and which one it is."""
    for variable in (f"{_PREFIX}_{exporter.signal.upper()}_{name}", f"{_PREFIX}_{name}"):
        if value := context.variable(variable):
            return value, variable
    return "", ""


def deciding(remedy: str, exporter: Exporter, context: Context) -> str:
    """A remedy that names the variables that decide for this exporter: those of its signal win over those for all."""
    if exporter.name in context.variable(exporter.source).split(
        ","
    ):  # it is named itself, and the protocol is not read
        for protocol, name in PROTOCOLS.items():
            remedy = remedy.replace(f"{_PREFIX}_PROTOCOL={protocol}", f"{exporter.source}={name}")
    return _DECIDING.sub(lambda named: _variable(named[1], exporter, context)[1] or named[0], remedy)


def set_up(context: Context, limit_s: float = LIMIT_S) -> Iterable[Check]:
    """What the SDK raises and warns of where a program sets it up with these variables."""
    if not context.environment.get(_config_file.VARIABLE) and plugins("opentelemetry_configurator"):
        try:
            report = json.loads(exporting(context.environment, "set-up", limit_s=limit_s).stdout)
        except (subprocess.TimeoutExpired, ValueError):  # the row of `send` reports it
            return
        said = "; ".join(map(printable, [*_as_seconds(context), *report["warnings"]])).rstrip(".")
        state, summary = State.OK, "OpenTelemetry's set-up warns of nothing."
        if report["failure"]:
            state, summary = State.FAILED, f"OpenTelemetry's set-up fails: {printable(report['failure'])}."
        elif said:
            state, summary = State.WARNING, f"OpenTelemetry's set-up warns: {said}."
        remedy = "" if state is State.OK else "Correct the variable, or install what it names."
        yield Check("sdk.set_up", state, summary, remedy)


def _as_seconds(context: Context) -> Iterator[str]:
    """Timeouts that are meant as milliseconds, as OpenTelemetry's specification has them."""
    for variable in (f"{_PREFIX}_TIMEOUT", *(f"{_PREFIX}_{signal.upper()}_TIMEOUT" for signal in SIGNALS)):
        value = context.variable(variable)
        if value.isdigit() and int(value) >= _LONG_S:
            yield f"{variable}={value} means seconds here, not milliseconds"


def _header_names(exporter: Exporter, context: Context) -> set[str]:
    pairs = (pair.partition("=") for pair in _variable("HEADERS", exporter, context)[0].split(","))
    return {printable(unquote(name).strip().lower()) for name, equals, _ in pairs if equals}


def shown(url: str) -> str:
    """The scheme, host and port of a URL; `***` for user and password.

    A password may have a slash or a question mark that is not encoded: with an `@` behind one, all is left out.
    """
    match = _SHOWN.fullmatch(url)
    if match is None:
        return HIDDEN
    scheme, user, host, _ = match.groups()
    return printable(f"{scheme}{f'{HIDDEN}@' if user else ''}{host}")
