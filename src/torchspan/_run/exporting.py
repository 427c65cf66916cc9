# SPDX-License-Identifier: Apache-2.0
"""Exporters that `run` makes: how many spans they delivered, and an end that does not wait for them for long."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence

from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from torchspan._run import sdk_private

FILE_EXPORTER = "torchspan_file"
"""Left out: the file of the run has everything that it would write."""

DELAY_MS = 1000
"""Between batches: a program that a signal ends loses what is still in the queue."""

QUEUE = 65_536
"""A compilation at detail `passes` ends many spans at once, and a full queue drops the oldest, the roots' children."""


class Delivery(SpanProcessor):
    """Spans on their way to an exporter that OTEL_TRACES_EXPORTER names.

    name: the exporter's.
    """

    def __init__(self, name: str, exporter: SpanExporter) -> None:
        self.name = name
        self._counted = _Counted(exporter)
        environ = os.environ
        self._batches = BatchSpanProcessor(
            self._counted,
            max_queue_size=None if environ.get("OTEL_BSP_MAX_QUEUE_SIZE") else QUEUE,
            schedule_delay_millis=None if environ.get("OTEL_BSP_SCHEDULE_DELAY") else DELAY_MS,
        )
        self._ended = 0
        self._pid = os.getpid()

    @property
    def undelivered(self) -> int:
        """Spans of this process that ended and that the exporter has not reported as delivered."""
        return max(self._ended - self._counted.delivered, 0)

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Nothing."""

    def on_end(self, span: ReadableSpan) -> None:
        """Queue the span, if it is sampled."""
        if span.context is not None and span.context.trace_flags.sampled:
            if self._pid != os.getpid():  # a fork: what waited is its parent's
                self._pid, self._ended, self._counted.delivered = os.getpid(), 0, 0
            self._ended += 1
            self._batches.on_end(span)

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Export what waits."""
        return self._batches.force_flush(timeout_millis)

    def shutdown(self) -> None:
        """Export what waits, and end."""
        self._batches.shutdown()  # type: ignore[no-untyped-call]


class _Counted(SpanExporter):
    """An exporter that counts what it delivered."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self.delivered = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._exporter.export(spans)
        if result is SpanExportResult.SUCCESS:
            self.delivered += len(spans)  # batches are exported one after the other
        return result

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._exporter.force_flush(timeout_millis)

    def shutdown(self) -> None:
        self._exporter.shutdown()


def deliveries(failed: Callable[[str], None]) -> list[Delivery]:
    """One for each exporter that OTEL_TRACES_EXPORTER names.

    failed: called with a short text for each that cannot be made.
    """
    return [Delivery(name, exporter) for name, exporter in make("traces", failed)]


def make(signal: sdk_private.Signal, failed: Callable[[str], None]) -> Iterable[tuple[str, SpanExporter]]:
    """The exporters that OTEL_TRACES_EXPORTER or OTEL_METRICS_EXPORTER names, with their names.

    failed: called with a short text for each that cannot be made.
    """
    variable = f"OTEL_{signal.upper()}_EXPORTER"
    try:
        names = sdk_private.exporter_names(signal)
    except Exception as error:
        failed(f"{variable}={os.environ.get(variable)}: {error}")
        return
    for name in names:
        if name == FILE_EXPORTER:
            continue
        try:
            exporter = sdk_private.exporter_class(signal, name)()
        except Exception as error:
            failed(f"{variable}={os.environ.get(variable)}: {error}")
        else:
            yield name, exporter


class Ends:
    """Ends things that may take long, each in a thread of its own, within one limit of time.

    The threads are started beforehand: at a program's end Python may refuse new ones. They are daemons, so that the
    process does not wait for them.
    """

    def __init__(self) -> None:
        self._waiting: list[_End] = []

    def add(self, end: Callable[[], object]) -> None:
        """Call `end` when it is time."""
        self._waiting.append(_End(end))

    def within(self, limit_s: float) -> None:
        """Call all of them now, and return when they are done or `limit_s` seconds are over."""
        deadline = time.monotonic() + limit_s
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            each.begin()
        for each in waiting:
            each.wait(max(deadline - time.monotonic(), 0))


class _End:
    def __init__(self, end: Callable[[], object]) -> None:
        self._end = end
        self._due, self._done = threading.Event(), threading.Event()
        self._pid = os.getpid()
        self._start()

    def _start(self) -> None:
        threading.Thread(target=self._run, args=(self._due, self._done), name="torchspan end", daemon=True).start()

    def _run(self, due: threading.Event, done: threading.Event) -> None:
        due.wait()
        try:
            self._end()
        finally:
            done.set()

    def begin(self) -> None:
        if self._pid != os.getpid():  # the thread is the parent's
            self._due, self._done = threading.Event(), threading.Event()
            try:
                self._start()
            except RuntimeError:
                self._done.set()
        self._due.set()

    def wait(self, limit_s: float) -> None:
        self._done.wait(limit_s)
