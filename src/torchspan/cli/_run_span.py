# SPDX-License-Identifier: Apache-2.0
"""The span `torchspan.run`, which stands for the whole program."""

from __future__ import annotations

import io
import logging
import os
import signal
import time
from collections.abc import Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from torchspan.base.version import __version__
from torchspan.cli._child import Ended
from torchspan.reading.traces import Span, read
from torchspan.start.launched.run_settings import RunSettings, parse_traceparent
from torchspan.words import phase, semconv
from torchspan.words.environment_variables import TORCHSPAN_FILE_MAX_SIZE, TORCHSPAN_FILE_MODE
from torchspan.words.settings import resolved_variable

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter

_CONSOLE = "console"


class ProgramRuns(NamedTuple):
    """How many runs of engines there were, and their seconds, summed over threads."""

    number: int
    s: float


class RunSpan:
    """The span of one run. Loads the SDK: made when the program has ended.

    Args:
        ended: How the program did.
        resource: That of the program's spans.
        engines: All runs of engines.
    """

    def __init__(self, settings: RunSettings, ended: Ended, resource: Mapping[str, Any], engines: ProgramRuns) -> None:
        self._settings = settings
        self._span = _readable(settings, ended, resource, engines)
        self.failure = ""
        """Why it could not be written to the file; empty if it was."""

    def write(self) -> Span:
        """Append it to the file of the run, or to one of this process where each has its own, and return it as read.

        A file that cannot be written is not a loss to the drawing: the program's spans are what it lacks then.
        """
        from torchspan.output.sdk._otlp_json import lines
        from torchspan.output.sdk._span_file import SpanFile

        # The program's processes have said what is wrong with the variables.
        size, mode = (resolved_variable(name).value for name in (TORCHSPAN_FILE_MAX_SIZE, TORCHSPAN_FILE_MODE))
        resource = semconv.emitted({semconv.RUN_ID: self._settings.id, semconv.PROCESS_PID: os.getpid()})
        file = SpanFile(self._settings.file, size, mode, resource=lambda: resource)
        span = file.encoder.encode(self._span)
        for error, _ in [*file.append([span]), *file.close()]:
            self.failure = file.why(error)
        return read(io.BytesIO(lines([span]))).records[0]

    def deliver(self, failing: Collection[str]) -> list[str]:
        """Export it to what OTEL_TRACES_EXPORTER names, within the seconds that exporters of `run` have at exit.

        Returns the names of the exporters that did not take it.

        Args:
            failing: Names of exporters that are left out. So is the console, which is the program's output.
        """
        from torchspan.start.launched.exporting import span_exporters
        from torchspan.start.launched.process import Ends

        if not parse_traceparent(self._settings.span)[2] & 1:  # type: ignore[index]
            return []
        # An exporter reports each of its attempts.
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
        deadline = time.monotonic() + self._settings.exit_s
        missing, ends = [], Ends()
        # The program's processes have reported what cannot be made.
        for name, exporter in span_exporters(lambda _failure: None):
            if name not in {_CONSOLE, *failing}:
                missing.append(name)
                ends.add(partial(self._export, name, exporter, missing))
        ends.within(max(deadline - time.monotonic(), 0))
        return list(missing)  # an export that is late may still change it

    def _export(self, name: str, exporter: SpanExporter, missing: list[str]) -> None:
        from opentelemetry.sdk.trace.export import SpanExportResult

        if exporter.export([self._span]) is SpanExportResult.SUCCESS:
            missing.remove(name)


def _readable(settings: RunSettings, ended: Ended, resource: Mapping[str, Any], engines: ProgramRuns) -> ReadableSpan:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    from opentelemetry.trace import SpanContext, SpanKind, Status, TraceFlags

    def context(traceparent: str | None, is_remote: bool) -> SpanContext | None:
        ids = parse_traceparent(traceparent)
        return None if ids is None else SpanContext(*ids[:2], is_remote, TraceFlags(ids[2]))

    return ReadableSpan(
        phase.RUN.name,
        context=context(settings.span, is_remote=False),
        parent=context(os.environ.get("TRACEPARENT"), is_remote=True),
        resource=Resource({**resource, **semconv.emitted({semconv.PROCESS_PID: os.getpid()})}),
        attributes=semconv.emitted(_attributes(ended, engines)),
        kind=SpanKind.INTERNAL,
        instrumentation_scope=InstrumentationScope(semconv.SCOPE_NAME, __version__, semconv.SCHEMA_URL),
        status=Status(),
        start_time=settings.started_ns,
        end_time=settings.started_ns + ended.duration_ns,
    )


def _attributes(ended: Ended, engines: ProgramRuns) -> dict[str, Any]:
    attributes: dict[str, Any] = {semconv.PROCESS_PID: ended.pid}
    if engines.number > 0:
        attributes |= {semconv.RUN_ENGINES_RUNS: engines.number, semconv.RUN_ENGINES_TIME: engines.s}
    if ended.status >= 0:
        return {**attributes, semconv.PROCESS_EXIT_CODE: ended.status}
    name = signal_name(-ended.status).replace(" ", "_")
    return {**attributes, semconv.RUN_SIGNAL: name, semconv.ERROR_TYPE: name}


def signal_name(number: int) -> str:
    """`SIGSEGV`; `signal 35` for one without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
