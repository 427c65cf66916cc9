# SPDX-License-Identifier: Apache-2.0
"""Whether the endpoints of the OTLP exporters take what would be sent to them."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from torchspan.cli.doctor import _grpc, _http
from torchspan.cli.doctor._answer import Answer, Progress
from torchspan.cli.doctor._check import Check, Context, State
from torchspan.cli.doctor._destinations import (
    AddressError,
    Destination,
    GrpcDestination,
    HttpDestination,
    destination,
)
from torchspan.cli.doctor._exporters import GRPC, HTTP, SIGNALS, Exporter, UnknownExportersError, exporters
from torchspan.cli.doctor._urls import shown

LIMIT_S = 5.0
"""Seconds within which all endpoints are asked, at the same time."""

_CREDENTIALS = re.compile(r"OTEL_PYTHON_EXPORTER_OTLP_(?:HTTP|GRPC)_(?:\w+_)?CREDENTIAL_PROVIDER")
_REFUSALS = ("http 401", "http 403", "grpc UNAUTHENTICATED", "grpc PERMISSION_DENIED")
_SEND = "torchspan doctor --send"
_DEFAULT = (
    "No variable sets an endpoint. Set OTEL_EXPORTER_OTLP_ENDPOINT, or OTEL_TRACES_EXPORTER=torchspan_file for a file, "
    "or start the program with `torchspan run`, which needs no endpoint."
)


def reachable(context: Context, limit_s: float = LIMIT_S) -> Iterable[Check]:
    """A row for each OTLP exporter: what its endpoint answers to a request without content."""
    if context.variable("OTEL_SDK_DISABLED").lower() == "true":
        yield Check("endpoints.traces", State.NOTE, "Not contacted: OTEL_SDK_DISABLED=true, so nothing is sent.")
        return
    asked: list[_Asked | Check] = []
    for exporter in _otlp_exporters(context):
        try:
            asked.append(_Asked(destination(exporter, context), context.environment, limit_s))
        except AddressError as error:
            summary, _, remedy = str(error).partition(". ")
            asked.append(Check(f"endpoints.{exporter.signal}", State.FAILED, f"{summary}.", remedy, _facts(exporter)))
    for each in asked:
        yield each if isinstance(each, Check) else each.row()


def _otlp_exporters(context: Context) -> Iterator[Exporter]:
    for signal in SIGNALS:
        try:
            yield from (each for each in exporters(signal, context) if each.name in (GRPC, HTTP))
        except UnknownExportersError:
            continue  # a row of the exporters


def _facts(exporter: Exporter) -> Mapping[str, Any]:
    return {"exporter": exporter.name, "source": exporter.source}


class _Asked:
    """One endpoint that is asked on a thread, for which nothing waits at exit: names may take a minute to look up."""

    def __init__(self, to: Destination, environment: Mapping[str, str], limit_s: float) -> None:
        self._to = to
        self._plugin = next((name for name in environment if _CREDENTIALS.fullmatch(name) and environment[name]), "")
        self._progress = Progress(limit_s)
        self._answer: Answer | None = None
        self._thread = threading.Thread(target=self._ask, args=(environment,), name="torchspan doctor", daemon=True)
        self._thread.start()

    def _ask(self, environment: Mapping[str, str]) -> None:
        try:
            if isinstance(self._to, GrpcDestination):
                self._answer = _grpc.ask(self._to, environment, self._progress)
            elif isinstance(self._to, HttpDestination):
                self._answer = _http.ask(self._to, environment, self._progress)
        except Exception as error:  # the text of an exception may have what must not be printed
            self._answer = Answer(
                "failed",
                State.FAILED,
                f"it could not be contacted: {type(error).__name__}",
                "Please report it, and include this line.",
            )

    def row(self) -> Check:
        """What came of it, at the latest when the time for it is over."""
        self._thread.join(self._progress.left)
        to, answer = self._to, self._answer or self._progress.late()
        state, remedy = answer.state, answer.remedy
        if self._plugin and answer.kind in _REFUSALS:
            state = State.WARNING
            remedy = f"{self._plugin} names a plug-in for credentials, which only a test trace uses: {_SEND}"
        if state is State.FAILED and not to.is_asked_for:
            state = State.WARNING
            remedy = remedy if to.source else _DEFAULT if to.signal == "traces" else "See endpoints.traces."
        protocol = "gRPC" if isinstance(to, GrpcDestination) else "HTTP"
        named = to.source or "the exporter's default"
        facts = {
            "endpoint": shown(to.url),
            "protocol": "grpc" if isinstance(to, GrpcDestination) else "http/protobuf",
            "source": to.source,
            "headers": sorted(to.headers),
            "answer": answer.kind,
        }
        summary = f"{shown(to.url)} over {protocol} ({named}): {answer.text}."
        return Check(f"endpoints.{to.signal}", state, summary, remedy, facts)
