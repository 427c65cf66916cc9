# SPDX-License-Identifier: Apache-2.0
"""Asking an endpoint of OTLP over gRPC: an empty request, with the library that the exporter uses."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from torchspan._version import __version__
from torchspan.cli.doctor import _connection as connection
from torchspan.cli.doctor import _proxies as proxies
from torchspan.cli.doctor._answer import Answer, Progress
from torchspan.cli.doctor._check import State
from torchspan.cli.doctor._connection import NoConnectionError, Trust
from torchspan.cli.doctor._destinations import GrpcDestination
from torchspan.cli.doctor._exporters import keep_grpc_quiet
from torchspan.cli.doctor._urls import without_secrets

_SERVICES = {
    "traces": "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
    "metrics": "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
    "logs": "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
}
_OPTIONS = (("grpc.enable_retries", 0), ("grpc.primary_user_agent", f"torchspan-doctor/{__version__}"))
_METADATA_VALUE = re.compile(r"[\x20-\x7e]*")
_BAD_HEADER = Answer(
    "header",
    State.FAILED,
    "gRPC refuses a name or a value in OTEL_EXPORTER_OTLP_HEADERS, and the exporter fails at every batch",
    "Write names of lower-case letters, digits, '-', '_' and '.', and values of printable ASCII.",
)
_DEFAULT_ROOTS = "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"


def ask(destination: GrpcDestination, environment: Mapping[str, str], progress: Progress) -> Answer:
    """Send an export request without content to an endpoint, and say what it answered.

    Such a request is valid, and stores nothing. Without the package `grpcio` the connection alone is tried.
    """
    address = destination.address
    proxy = proxies.of_grpc(address.host, address.port, environment)
    try:
        made = connection.connect(address, proxy, progress)
        if address.is_secure and proxy is None:
            trust = _trust(destination, environment)
            made = connection.secured(made, address, destination.tls, trust, progress, "h2")
        made.close()
    except NoConnectionError as error:
        other = _of_another_port(destination) if error.answer.kind == "tls" and proxy is None else None
        return other or error.answer
    if find_spec("grpc") is None:
        return Answer(
            "connected",
            State.NOTE,
            "accepts connections; its answer cannot be read without the package grpcio",
            "Install the exporter: pip install 'torchspan[auto]'",
        )
    return _ask(destination, proxy, progress)


def _trust(destination: GrpcDestination, environment: Mapping[str, str]) -> Trust:
    """What gRPC trusts: where nothing is said, the certificates that its package brings."""
    if destination.tls.ca:
        return Trust(destination.tls.ca, "OTEL_EXPORTER_OTLP_CERTIFICATE")
    if environment.get(_DEFAULT_ROOTS):
        return Trust(environment[_DEFAULT_ROOTS])
    found = find_spec("grpc")
    folder = next(iter((found and found.submodule_search_locations) or ()), "")
    file = Path(folder, "_cython", "_credentials", "roots.pem")
    return Trust(str(file)) if folder and file.is_file() else Trust()


def _ask(destination: GrpcDestination, proxy: str | None, progress: Progress) -> Answer:
    keep_grpc_quiet()
    import grpc  # type: ignore[import-untyped]

    if not all(_METADATA_VALUE.fullmatch(value) for value in destination.headers.values()):
        return _BAD_HEADER
    channel = _channel(grpc, destination)
    progress.stage = "waiting for an answer"
    export = channel.unary_unary(_SERVICES[destination.signal])
    try:
        export(b"", timeout=progress.left, metadata=tuple(destination.headers.items()))
    except grpc.RpcError as error:
        return _meaning(destination, error, proxy, progress)
    except (TypeError, ValueError):  # its text has the headers
        return _BAD_HEADER
    finally:
        channel.close()
    return Answer("accepted", State.OK, f"accepts {destination.signal} (gRPC OK)")


def _channel(grpc: Any, destination: GrpcDestination) -> Any:
    target = str(destination.address)
    if not destination.address.is_secure:
        return grpc.insecure_channel(target, options=_OPTIONS)
    tls = destination.tls
    ca, key, certificate = (Path(each).read_bytes() if each else None for each in (tls.ca, tls.key, tls.certificate))
    return grpc.secure_channel(target, grpc.ssl_channel_credentials(ca, key, certificate), options=_OPTIONS)


def _meaning(destination: GrpcDestination, error: Any, proxy: str | None, progress: Progress) -> Answer:
    code = error.code().name
    kind = f"grpc {code}"
    said = without_secrets(error.details() or "", destination.secrets)
    answered = f"gRPC {code}, {said!r}" if said else f"gRPC {code}"
    if code == "DEADLINE_EXCEEDED":
        return progress.late()
    if code in ("UNAUTHENTICATED", "PERMISSION_DENIED"):
        names = ", ".join(sorted(destination.headers)) or "none"
        return Answer(
            kind,
            State.FAILED,
            f"{answered}: it does not accept the credentials (headers sent: {names})",
            "Set OTEL_EXPORTER_OTLP_HEADERS to what the endpoint asks for, such as authorization=Bearer%20<token>.",
        )
    if code in ("UNAVAILABLE", "INTERNAL", "UNKNOWN", "UNIMPLEMENTED") and proxy is None:
        other = _of_another_port(destination)
        if other is not None:
            return other
    if code == "UNIMPLEMENTED":
        remedy = f"If that is intended: OTEL_{destination.signal.upper()}_EXPORTER=none."
        return Answer(kind, State.FAILED, f"{answered}: it does not accept {destination.signal}", remedy)
    if code == "RESOURCE_EXHAUSTED":
        remedy = "Exporters try again, and lose what arrives in the meantime."
        return Answer(kind, State.WARNING, f"{answered}: it limits the rate", remedy)
    if code == "INVALID_ARGUMENT":
        remedy = "To check whether it accepts one with a span: torchspan doctor --send"
        return Answer(kind, State.WARNING, f"{answered}: it refuses a request without spans", remedy)
    if code == "UNAVAILABLE":
        through = " through the proxy" if proxy is not None else ""
        remedy = "Check the log of the endpoint, or of the proxy in front of it."
        return Answer(
            kind, State.FAILED, f"{answered}: not available now{through}; exporters try again for 10 s", remedy
        )
    return Answer(kind, State.FAILED, f"{answered}: not accepted", "Check the log of the endpoint.")


def _of_another_port(destination: GrpcDestination) -> Answer | None:
    """What the port speaks instead of gRPC; None if that is not known."""
    address = destination.address
    plain = connection.speaks(address._replace(is_secure=False))
    if address.is_secure and plain in ("http/1", "http/2"):
        how = "" if "://" in destination.url else " Without http:// in front the exporter uses TLS."
        return Answer(
            "speaks no tls",
            State.FAILED,
            f"the port speaks {'gRPC' if plain == 'http/2' else 'HTTP'} without TLS, but the exporter uses TLS",
            f"Write http://{address} as the endpoint.{how}",
        )
    if not address.is_secure and plain == "tls":
        return Answer(
            "speaks tls",
            State.FAILED,
            "the port speaks TLS, but the exporter does not use it",
            f"Write https://{address} as the endpoint.",
        )
    if plain == "http/1" or (address.is_secure and connection.speaks(address) == "http/1"):
        return Answer(
            "speaks http",
            State.FAILED,
            "the port speaks HTTP/1.1, but the exporter sends gRPC",
            "Set OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf, or name the port for gRPC, which is usually 4317.",
        )
    return None
