# SPDX-License-Identifier: Apache-2.0
"""The program that `torchspan doctor --send` starts: OpenTelemetry's own start, one span, and what the exporters got.

It writes one JSON object to its standard output. What libraries print there is thrown away.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from typing import Any

from torchspan import _config_file, phase, semconv
from torchspan._version import __version__
from torchspan.cli.doctor._urls import secrets_in, without_secrets

_ATTEMPTS = 10_000
"""Spans for which a sampler is asked: of 1 in 1000, one is kept with near certainty."""


def main() -> None:
    """Send the trace, write what came of it, and end the process without waiting for anything else."""
    output = os.dup(1)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    text = json.dumps(_send())
    os.write(output, text.encode())
    os._exit(0)


def _send() -> dict[str, Any]:
    exports = _Exports()
    failure = ""
    with contextlib.suppress(ImportError):  # without the SDK there is nothing to watch
        exports.watch()
    try:
        from opentelemetry.instrumentation.auto_instrumentation import initialize

        initialize(swallow_exceptions=False)
    except Exception as error:
        is_of_file = _config_file.named() is not None
        failure = (
            _config_file.reason(error)
            if is_of_file
            else without_secrets(f"{type(error).__name__}: {error}", _secrets())
        )
    return {**_trace(exports), "failure": failure}


def _secrets() -> set[str]:
    """The credentials in the variables: a message of an exporter may repeat them."""
    return {
        secret
        for name, text in os.environ.items()
        if name.startswith("OTEL_EXPORTER_OTLP")
        for secret in (
            secrets_in("", [each.partition("=")[2].strip() for each in text.split(",")])
            if name.endswith("HEADERS")
            else secrets_in(text)
            if name.endswith("ENDPOINT")
            else ()
        )
    }


def _trace(exports: _Exports) -> dict[str, Any]:
    """One span through the provider that is set now."""
    from opentelemetry import trace
    from opentelemetry.context import Context

    provider = trace.get_tracer_provider()
    tracer = provider.get_tracer(semconv.SCOPE_NAME, __version__, schema_url=semconv.SCHEMA_URL)
    attempts = 0
    span: trace.Span = trace.INVALID_SPAN
    while attempts < _ATTEMPTS and not span.get_span_context().trace_flags.sampled:
        attempts += 1
        span = tracer.start_span(phase.DOCTOR.name, Context(), attributes={str(semconv.KEEP): True})
        if not span.get_span_context().is_valid:
            break
    ids = span.get_span_context()
    exports.trace_id = ids.trace_id
    span.end()
    if ids.trace_flags.sampled and hasattr(provider, "force_flush"):
        provider.force_flush()
    resource = getattr(provider, "resource", None)
    return {
        "trace_id": f"{ids.trace_id:032x}" if ids.is_valid else "",
        "service": str(resource.attributes.get("service.name", "")) if resource is not None else "",
        "provider": f"{type(provider).__module__}.{type(provider).__qualname__}",
        "is_set": not isinstance(provider, trace.ProxyTracerProvider),
        "is_sdk": hasattr(provider, "add_span_processor"),
        "is_enabled": ids.is_valid,
        "is_sampled": ids.trace_flags.sampled,
        "attempts": attempts,
        "exports": [each.described() for each in exports.seen],
    }


class _Export:
    """One call of an exporter, and what was answered to it."""

    def __init__(self, exporter: Any) -> None:
        self._exporter = exporter
        self._answers: list[tuple[str, bool]] = []
        self.result = ""

    def add(self, text: str, *, is_good: bool) -> None:
        """An answer of the endpoint; an exporter may try several times."""
        self._answers.append((text, is_good))

    def described(self) -> dict[str, Any]:
        """As JSON has it."""
        kind = type(self._exporter)
        name = f"{kind.__module__.partition('.trace_exporter')[0]}.{kind.__qualname__}"
        path = getattr(self._exporter, "path", None)
        is_delivered = self.result == "SUCCESS" and (not self._answers or self._answers[-1][1])
        if self._answers:
            times = f" ({len(self._answers)} attempts)" if len(self._answers) > 1 else ""
            answer = f"{self._answers[-1][0]}{times}"
        elif is_delivered:
            answer = f"written to {path}" if isinstance(path, str) else "taken"
        else:
            answer = f"{self.result}, without an answer"
        if self._answers and not is_delivered and self.result == "SUCCESS":
            answer += ", which the exporter counts as delivered"
        return {"exporter": name, "is_delivered": is_delivered, "answer": answer}


class _Exports:
    """The exports of one trace, watched at the public places through which they go."""

    def __init__(self) -> None:
        self.trace_id = 0
        self.seen: list[_Export] = []
        self._current: Any = threading.local()

    def watch(self) -> None:
        """Before OpenTelemetry is set up. Raises ImportError without the SDK."""
        from opentelemetry.sdk.trace import export

        for processor in (export.BatchSpanProcessor, export.SimpleSpanProcessor):
            _before(processor, "__init__", self._watch_exporter)
        if find_spec("requests") is not None:
            import requests

            requests.Session.send = self._answered_by_http(requests.Session.send)  # type: ignore[method-assign]
        if find_spec("grpc") is not None:
            self._watch_grpc()

    def _watch_exporter(self, _processor: Any, *args: Any, **kwargs: Any) -> None:
        exporter: Any = args[0] if args else kwargs.get("span_exporter")
        original = getattr(exporter, "export", None)
        if original is None:
            return

        @functools.wraps(original)
        def watched(spans: Sequence[Any]) -> Any:
            if not any(span.get_span_context().trace_id == self.trace_id for span in spans):
                return original(spans)
            seen = _Export(exporter)
            self._current.export = seen
            self.seen.append(seen)
            try:
                result = original(spans)
                seen.result = getattr(result, "name", str(result))
                return result
            except Exception as error:
                seen.result = type(error).__name__
                raise
            finally:
                self._current.export = None

        exporter.export = watched

    def _answer(self, text: str, *, is_good: bool) -> None:
        current: _Export | None = getattr(self._current, "export", None)
        if current is not None:
            current.add(text, is_good=is_good)

    def _answered_by_http(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def send(session: Any, request: Any, **kwargs: Any) -> Any:
            try:
                response = original(session, request, **kwargs)
            except Exception as error:
                self._answer(_reason(error), is_good=False)
                raise
            secrets = secrets_in(request.url, map(str, request.headers.values()))
            media = str(response.headers.get("content-type", "")).partition(";")[0].strip().lower()
            text = without_secrets(f"HTTP {response.status_code} {response.reason}", secrets)
            if 200 <= response.status_code < 300:
                is_otlp = not response.content or media in ("", "application/x-protobuf", "application/json")
                rejected = _rejected(_parsed(response.content)) if media == "application/x-protobuf" else ""
                more = (
                    without_secrets(rejected, secrets) if is_otlp else f" with {media}, no answer of an OTLP endpoint"
                )
                self._answer(f"{text}{more}", is_good=is_otlp and not rejected)
                return response
            said = without_secrets(response.text, secrets) if media in ("text/plain", "application/json") else ""
            self._answer(f"{text}, {said!r}" if said else text, is_good=False)
            return response

        return send

    def _watch_grpc(self) -> None:
        import grpc  # type: ignore[import-untyped]

        answer = self._answer

        class Watching(grpc.UnaryUnaryClientInterceptor):  # type: ignore[misc]
            def intercept_unary_unary(self, continuation: Any, details: Any, request: Any) -> Any:
                call = continuation(details, request)
                secrets = _secrets() | secrets_in("", [str(value) for _, value in details.metadata or ()])
                code = call.code().name
                if code == "OK":
                    rejected = without_secrets(_rejected(call.result()), secrets)
                    answer(f"gRPC OK{rejected}", is_good=not rejected)
                else:
                    said = without_secrets(call.details() or "", secrets)
                    answer(f"gRPC {code}, {said!r}" if said else f"gRPC {code}", is_good=False)
                return call

        # The exporter takes these names when it is imported, which the configurator does.
        for name in ("insecure_channel", "secure_channel"):
            original = getattr(grpc, name)
            setattr(grpc, name, functools.partial(_intercepted, grpc, original, Watching()))


def _intercepted(grpc: Any, original: Callable[..., Any], interceptor: Any, *args: Any, **kwargs: Any) -> Any:
    return grpc.intercept_channel(original(*args, **kwargs), interceptor)


def _before(holder: Any, name: str, hook: Callable[..., None]) -> None:
    original = getattr(holder, name)

    @functools.wraps(original)
    def replaced(*args: Any, **kwargs: Any) -> Any:
        hook(*args, **kwargs)
        return original(*args, **kwargs)

    setattr(holder, name, replaced)


def _parsed(content: bytes) -> Any:
    """The message of an answer; None where it is none."""
    try:
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

        return ExportTraceServiceResponse.FromString(content)
    except Exception:
        return None


def _rejected(message: Any) -> str:
    """What an endpoint did not take of a request that it accepted (OTLP, "Partial Success"); empty if it took all."""
    partial = getattr(message, "partial_success", None)
    number = getattr(partial, "rejected_spans", 0)
    return f", with {number} span rejected: {partial.error_message!r}" if number and partial is not None else ""


def _reason(error: BaseException) -> str:
    """Why a request got no answer, without its URL."""
    for each in _chain(error):
        if isinstance(each, OSError) and each.strerror:
            return f"no answer: {each.strerror}"
    return f"no answer: {type(error).__name__}"


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An exception, and those that it was raised for."""
    pending, seen = [error], set()
    while pending:
        each = pending.pop(0)
        if id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        reasons = (each.__cause__, each.__context__, getattr(each, "reason", None), *each.args)
        pending.extend(reason for reason in reasons if isinstance(reason, BaseException))
