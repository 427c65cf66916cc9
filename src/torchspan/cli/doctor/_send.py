# SPDX-License-Identifier: Apache-2.0
"""`torchspan doctor --send`: one test trace through the set-up that a program would have."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Mapping
from typing import Any

from torchspan.cli.doctor._check import Check, Context, State
from torchspan.cli.doctor._endpoints import deciding, exporting
from torchspan.cli.doctor._exporters import UnknownExportersError, exporters, known_exporters
from torchspan.cli.doctor._outcomes import meaning
from torchspan.cli.doctor._packages import INSTALL

LIMIT_S = 30.0
"""Seconds for the start of Python, for OpenTelemetry's set-up and for the exporters, which try again for 10 s."""

NAME = "send"


def sent(context: Context, limit_s: float = LIMIT_S) -> Iterable[Check]:
    """With --send, a row with what happened to the trace."""
    if context.send:
        yield _sent(context, limit_s)


def _sent(context: Context, limit_s: float) -> Check:
    if not _has_exporter(context):
        summary = "No test trace was sent: there is no exporter of traces."
        return Check(NAME, State.FAILED, summary, "See exporters.traces.")
    # Their exporters would log alongside that of the trace.
    alone = {"OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none"}
    try:
        done = exporting({**context.environment, **alone}, "send", limit_s=limit_s)
        report = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        summary = f"The test trace was not delivered within {limit_s:g} s."
        return Check(NAME, State.FAILED, summary, "See endpoints.traces.")
    except ValueError:
        summary = f"The process that was to send the test trace ended with status {done.returncode} before it reported the result."
        remedy = "Start any program with `opentelemetry-instrument`, and read what it prints."
        return Check(NAME, State.FAILED, summary, remedy)
    return _row(report, context)


def _has_exporter(context: Context) -> bool:
    """Whether there is one, or OpenTelemetry's set-up fails, which is reported."""
    if context.file is not None:
        return bool(context.file.problem or context.file.node("tracer_provider"))
    try:
        return bool(exporters("traces", context))
    except UnknownExportersError:
        return True


def _row(report: Mapping[str, Any], context: Context) -> Check:
    if report["failure"]:
        summary = f"No test trace was sent: OpenTelemetry's set-up failed: {report['failure']}."
        return Check(NAME, State.FAILED, summary, "See sdk.set_up, sdk.configuration and exporters.traces.", report)
    if not report["is_set"]:
        summary = "No test trace was sent: nothing sets a tracer provider."
        return Check(NAME, State.FAILED, summary, f"{INSTALL}, or see sdk.* and exporters.*.", report)
    if not report["is_enabled"]:
        summary = "No test trace was sent: the tracer for torchspan is disabled."
        return Check(NAME, State.FAILED, summary, "See sdk.enabled, and OTEL_PYTHON_TRACER_CONFIGURATOR.", report)
    if not report["is_sampled"]:
        summary = f"No test trace was sent: the sampler dropped {report['attempts']} of {report['attempts']}."
        return Check(NAME, State.FAILED, summary, "For this test: OTEL_TRACES_SAMPLER=always_on", report)
    if report["outcomes"] != ["accepted"]:
        texts = [meaning(word) for word in report["outcomes"] if word != "accepted"]
        summary = f"The test trace {report['trace_id']} was not delivered: {'; '.join(text for text, _ in texts)}"
        remedy = texts[0].remedy if texts else "See exporters.traces."
        for exporter in known_exporters(context, "traces"):
            remedy = deciding(remedy, exporter, context)
        return Check(NAME, State.FAILED, f"{summary.removesuffix(': ')}.", remedy, report)
    remedy = f"Look for trace {report['trace_id']} of service {report['service']} in your tracing backend."
    return Check(NAME, State.OK, "A test trace was sent, and every exporter reports success.", remedy, report)
