# SPDX-License-Identifier: Apache-2.0
"""Files of traces, written by the real SDK and the real exporter, with ids and times that a test chooses."""

import itertools
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.id_generator import IdGenerator

from support import steps
from torchspan import cli, semconv
from torchspan.sdk import FileSpanExporter

START_NS = 1_795_257_760_000_000_000  # 2026-11-21 10:42:40 UTC


class CountingIds(IdGenerator):
    def __init__(self):
        self._numbers = itertools.count(1)

    def generate_span_id(self):
        return next(self._numbers)

    def generate_trace_id(self):
        return 0xABC << 116 | next(self._numbers)


class Recording:
    """Spans with times in milliseconds since START_NS, written to `path` as they end."""

    def __init__(self, path):
        self.path = str(path)
        resource = Resource.create({"service.name": "app.py"})
        self._provider = TracerProvider(id_generator=CountingIds(), resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(SimpleSpanProcessor(FileSpanExporter(path)))

    def span(
        self,
        name,
        start_ms,
        end_ms,
        attributes=None,
        *,
        parent=None,
        scope=semconv.SCOPE_NAME,
        error=None,
        description=None,
        events=(),
    ):
        tracer = self._provider.get_tracer(scope)
        context = trace.set_span_in_context(parent) if parent is not None else None
        span = tracer.start_span(name, context, attributes=attributes, start_time=START_NS + round(start_ms * 1e6))
        for event, facts in events:
            span.add_event(event, facts, timestamp=START_NS + round(start_ms * 1e6))
        if error is not None:
            kind, message = error
            span.set_status(trace.Status(trace.StatusCode.ERROR, description))
            span.set_attribute(semconv.ERROR_TYPE, kind)
            if message is not None:
                event = {semconv.EXCEPTION_TYPE: kind, semconv.EXCEPTION_MESSAGE: message}
                span.add_event("exception", event, timestamp=START_NS)
        span.end(START_NS + round(end_ms * 1e6))
        return span


@pytest.fixture
def recording(tmp_path):
    return Recording(tmp_path / "trace.jsonl")


@pytest.fixture(autouse=True)
def plain_terminal(monkeypatch):
    for name in ("COLUMNS", "NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYTHONIOENCODING", "utf-8")


@pytest.fixture
def torchspan(capsys):
    """Call the command line in this process: `status, out, err = torchspan("show", file)`."""

    def call(*words):
        status = cli.main([str(word) for word in words])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return call


class Shown(NamedTuple):
    """What `torchspan show` writes: the first screen, and the waterfalls below it."""

    screen: str
    waterfalls: str

    def findings(self):
        """What the first screen says below its rows, line by line, without times of engines and stages."""
        lines = []
        for row in re.split(r"^\d+ .*\n", self.screen, flags=re.MULTILINE)[1:]:
            lines += re.split(r"^   (?:slowest of|time:)", row, maxsplit=1, flags=re.MULTILINE)[0].splitlines()
        return [line.removeprefix("   ") for line in lines]


@pytest.fixture
def shown(torchspan):
    """Show files that can be read: `shown(file).waterfalls`."""

    def call(*words):
        status, out, err = torchspan("show", *words)
        assert (status, err) == (0, "")
        screen, _, waterfalls = out.partition("\n\n")
        return Shown(f"{screen}\n", waterfalls)

    return call


@pytest.fixture
def shell(tmp_path):
    """Call the command line as a process of its own, in an empty folder."""
    folder = tmp_path / "cwd"
    folder.mkdir()

    def call(*words, **options):
        command = [sys.executable, "-m", "torchspan", *map(str, words)]
        options = {"cwd": folder, "capture_output": True, "text": True, "encoding": "utf-8", "timeout": 120, **options}
        return subprocess.run(command, check=False, **options)

    call.folder = Path(folder)
    return call


@pytest.fixture
def lines_run(torchspan):
    """How many lines of Python run in a command."""

    return lambda words: steps.lines_run(torchspan, *words)
