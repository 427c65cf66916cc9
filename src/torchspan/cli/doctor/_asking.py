# SPDX-License-Identifier: Apache-2.0
"""The program that `torchspan doctor` starts to ask endpoints and to send a test trace, with the exporters of a program.

It writes one JSON object to its standard output. What libraries write there and to standard error is discarded.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import time
from importlib.metadata import entry_points
from typing import Any

from torchspan import _config_file, phase, semconv
from torchspan._base.thread_starts import start_thread
from torchspan._version import __version__
from torchspan.cli.doctor._outcomes import of_exception, of_record

TIMEOUT_S = 3
"""Seconds that each exporter has for its request."""

_LIMIT_S = 4.0
_ATTEMPTS = 10_000
"""Spans that the sampler is asked for: of 1 in 1000, one is kept with near certainty."""


class _Outcomes(logging.Handler):
    """The first outcome that an exporter logged on each thread."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.by_thread: dict[int, str] = {}
        self.all: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if not record.name.startswith("opentelemetry.exporter."):
            return
        arguments = record.args if isinstance(record.args, tuple) else ()
        exception = record.exc_info[1] if record.exc_info else None
        word = of_record(arguments, exception, is_error=record.levelno >= logging.ERROR)
        if word is not None:
            self.by_thread.setdefault(record.thread or 0, word)
            self.all.append(word)


def main() -> None:
    """Do what the first argument says, write the outcome, and end the process without waiting for anything else."""
    output, null = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    report = _ask(json.loads(sys.argv[2])) if sys.argv[1] == "ask" else _send()
    os.write(output, json.dumps(report).encode())
    os._exit(0)


# --- endpoints ----------------------------------------------------------------------------------------------------
def _ask(exporters: list[tuple[str, str]]) -> dict[str, str]:
    """Send an export request that contains nothing with each exporter, all at once.

    Returns signal and name, separated by a blank -> the outcome.

    Args:
        exporters: Signal and name of an entry point.
    """
    classes = {(signal, name): _load(signal, name) for signal, name in exporters}
    outcomes = _Outcomes()
    logging.root.addHandler(outcomes)
    for logger in list(logging.root.manager.loggerDict):
        if logger.startswith("opentelemetry.exporter."):
            logging.getLogger(logger).filters.clear()  # a filter drops records that resemble those of another signal
    results: dict[tuple[str, str], str] = {}

    def ask(signal: str, name: str, make: Any) -> None:
        try:
            exporter = make()
            if threading.get_ident() not in outcomes.by_thread:  # a file of certificates may be missing
                result = exporter.export(_nothing(signal))
                results[signal, name] = "accepted" if result.name == "SUCCESS" else "timeout"
        except Exception as error:
            results[signal, name] = of_exception(error)

    threads = {key: start_thread("torchspan doctor", ask, *key, make) for key, make in classes.items()}
    end = time.monotonic() + _LIMIT_S
    while time.monotonic() < end and any(
        key not in results and thread.ident not in outcomes.by_thread for key, thread in threads.items()
    ):
        time.sleep(0.02)
    return {
        " ".join(key): outcomes.by_thread.get(thread.ident or 0) or results.get(key, "timeout")
        for key, thread in threads.items()
    }


def _load(signal: str, name: str) -> Any:
    (entry_point,) = list(entry_points(group=f"opentelemetry_{signal}_exporter", name=name))[:1]
    return entry_point.load()


def _nothing(signal: str) -> Any:
    """A request without content, which OTLP allows and which stores nothing."""
    if signal != "metrics":
        return []
    from opentelemetry.sdk.metrics.export import MetricsData

    return MetricsData(resource_metrics=[])


# --- a test trace -------------------------------------------------------------------------------------------------
def _send() -> dict[str, Any]:
    """OpenTelemetry's own set-up, and one span through the provider that it sets."""
    failure = ""
    outcomes = _Outcomes()
    logging.root.addHandler(outcomes)
    try:
        from opentelemetry.instrumentation.auto_instrumentation import initialize

        initialize(swallow_exceptions=False)
    except Exception as error:
        failure = _config_file.reason(error) if _config_file.named() is not None else type(error).__name__
    return {**_trace(outcomes), "failure": failure}


def _trace(outcomes: _Outcomes) -> dict[str, Any]:
    from opentelemetry import trace
    from opentelemetry.context import Context

    provider: Any = trace.get_tracer_provider()
    tracer = provider.get_tracer(semconv.SCOPE_NAME, __version__, schema_url=semconv.SCHEMA_URL)
    attempts = 0
    span: trace.Span = trace.INVALID_SPAN
    while attempts < _ATTEMPTS and not span.get_span_context().trace_flags.sampled:
        attempts += 1
        span = tracer.start_span(phase.DOCTOR.name, Context(), attributes={str(semconv.KEEP): True})
        if not span.get_span_context().is_valid:
            break
    ids = span.get_span_context()
    span.end()
    is_flushed = bool(ids.trace_flags.sampled and hasattr(provider, "force_flush") and provider.force_flush())
    resource = getattr(provider, "resource", None)
    return {
        "trace_id": f"{ids.trace_id:032x}" if ids.is_valid else "",
        "service": str(resource.attributes.get("service.name", "")) if resource is not None else "",
        "is_set": not isinstance(provider, trace.ProxyTracerProvider),
        "is_enabled": ids.is_valid,
        "is_sampled": ids.trace_flags.sampled,
        "is_flushed": is_flushed,
        "attempts": attempts,
        "outcomes": list(dict.fromkeys(outcomes.all)),
    }
