# SPDX-License-Identifier: Apache-2.0
"""Programs of a few lines, as they run alone and below `torchspan run`."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from torchspan.base.files.folders import Folder
from torchspan.cli.run import environment
from torchspan.start.launched.run_report import read_reports
from torchspan.start.launched.run_settings import RunSettings

RECEIVER = """
# What the program's own exporter receives, as lines of JSON without ids and times: a tree by names.
import json
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult, SimpleSpanProcessor

class Receiver(SpanExporter):
    def __init__(self, file="received.jsonl"):
        self.file, self.names = file, {}

    def export(self, spans):
        with open(self.file, "a") as file:
            for span in spans:
                parent = span.parent and f"{span.parent.trace_id:032x}-{span.parent.span_id:016x}"
                line = {
                    "id": f"{span.context.trace_id:032x}-{span.context.span_id:016x}",
                    "parent": parent,
                    "name": span.name,
                    "scope": span.instrumentation_scope.name,
                    "kind": span.kind.name,
                    "flags": int(span.context.trace_flags),
                    "remote": bool(span.parent and span.parent.is_remote),
                    "attributes": dict(span.attributes),
                    "resource": {k: v for k, v in span.resource.attributes.items() if k != "service.instance.id"},
                    "links": len(span.links),
                    "events": [event.name for event in span.events],
                    "status": span.status.status_code.name,
                }
                file.write(json.dumps(line) + "\\n")
        return SpanExportResult.SUCCESS

def receiving(**arguments):
    provider = TracerProvider(**arguments)
    provider.add_span_processor(SimpleSpanProcessor(Receiver()))
    return provider
"""


@dataclass
class Ran:
    """One program that has ended.

    received: what its own exporter got, as `{name: span}` without ids; parents by name. filed: names, with their parents'
    names, in the file of `run`. reports: those of its processes.
    """

    status: int
    out: str
    err: str
    received: list = field(default_factory=list)
    filed: list = field(default_factory=list)
    reports: list = field(default_factory=list)

    def names(self):
        return [span["name"] for span in self.received]


@pytest.fixture
def program(tmp_path):
    """`program(text)` writes it; then `.alone()` and `.below_run()` run it."""
    return lambda text, *command: Program(tmp_path, text, command)


RUN_SPAN = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Program:
    def __init__(self, folder, text, command=()):
        self.folder = folder
        (folder / "receiver.py").write_text(RECEIVER)
        (folder / "app.py").write_text(text)
        self.command = [sys.executable, *(command or ["app.py"])]

    def alone(self, **variables):
        return self._ran(self._environ(variables))

    def below_run(self, span=RUN_SPAN, exit_s=2.0, **variables):
        file, reports = self.folder / "run.jsonl", self.folder / "reports"
        reports.mkdir(exist_ok=True)
        self.settings = RunSettings("00000000000000aa", str(file), str(reports), span, 1, exit_s)
        ran = self._ran(environment(self._environ(variables), self.settings, {}))
        ran.filed = filed(file)
        ran.reports = read_reports(Folder(str(reports)))
        return ran

    def _environ(self, variables):
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("OTEL_", "TORCHSPAN_", "TRACEPARENT"))}
        return {**clean, **variables}

    def _ran(self, environ):
        received = self.folder / "received.jsonl"
        received.unlink(missing_ok=True)
        done = subprocess.run(
            self.command, cwd=self.folder, env=environ, capture_output=True, text=True, timeout=120, check=False
        )
        return Ran(done.returncode, done.stdout, done.stderr, without_ids(received))


def without_ids(file: Path):
    """The spans in the order in which they ended; ids of parents are their names."""
    if not file.exists():
        return []
    spans = [json.loads(line) for line in file.read_text().splitlines()]
    names = {span["id"]: span["name"] for span in spans}
    for span in spans:
        span["parent"] = span["parent"] and names.get(span["parent"], f"foreign {span['parent']}")
        span.pop("id")
    return spans


def filed(file):
    """(name, name of the parent) of each span in the file of the run; sorted."""
    if not file.exists():
        return []
    spans = []
    for line in file.read_text().splitlines():
        for resource in json.loads(line)["resourceSpans"]:
            for scope in resource["scopeSpans"]:
                spans += scope["spans"]
    names = {span["spanId"]: span["name"] for span in spans}
    names["b7ad6b7169203331"] = "torchspan.run"
    own = [span for span in spans if span["name"] != "torchspan.progress"]
    found = [(span["name"], names.get(span.get("parentSpanId"), span.get("parentSpanId"))) for span in own]
    return sorted(found, key=lambda span: (span[0], span[1] or ""))
