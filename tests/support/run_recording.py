# SPDX-License-Identifier: Apache-2.0
"""Files as `torchspan run` writes them, by the real SDK and the real processor, with ids and times a test chooses."""

import itertools
import json
import os

from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.id_generator import IdGenerator

from torchspan import phase
from torchspan.sdk import RunFileProcessor
from torchspan.words import semconv

START_NS = 1_795_257_760_000_000_000  # 2026-11-21 10:42:40 UTC
RUN_ID = "0123456789abcdef"


class CountingIds(IdGenerator):
    def __init__(self, first=1):
        self._numbers = itertools.count(first)

    def generate_span_id(self):
        return next(self._numbers)

    def generate_trace_id(self):
        return 0xABC << 116 | next(self._numbers)


class RunRecording:
    """One process below `torchspan run`. Times in milliseconds since START_NS; a span that is not ended was open."""

    def __init__(self, path, *, run_id=RUN_ID, service="app.py", first_id=1):
        self.path = str(path)
        self._provider = TracerProvider(
            id_generator=CountingIds(first_id), resource=Resource({"service.name": service}), shutdown_on_exit=False
        )
        self._provider.add_span_processor(RunFileProcessor(path, run_id))

    def start(
        self, name, start_ms, attributes=None, *, parent=None, scope=None, links=(), kind=trace.SpanKind.INTERNAL
    ):
        """A span that is open. Spans with the name of a phase are torchspan's."""
        phases = {each.name: each for each in phase.PHASES}
        found = phases.get(name.partition(" ")[0])
        scope = scope or (semconv.SCOPE_NAME if found or name.startswith("torchspan.") else "app")
        attributes = dict(attributes or {})
        if found is not None and found.keep:
            attributes.setdefault(semconv.KEEP, True)
        context = trace.set_span_in_context(parent) if parent is not None else None
        return self._provider.get_tracer(scope).start_span(
            name, context, kind, attributes, [trace.Link(each) for each in links], at(start_ms)
        )

    def span(self, name, start_ms, end_ms, attributes=None, **options):
        """A span that has ended."""
        span = self.start(name, start_ms, attributes, **options)
        self.end(span, end_ms)
        return span

    @staticmethod
    def end(span, end_ms):
        span.end(at(end_ms))

    def heartbeat(self, work, at_ms, running, running_ms, **attributes):
        """What torchspan writes below `work`, a span that is open, at each heartbeat."""
        facts = {
            semconv.KEEP: True,
            semconv.PROGRESS_WORK: work.name,
            semconv.PROGRESS_ELAPSED: (at(at_ms) - work.start_time) / 1e9,
            semconv.PROGRESS_RUNNING: running,
            semconv.PROGRESS_RUNNING_ELAPSED: running_ms / 1000,
            semconv.PROGRESS_NUMBER: 1,
        }
        facts |= {getattr(semconv, key): value for key, value in attributes.items()}
        return self.span("torchspan.progress", at_ms, at_ms, facts, parent=work)


RUN = trace.NonRecordingSpan(
    trace.SpanContext(0xFEED << 112 | 1, 0xFEED << 48 | 1, is_remote=True, trace_flags=trace.TraceFlags(1))
)
"""The parent of what starts below `torchspan.run` without a parent of its own."""


def write_run(path, start_ms, end_ms, *, run_id=RUN_ID, pid=999, **attributes):
    """The line that `torchspan run` itself writes; attributes: values by key, `_` for `.` in it."""
    context = RUN.get_span_context()
    span = {
        "traceId": f"{context.trace_id:032x}",
        "spanId": f"{context.span_id:016x}",
        "name": "torchspan.run",
        "startTimeUnixNano": str(at(start_ms)),
        "endTimeUnixNano": str(at(end_ms)),
        "attributes": [_attribute(key.replace("_", "."), value) for key, value in attributes.items()],
    }
    resource = {"attributes": [_attribute("torchspan.run.id", run_id), _attribute("process.pid", pid)]}
    scopes = [{"scope": {"name": "torchspan"}, "spans": [span]}]
    with open(path, "a") as file:
        file.write(json.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": scopes}]}) + "\n")


def _attribute(key, value):
    return {"key": key, "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}}


def at(ms):
    return START_NS + round(ms * 1e6)


def as_process(path, pid):
    """Have the file say that another process wrote it."""
    text = path.read_text()
    path.write_text(text.replace(f'"intValue":"{os.getpid()}"', f'"intValue":"{pid}"'))
