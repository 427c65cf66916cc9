# SPDX-License-Identifier: Apache-2.0
"""`torchspan doctor --send`: one test trace through the configuration that a program started here would have."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from torchspan.cli.doctor._check import Check, Context, State
from torchspan.cli.doctor._packages import INSTALL
from torchspan.environment_variables import TORCHSPAN_RUN

LIMIT_S = 30.0
"""Seconds for the start of a Python, for OpenTelemetry's set-up and for the exporters, which try again for 10 s."""

_NAME = "send"
_PROGRAM = "from torchspan.cli.doctor._send_program import main; main()"


def sent(context: Context, limit_s: float = LIMIT_S) -> Iterable[Check]:
    """With --send, a row with what happened to the trace."""
    if context.send:
        yield _sent(context, limit_s)


def _sent(context: Context, limit_s: float) -> Check:
    try:
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM],
            env=_environment(context.environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # what libraries log there may have credentials
            timeout=limit_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Check(
            _NAME,
            State.FAILED,
            f"The test trace was not delivered within {limit_s:g} s.",
            "See endpoints.traces, and exit.otlp for how long an exporter retries.",
        )
    try:
        report = json.loads(done.stdout)
    except ValueError:
        return Check(
            _NAME,
            State.FAILED,
            f"The process that was to send the test trace ended with status {done.returncode} before it reported the result.",
            "Start any program with `opentelemetry-instrument`, and read what it prints.",
        )
    return _row(report)


def _environment(environment: Mapping[str, str]) -> dict[str, str]:
    """That of a program, without what instruments it before it begins: it is instrumented by itself."""
    own = {name: value for name, value in environment.items() if name != TORCHSPAN_RUN}
    entries = own.pop("PYTHONPATH", "").split(os.pathsep)
    kept = [each for each in entries if each and Path(each).name != "auto_instrumentation"]
    return {**own, **({"PYTHONPATH": os.pathsep.join(kept)} if kept else {})}


def _row(report: Mapping[str, Any]) -> Check:
    exports: list[Mapping[str, Any]] = report["exports"]
    failed = f" Its set-up failed: {report['failure']}." if report["failure"] else ""
    if not report["is_sdk"]:
        what = f"the tracer provider is {report['provider']}, to which OpenTelemetry's exporters do not belong"
        summary = what if report["is_set"] else "nothing sets a tracer provider"
        return Check(
            _NAME, State.FAILED, f"No test trace was sent: {summary}.{failed}", f"{INSTALL}, or see sdk.*.", report
        )
    if not report["is_enabled"]:
        summary = "No test trace was sent: the tracer for torchspan is disabled."
        return Check(_NAME, State.FAILED, summary, "See sdk.enabled, and OTEL_PYTHON_TRACER_CONFIGURATOR.", report)
    if not report["is_sampled"]:
        summary = f"No test trace was sent: the sampler dropped {report['attempts']} of {report['attempts']}."
        return Check(_NAME, State.FAILED, summary, "For this test: OTEL_TRACES_SAMPLER=always_on", report)
    if not exports:
        remedy = "See exporters.traces." if not failed else "See sdk.*, exporters.* and exit.*."
        return Check(_NAME, State.FAILED, f"No test trace was sent: no exporter received it.{failed}", remedy, report)
    answers = "; ".join(f"{each['exporter']}: {each['answer']}" for each in exports)
    after = f" (the {report['attempts']}th that the sampler was asked for)" if report["attempts"] > 1 else ""
    if all(each["is_delivered"] for each in exports):
        found = f"Look for trace {report['trace_id']} of service {report['service']} in your tracing backend."
        state = State.WARNING if failed else State.OK
        return Check(_NAME, state, f"A test trace{after} was sent. {answers}.{failed}", found, report)
    summary = f"The test trace {report['trace_id']}{after} was not delivered. {answers}.{failed}"
    return Check(_NAME, State.FAILED, summary, "See endpoints.traces.", report)
