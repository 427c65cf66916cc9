# SPDX-License-Identifier: Apache-2.0
"""The program that `torchspan doctor` starts to ask endpoints and to send a test trace, with the exporters of a program.

It writes one JSON value to its standard output. What libraries write there and to standard error is discarded.
"""

from __future__ import annotations

import collections
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

from torchspan.base.thread_starts import start_thread
from torchspan.base.version import __version__
from torchspan.words import config_file, phase, semconv

TIMEOUT_S = 3
"""Seconds that each exporter has for its request."""

_LIMIT_S = 4.0
_ATTEMPTS = 10_000
"""Spans that the sampler is asked for: of 1 in 1000, one is kept with near certainty."""


class _Said(logging.Handler):
    """What is logged, and what HTTP answers exporters take for a success, by thread.

    Attributes:
        texts: Of a thread, all that was logged since its last export began.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: dict[int, list[str]] = collections.defaultdict(list)
        self._refused: dict[int, str] = {}
        logging.root.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        text = record.getMessage() if error is None else f"{record.getMessage()}: {_text(error)}"
        self.texts[threading.get_ident()].append(text)

    def answered(self, response: Any, *_args: Any, **_options: Any) -> None:
        """Read an answer over HTTP. Exporters take a redirection, and any page, for a success."""
        kind, refused = response.headers.get("Content-Type", ""), ""
        if 300 <= response.status_code < 400:
            refused = f"HTTP {response.status_code}, a redirection, which exporters do not follow"
        elif response.status_code == 200 and kind.startswith("text/"):
            refused = f"HTTP 200 with {kind}, which is no answer of OTLP"
        self._refused[threading.get_ident()] = refused

    def outcome(self, export: Callable[[], Any]) -> tuple[Any, str]:
        """What the export returns, and what the exporter says first if nothing is delivered; empty if it is."""
        thread = threading.get_ident()
        self.texts[thread], self._refused[thread] = [], ""
        try:
            result = export()
        except Exception as error:
            return None, _text(error)
        if result.name == "SUCCESS":
            return result, self._refused[thread]
        return result, next(iter(self.texts[thread]), "The exporter reports a failure without a reason")


def main() -> None:
    """Do what the first argument says, write what came of it, and end the process without waiting for anything else."""
    output, null = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    said = _Said()
    with contextlib.suppress(ImportError):
        import requests

        requests.sessions.default_hooks = lambda: {"response": [said.answered]}  # type: ignore[attr-defined]
    tasks: dict[str, Callable[..., dict[str, Any]]] = {"ask": _ask, "send": _send, "set-up": _set_up}
    try:
        report = {"failure": "", **tasks[sys.argv[1]](said, *map(json.loads, sys.argv[2:]))}
    except Exception as error:
        # An error in the configuration file may repeat its values.
        report = {"failure": _text(error) if config_file.named() is None else config_file.reason(error)}
    os.write(output, json.dumps(report).encode())
    os._exit(0)


def _text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".removesuffix(": ")


def _ask(said: _Said, exporters: list[tuple[str, str]]) -> dict[str, Any]:
    """Send an export request that contains nothing with each exporter, all at once. Returns their outcomes.

    Args:
        exporters: Signal and name of an entry point.
    """
    points = [entry_points(group=f"opentelemetry_{signal}_exporter", name=name) for signal, name in exporters]
    classes = [next(iter(each)).load() for each in points]
    for logger in list(logging.root.manager.loggerDict):
        if logger.startswith("opentelemetry.exporter."):
            logging.getLogger(logger).filters.clear()  # a filter drops records that resemble those of another signal
    outcomes: dict[int, str] = {}

    def ask(number: int) -> None:
        _, outcomes[number] = said.outcome(lambda: classes[number]().export(_nothing(exporters[number][0])))

    threads = [start_thread("torchspan doctor", ask, number) for number in range(len(classes))]
    end = time.monotonic() + _LIMIT_S
    for number, thread in enumerate(threads):
        thread.join(max(end - time.monotonic(), 0))
        outcomes.setdefault(number, next(iter(said.texts[thread.ident or 0]), f"No answer within {_LIMIT_S:g} s"))
    return {"outcomes": [outcomes[number] for number in range(len(classes))]}


def _nothing(signal: str) -> Any:
    """A request without content, which OTLP allows and which stores nothing."""
    if signal != "metrics":
        return []
    from opentelemetry.sdk.metrics.export import MetricsData

    return MetricsData(resource_metrics=[])


def _set_up(said: _Said) -> dict[str, Any]:
    """What the SDK's set-up of all signals warns of. Nothing is sent."""
    from opentelemetry.instrumentation.auto_instrumentation import _load

    _load._load_distro().configure()
    _load._load_configurators()  # type: ignore[no-untyped-call]
    importlib.import_module("opentelemetry.propagate")  # which loads what OTEL_PROPAGATORS names
    said_by_all = [text for texts in said.texts.values() for text in texts]  # resources have threads of their own
    return {"warnings": list(dict.fromkeys(said_by_all))}


def _send(said: _Said) -> dict[str, Any]:
    """OpenTelemetry's own set-up, and one span through the provider that it sets.

    Returns its trace and service, and why it is not delivered.
    """
    from opentelemetry import trace
    from opentelemetry.context import Context
    from opentelemetry.instrumentation.auto_instrumentation import initialize

    initialize(swallow_exceptions=False)
    outcomes = _watched(said)
    provider: Any = trace.get_tracer_provider()
    if isinstance(provider, trace.ProxyTracerProvider):
        return {"failure": "nothing sets a tracer provider"}
    tracer = provider.get_tracer(semconv.SCOPE_NAME, __version__, schema_url=semconv.SCHEMA_URL)
    for _ in range(_ATTEMPTS):
        span = tracer.start_span(phase.DOCTOR.name, Context(), attributes={str(semconv.KEEP): True})
        ids = span.get_span_context()
        if not ids.is_valid:
            return {"failure": "the tracer for torchspan is disabled"}
        if ids.trace_flags.sampled:
            break
    else:
        return {"failure": f"the sampler dropped {_ATTEMPTS} of {_ATTEMPTS}"}
    span.end()
    if hasattr(provider, "force_flush"):
        provider.force_flush()
    attributes = getattr(getattr(provider, "resource", None), "attributes", {})
    return {
        "trace_id": f"{ids.trace_id:032x}",
        "service": str(attributes.get("service.name", "")),
        "failure": "; ".join(dict.fromkeys(filter(None, outcomes or ["no exporter got it"]))),
    }


def _watched(said: _Said) -> list[str]:
    """The outcomes of all exports of spans from now on."""
    outcomes: list[str] = []

    def watch(kind: Any) -> None:
        export = kind.export

        def watched(*args: Any, **options: Any) -> Any:
            result, outcome = said.outcome(lambda: export(*args, **options))
            outcomes.append(outcome)
            return result

        kind.export = watched

    sdk = sys.modules.get("opentelemetry.sdk.trace.export")
    kinds = [] if sdk is None else [sdk.SpanExporter]
    for kind in kinds:
        kinds += kind.__subclasses__()
        if "export" in vars(kind):
            watch(kind)
    return outcomes
