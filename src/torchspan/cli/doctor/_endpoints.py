# SPDX-License-Identifier: Apache-2.0
"""What OpenTelemetry's set-up says, whether the endpoints of the OTLP exporters accept what would be sent to them, and one test trace."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from torchspan.cli.doctor._asking import TIMEOUT_S
from torchspan.cli.doctor._check import OTLP, Check, Context, State
from torchspan.cli.doctor._exporters import GRPC, HTTP, SIGNALS, Exporter, exporters
from torchspan.cli.doctor._packages import plugins
from torchspan.reading.answers.lines import printable
from torchspan.words import config_file
from torchspan.words.environment_variables import TORCHSPAN_RUN

_LIMIT_S = 30.0
"""Seconds after which the process that exports is ended. Requests that ask end after 3 s; a busy machine needs long for its imports."""

_HINT = f"The usual port is 4317 for gRPC and 4318 for HTTP ({OTLP}_PROTOCOL). Variables of one signal win over those for all."
_PROGRAM = "from torchspan.cli.doctor._asking import main; main()"
_DEFAULTS = {GRPC: "http://localhost:4317", HTTP: "http://localhost:4318"}
_UNNAMED = (
    f"No variable sets an endpoint. Set {OTLP}_ENDPOINT, or OTEL_TRACES_EXPORTER=torchspan_file for a file, "
    "or start the program with `torchspan run`, which needs no endpoint."
)
SEND = "send"
_LONG_S = 600
_TIMEOUTS = (f"{OTLP}_TIMEOUT", *(f"{OTLP}_{signal.upper()}_TIMEOUT" for signal in SIGNALS))


def _reported(environment: Mapping[str, str], *arguments: str, limit_s: float) -> dict[str, Any]:
    """What the program that exports reports; `failure` alone where it does not.

    It runs in the environment of a program without what instruments it before it begins.
    """
    own = {name: value for name, value in environment.items() if name != TORCHSPAN_RUN}
    entries = own.pop("PYTHONPATH", "").split(os.pathsep)
    kept = [entry for entry in entries if entry and Path(entry).name != "auto_instrumentation"]
    try:
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM, *arguments],
            env={"GRPC_VERBOSITY": "NONE", **own, **({"PYTHONPATH": os.pathsep.join(kept)} if kept else {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # what libraries log there may have credentials
            timeout=limit_s,
            check=False,
        )
        report: dict[str, Any] = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        return {"failure": f"no result within {limit_s:g} s"}
    except ValueError:
        return {"failure": f"the process ended with status {done.returncode} before it reported a result"}
    return report


def set_up(context: Context, limit_s: float = _LIMIT_S) -> Iterator[Check]:
    """What the SDK raises and warns of where a program sets it up with these variables."""
    if not context.environment.get(config_file.VARIABLE) and plugins("opentelemetry_configurator"):
        report = _reported(context.environment, "set-up", limit_s=limit_s)
        said = [*map(context.secrets.line, report.get("warnings", ())), *_as_seconds(context)]
        state, summary = State.OK, "OpenTelemetry's set-up warns of nothing."
        if said:
            state, summary = State.WARNING, f"OpenTelemetry's set-up warns: {'; '.join(said)}."
        if report["failure"]:
            state, summary = State.FAILED, f"OpenTelemetry's set-up fails: {context.secrets.line(report['failure'])}."
        remedy = "" if state is State.OK else "Correct the variable, or install what it names."
        yield Check("sdk.set_up", state, summary, remedy)


def _as_seconds(context: Context) -> Iterator[str]:
    """Timeouts that are meant as milliseconds, as OpenTelemetry's specification has them."""
    for variable in _TIMEOUTS:
        value = context.variable(variable)
        if value.isdigit() and int(value) >= _LONG_S:
            yield f"{variable}={value} means seconds here, not milliseconds"


def reachable(context: Context, limit_s: float = _LIMIT_S) -> Iterator[Check]:
    """A row for each OTLP exporter: what it says of one request without content. None where nothing is sent."""
    chosen = [exporter for signal in SIGNALS for exporter in exporters(signal, context)]
    chosen = [exporter for exporter in chosen if exporter.name in (GRPC, HTTP) and exporter.is_installed()]
    if chosen and context.variable("OTEL_SDK_DISABLED").lower() != "true":
        environment = {**context.environment, **dict.fromkeys(_TIMEOUTS, str(TIMEOUT_S))}
        request = json.dumps([(exporter.signal, exporter.name) for exporter in chosen])
        report = _reported(environment, "ask", request, limit_s=limit_s)
        for number, exporter in enumerate(chosen):
            outcome = report["failure"] or report["outcomes"][number]
            yield _row(exporter, context, context.secrets.line(outcome))


def _row(exporter: Exporter, context: Context, outcome: str) -> Check:
    url, source = context.for_signal("ENDPOINT", exporter.signal)
    address = context.secrets.line(url or _DEFAULTS[exporter.name])
    pairs = (pair.partition("=") for pair in context.for_signal("HEADERS", exporter.signal)[0].split(","))
    headers = sorted({printable(unquote(name).strip().lower()) for name, equals, _ in pairs if equals})
    state, remedy = (State.FAILED, _HINT) if outcome else (State.OK, "")
    # Without one of its own, a signal shares the endpoint that is named for all.
    is_named = source and (source != f"{OTLP}_ENDPOINT" or exporter.signal == "traces")
    if outcome and not (is_named or exporter.source):
        state, remedy = State.WARNING, _HINT if source or exporter.signal != "traces" else _UNNAMED
    protocol, source = "gRPC" if exporter.name == GRPC else "HTTP", source or "the exporter's default"
    said = outcome or f"it accepts {exporter.signal}"
    if outcome and headers:
        said += f" (headers: {', '.join(headers)})"
    facts = {"endpoint": address, "source": source, "headers": headers, "answer": outcome or "accepted"}
    return Check(f"endpoints.{exporter.signal}", state, f"{address} over {protocol} ({source}): {said}.", remedy, facts)


def sent(context: Context, limit_s: float = _LIMIT_S) -> Iterator[Check]:
    """With --send, a row with what happened to the trace."""
    if context.send:
        # The exporters of other signals would log alongside those of traces.
        environment = {**context.environment, "OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none"}
        report = _reported(environment, "send", limit_s=limit_s)
        facts = {name: context.secrets.line(text) for name, text in report.items()}
        state, summary = State.FAILED, f"The test trace was not delivered: {facts['failure']}."
        remedy = "See the rows that begin with sdk, exporters and endpoints: torchspan doctor --all"
        if not facts["failure"]:
            state, summary = State.OK, "A test trace was sent, and every exporter reports success."
            remedy = f"Look for trace {facts['trace_id']} of service {facts['service']} in your tracing backend."
        yield Check(SEND, state, summary, remedy, facts)
