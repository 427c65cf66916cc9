# SPDX-License-Identifier: Apache-2.0
"""The program that `torchspan doctor` starts to ask endpoints and to send a test trace, with the exporters of a program.

It writes one JSON object to its standard output. What libraries write there and to standard error is discarded.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Any

from torchspan import _config_file, phase, semconv
from torchspan._base.thread_starts import start_thread
from torchspan._version import __version__
from torchspan.cli.doctor._outcomes import of_answer, of_exception, of_record

TIMEOUT_S = 3
"""Seconds that each exporter has for its request."""

_LIMIT_S = 4.0
_ATTEMPTS = 10_000
"""Spans that the sampler is asked for: of 1 in 1000, one is kept with near certainty."""


class _Outcomes(logging.Handler):
    """What exporters did, by thread, and what OpenTelemetry warns of apart from that, which says nothing of an endpoint.

    Attributes:
        results: The thread of each export, and how it ended.
        logged: What the exporter of a thread logged first of its last export.
        warnings: Texts.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.results: list[tuple[int, str]] = []
        self.logged: dict[int, str] = {}
        self.warnings: list[str] = []
        self._exporting: set[int] = set()
        self._refused: dict[int, str | None] = {}
        logging.root.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        thread, error = threading.get_ident(), record.exc_info[1] if record.exc_info else None
        if record.name.startswith("opentelemetry.exporter.") and (error or thread in self._exporting):
            word = of_record(record.args if isinstance(record.args, tuple) else (), error)
            if word is not None:
                self.logged.setdefault(thread, word)
        elif record.name.startswith("opentelemetry."):
            self.warnings.append(record.getMessage().splitlines()[0])

    def answered(self, response: Any, *_args: Any, **_options: Any) -> None:
        """Read an answer over HTTP."""
        self._refused[threading.get_ident()] = of_answer(response)

    def watch(self, kind: Any) -> None:
        """Follow the exports of a class of exporters."""
        export = kind.export

        def watched(*args: Any, **options: Any) -> Any:
            thread = threading.get_ident()
            self._exporting.add(thread)
            self.logged.pop(thread, None)
            self._refused.pop(thread, None)
            result = export(*args, **options)
            self._exporting.discard(thread)
            word = "accepted" if result.name == "SUCCESS" else self.logged.get(thread, "timeout")
            self.results.append((thread, self._refused.get(thread) or word))
            return result

        kind.export = watched


def main() -> None:
    """Do what the first argument says, write the outcome, and end the process without waiting for anything else."""
    output, null = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    outcomes = _Outcomes()
    with contextlib.suppress(ImportError):
        import requests

        requests.sessions.default_hooks = lambda: {"response": [outcomes.answered]}  # type: ignore[attr-defined]
    tasks: dict[str, Callable[..., object]] = {"ask": _ask, "send": _send, "set-up": _set_up}
    os.write(output, json.dumps(tasks[sys.argv[1]](outcomes, *map(json.loads, sys.argv[2:]))).encode())
    os._exit(0)


def _reason(error: BaseException) -> str:
    """Class and text of an exception; of one about the configuration file, which may repeat its values, the place alone."""
    if _config_file.named() is not None and isinstance(error, Exception):
        return _config_file.reason(error)
    return f"{type(error).__name__}: {error}".splitlines()[0].removesuffix(".")


def _failure(set_up: Callable[[], object]) -> str:
    """What the function raised; empty if it did not."""
    try:
        set_up()
    except Exception as error:
        return _reason(error)
    return ""


# --- endpoints ----------------------------------------------------------------------------------------------------
def _ask(outcomes: _Outcomes, exporters: list[tuple[str, str]]) -> dict[str, str]:
    """Send an export request that contains nothing with each exporter, all at once.

    Returns signal and name, separated by a blank -> the outcome.

    Args:
        exporters: Signal and name of an entry point.
    """
    classes = {(signal, name): _load(signal, name) for signal, name in exporters}
    for kind in {*classes.values()}:
        outcomes.watch(kind)
    for logger in list(logging.root.manager.loggerDict):
        if logger.startswith("opentelemetry.exporter."):
            logging.getLogger(logger).filters.clear()  # a filter drops records that resemble those of another signal

    def ask(signal: str, make: Any) -> None:
        try:
            exporter = make()
            if threading.get_ident() not in outcomes.logged:  # a file of certificates may be missing
                exporter.export(_nothing(signal))
        except Exception as error:
            outcomes.results.append((threading.get_ident(), of_exception(error)))

    threads = {key: start_thread("torchspan doctor", ask, key[0], make) for key, make in classes.items()}
    end = time.monotonic() + _LIMIT_S
    answers = {}
    for key, thread in threads.items():
        thread.join(max(end - time.monotonic(), 0))
        number = thread.ident or 0
        answers[" ".join(key)] = dict(outcomes.results).get(number) or outcomes.logged.get(number, "timeout")
    return answers


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
def _set_up(outcomes: _Outcomes) -> dict[str, Any]:
    """What the SDK's set-up of all signals raises, and what it warns of. Nothing is sent."""

    def configure() -> None:
        from opentelemetry.instrumentation.auto_instrumentation import _load

        _load._load_distro().configure()
        _load._load_configurators()  # type: ignore[no-untyped-call]
        importlib.import_module("opentelemetry.propagate")  # which loads what OTEL_PROPAGATORS names

    return {"failure": _failure(configure), "warnings": list(dict.fromkeys(outcomes.warnings))}


def _send(outcomes: _Outcomes) -> dict[str, Any]:
    """OpenTelemetry's own set-up, and one span through the provider that it sets."""

    def configure() -> None:
        from opentelemetry.instrumentation.auto_instrumentation import initialize

        initialize(swallow_exceptions=False)
        sdk = sys.modules.get("opentelemetry.sdk.trace.export")
        kinds = [] if sdk is None else [sdk.SpanExporter]
        for kind in kinds:
            kinds += kind.__subclasses__()
            if "export" in vars(kind):
                outcomes.watch(kind)

    failure = _failure(configure)
    return {"failure": failure} if failure else {"failure": "", **_trace(outcomes)}


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
    if ids.trace_flags.sampled and hasattr(provider, "force_flush"):
        provider.force_flush()
    resource = getattr(provider, "resource", None)
    return {
        "trace_id": f"{ids.trace_id:032x}" if ids.is_valid else "",
        "service": str(resource.attributes.get("service.name", "")) if resource is not None else "",
        "is_set": not isinstance(provider, trace.ProxyTracerProvider),
        "is_enabled": ids.is_valid,
        "is_sampled": ids.trace_flags.sampled,
        "attempts": attempts,
        "outcomes": list(dict.fromkeys(word for _, word in outcomes.results)),
    }
