# SPDX-License-Identifier: Apache-2.0
"""The exporters that `run` makes because OTEL_TRACES_EXPORTER and OTEL_METRICS_EXPORTER name them, and what they delivered."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from opentelemetry.context import Context
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from torchspan.base.forks import in_each_child, renewed
from torchspan.base.thread_starts import making_threads
from torchspan.hooks.propagation import private_api as otel_private
from torchspan.output import withheld
from torchspan.output.sdk._operator_spans import OperatorSpanProcessor
from torchspan.start.launched import configured
from torchspan.start.launched.answers import EndpointAnswers

Failed = Callable[[str], None]
"""Called with a short text for each exporter that cannot be made."""

FILE_EXPORTER = "torchspan_file"
"""Left out, because the file of the run has everything that it would write."""

DELAY_MS = 1000
"""Between batches. Short, because a program that a signal ends loses what is still in the queue."""

_SIGNALS: tuple[configured.Signal, ...] = ("traces", "metrics")
_CHECK = "to check the exporters: torchspan doctor"

QUEUE = 65_536
"""Large, because a compilation at detail `passes` ends many spans at once, and a full queue drops the oldest."""


class Delivery(SpanProcessor):
    """Spans, and those of PyTorch's operators, on their way to an exporter that OTEL_TRACES_EXPORTER names.

    Args:
        name: The exporter's.
        answers: Those that it gets.
    """

    def __init__(self, name: str, exporter: SpanExporter, answers: EndpointAnswers | None = None) -> None:
        self.name = name
        self._counted = _Counted(exporter, answers or EndpointAnswers())
        environ = os.environ
        self._batches = BatchSpanProcessor(
            self._counted,
            max_queue_size=None if environ.get("OTEL_BSP_MAX_QUEUE_SIZE") else QUEUE,
            schedule_delay_millis=None if environ.get("OTEL_BSP_SCHEDULE_DELAY") else DELAY_MS,
        )
        self._operators = OperatorSpanProcessor(self._counted)
        self._ended = 0
        in_each_child(self._begin_in_child)

    def _begin_in_child(self) -> None:
        """What waited is the parent's."""
        self._ended = self._counted.delivered = 0

    @property
    def undelivered(self) -> int:
        """Spans of this process that ended and that the exporter has not reported as delivered."""
        return max(self._ended - self._counted.delivered, 0)

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Nothing."""

    def on_end(self, span: ReadableSpan) -> None:
        """Queue the span and the operators below it, if it is sampled."""
        if span.context is not None and span.context.trace_flags.sampled:
            operators = withheld.of(span.context.trace_id, span.context.span_id).operators
            self._ended += 1 if operators is None else 1 + operators.count
            self._batches.on_end(span)
            self._operators.on_end(span)

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Export the spans that wait, and then the operators."""
        began_s = time.monotonic()
        is_exported = self._batches.force_flush(timeout_millis)
        left_ms = timeout_millis - int((time.monotonic() - began_s) * 1000)
        return self._operators.force_flush(max(left_ms, 0)) and is_exported

    def shutdown(self) -> None:
        """Export what waits, and end."""
        self.force_flush()  # both, before one of them shuts the exporter down
        self._batches.shutdown()  # type: ignore[no-untyped-call]
        self._operators.shutdown()


class _Counted(SpanExporter):
    """An exporter for two processors, one export after the other, that counts what it delivered."""

    def __init__(self, exporter: SpanExporter, answers: EndpointAnswers) -> None:
        self._exporter = exporter
        self._answers = answers
        self._lock = renewed(threading.RLock())
        self._is_shut_down = False
        self.delivered = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        with self._lock:
            result = self._exporter.export(spans)
            refused = self._answers.take(len(spans))
            if result is SpanExportResult.SUCCESS:
                self.delivered += len(spans) - refused
        return result

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._exporter.force_flush(timeout_millis)

    def shutdown(self) -> None:
        if not self._is_shut_down:  # the second processor asks for it, too
            self._is_shut_down = True
            self._exporter.shutdown()


def deliveries(failed: Failed) -> list[Delivery]:
    """One for each exporter that OTEL_TRACES_EXPORTER names."""
    made = []
    for name, exporter, answers in _named("traces", failed):
        try:
            made.append(making_threads(partial(Delivery, name, exporter, answers)))
        except Exception as error:
            failed(f"the exporter {name} is not used, because the SDK refuses the OTEL_BSP_* variables: {error}")
    return made


def span_exporters(failed: Failed) -> Iterator[tuple[str, SpanExporter]]:
    """The exporters that OTEL_TRACES_EXPORTER names, with their names."""
    return ((name, exporter) for name, exporter, _ in _named("traces", failed))


def readers(failed: Failed) -> list[MetricReader]:
    """One for each exporter that OTEL_METRICS_EXPORTER names."""
    return making_threads(lambda: [_reader(exporter) for _, exporter, _ in _named("metrics", failed)])


def _reader(exporter: Any) -> MetricReader:
    return exporter if isinstance(exporter, MetricReader) else PeriodicExportingMetricReader(exporter)


def load() -> None:
    """Import the classes of all of them, and what else the variables name. Raises what the first exporter raises that cannot be imported."""
    configured.load()
    for signal in _SIGNALS:
        for name in configured.exporter_names(signal):
            if name != FILE_EXPORTER:
                configured.exporter_class(signal, name)
            if name == "otlp_proto_http":
                import requests  # noqa: F401 - the exporter does so when it is made


def _made(exporter_class: Any, arguments: dict[str, Any]) -> Any:
    """The exporter. OpenTelemetry warns of a header that it cannot read, here without the value, which may be a credential."""
    logger = logging.getLogger("opentelemetry.util.re")
    logger.addFilter(_hide_values)
    try:
        return exporter_class(**arguments)
    finally:
        logger.removeFilter(_hide_values)
        otel_private.give_exporters_own_random()


def _hide_values(record: logging.LogRecord) -> bool:
    record.args = ("?",) if record.args else ()
    return True


def _named(signal: configured.Signal, failed: Failed) -> Iterator[tuple[str, Any, EndpointAnswers]]:
    variable = f"OTEL_{signal.upper()}_EXPORTER"
    try:
        names = configured.exporter_names(signal)
    except Exception as error:
        failed(f"{variable}={os.environ.get(variable)}: {error}; {_CHECK}")
        return
    for name in names:
        if name == FILE_EXPORTER:
            continue
        answers = EndpointAnswers()
        try:
            exporter_class = configured.exporter_class(signal, name)
            exporter = _made(exporter_class, answers.arguments(exporter_class))
        except Exception as error:
            failed(f"{variable}={os.environ.get(variable)}: {error}; {_CHECK}")
        else:
            yield name, exporter, answers
