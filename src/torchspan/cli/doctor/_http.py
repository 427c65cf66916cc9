# SPDX-License-Identifier: Apache-2.0
"""Asking an endpoint of OTLP over HTTP: an empty request, as an exporter would send it."""

from __future__ import annotations

import http.client
from collections.abc import Mapping
from importlib.util import find_spec
from urllib.parse import urlsplit

from torchspan._version import __version__
from torchspan.cli.doctor import _connection as connection
from torchspan.cli.doctor import _proxies as proxies
from torchspan.cli.doctor._answer import Answer, Progress
from torchspan.cli.doctor._check import State
from torchspan.cli.doctor._connection import NoConnectionError, Trust
from torchspan.cli.doctor._destinations import HttpDestination
from torchspan.cli.doctor._urls import shown, without_secrets

_LONGEST_BODY = 4096
_TYPES = ("application/x-protobuf", "application/json")
_HEADERS = {"content-type": "application/x-protobuf", "user-agent": f"torchspan-doctor/{__version__}"}


def ask(destination: HttpDestination, environment: Mapping[str, str], progress: Progress) -> Answer:
    """Send an export request without content to an endpoint, and say what it answered.

    Such a request is valid, and stores nothing. Proxies and trusted certificates are those that `requests` would use.
    """
    address = destination.address
    scheme = "https" if address.is_secure else "http"
    proxy = proxies.of_http(scheme, address.host, address.port, environment)
    try:
        made = connection.connect(address, proxy, progress)
        if address.is_secure:
            if proxy is not None:
                connection.tunnel(made, address, proxy, progress)
            trust = _trust(destination, environment)
            made = connection.secured(made, address, destination.tls, trust, progress, "http/1.1")
    except NoConnectionError as error:
        return (
            _of_another_port(destination, error.answer)
            if error.answer.kind == "tls" and proxy is None
            else error.answer
        )
    progress.stage = "waiting for an answer"
    made.settimeout(progress.left)
    exchange = http.client.HTTPConnection(address.host, address.port)
    exchange.sock = made
    try:
        status, reason, headers, body = _exchange(exchange, destination, None if address.is_secure else proxy)
    except TimeoutError:
        return progress.late()
    except ValueError:
        return Answer(
            "header",
            State.FAILED,
            "a header of OTEL_EXPORTER_OTLP_HEADERS has a character that HTTP forbids, and the exporter refuses every batch",
            "Write its value URL-encoded, without line breaks.",
        )
    except (http.client.HTTPException, OSError) as error:
        if "CERTIFICATE" in str(getattr(error, "reason", "")):  # with TLS 1.3, a server says it after the handshake
            return _NO_CLIENT
        # The connection may be gone before what the server says of the certificate has been read.
        asks = address.is_secure and not destination.tls.certificate
        return _of_another_port(destination, _NO_HTTP_OVER_TLS if asks else _NO_HTTP)
    finally:
        exchange.close()
    if status == http.client.BAD_REQUEST and not address.is_secure and connection.speaks(address) == "tls":
        return _TLS
    return _meaning(destination, status, reason, headers, body)


def _exchange(
    exchange: http.client.HTTPConnection, destination: HttpDestination, proxy: str | None
) -> tuple[int, str, Mapping[str, str], str]:
    parts = urlsplit(destination.url)
    headers = {**_HEADERS, **destination.headers}
    target = f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}"
    if proxy is not None:
        target = f"http://{destination.address}{target}"
        if credentials := connection.authorization(proxy):
            headers["proxy-authorization"] = credentials
    exchange.request("POST", target, b"", headers)
    response = exchange.getresponse()
    body = response.read(_LONGEST_BODY).decode("utf-8", "replace")
    return response.status, response.reason, {name.lower(): value for name, value in response.getheaders()}, body


def _trust(destination: HttpDestination, environment: Mapping[str, str]) -> Trust:
    """What `requests` trusts: its own variables win over what an exporter gives to its session."""
    for variable in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        if environment.get(variable):
            return Trust(environment[variable], variable)
    if destination.tls.ca:
        return Trust(destination.tls.ca, "OTEL_EXPORTER_OTLP_CERTIFICATE")
    if find_spec("certifi") is None:
        return Trust()
    import certifi

    return Trust(certifi.where())


_NO_HTTP = Answer(
    "no http",
    State.FAILED,
    "the connection was closed without an HTTP answer",
    "Check which program listens on that port: 4318 is the usual one for OTLP over HTTP.",
)
_NO_HTTP_OVER_TLS = _NO_HTTP._replace(
    remedy="Check which program listens on that port. If it requires a client's certificate, set "
    "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE and OTEL_EXPORTER_OTLP_CLIENT_KEY."
)
_NO_CLIENT = Answer(
    "tls client",
    State.FAILED,
    "the endpoint refuses the client's certificate, or requires one",
    "Set OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE and OTEL_EXPORTER_OTLP_CLIENT_KEY.",
)
_GRPC = Answer(
    "speaks grpc",
    State.FAILED,
    "the port speaks HTTP/2, as gRPC does, but the exporter sends HTTP/1.1",
    "Set OTEL_EXPORTER_OTLP_PROTOCOL=grpc, or name the port for HTTP, which is usually 4318.",
)
_TLS = Answer(
    "speaks tls",
    State.FAILED,
    "the port speaks TLS, but the endpoint begins with http://",
    "Write https:// in the endpoint.",
)
_PLAIN = Answer(
    "speaks no tls",
    State.FAILED,
    "the port speaks HTTP without TLS, but the endpoint begins with https://",
    "Write http:// in the endpoint.",
)


def _of_another_port(destination: HttpDestination, otherwise: Answer) -> Answer:
    """What the port speaks instead."""
    address = destination.address
    if address.is_secure:
        if connection.speaks(address) == "http/2":
            return _GRPC
        plain = connection.speaks(address._replace(is_secure=False))
        return {"http/1": _PLAIN, "http/2": _GRPC}.get(plain, otherwise)
    return {"http/2": _GRPC, "tls": _TLS}.get(connection.speaks(address), otherwise)


def _meaning(destination: HttpDestination, status: int, reason: str, headers: Mapping[str, str], body: str) -> Answer:
    kind = f"http {status}"
    answered = f"HTTP {status} {without_secrets(reason, destination.secrets)}".rstrip()
    said = without_secrets(body, destination.secrets) if _is_text(headers) else ""
    quoted = f"{answered}, {said!r}" if said and status >= http.client.BAD_REQUEST else answered
    media = headers.get("content-type", "").partition(";")[0].strip().lower()
    if 200 <= status < 300:
        if media and media not in _TYPES and body:
            return Answer(
                "no otlp",
                State.FAILED,
                f"{answered} with {media}: an OTLP endpoint does not answer like this, but the exporter counts the batch as delivered",
                _path_remedy(destination),
            )
        return Answer("accepted", State.OK, f"accepts {destination.signal} ({answered})")
    if 300 <= status < 400:
        to = shown(headers.get("location", ""))
        return Answer(
            kind,
            State.FAILED,
            f"{answered}: redirects{f' to {to}' if to else ''}, which the exporter does not follow and counts as delivered",
            "Set the endpoint to the URL to which it redirects.",
        )
    if status in (401, 403):
        names = ", ".join(sorted(destination.headers)) or "none"
        return Answer(
            kind,
            State.FAILED,
            f"{quoted}: it does not accept the credentials (headers sent: {names})",
            "Set OTEL_EXPORTER_OTLP_HEADERS to what the endpoint asks for, such as authorization=Bearer%20<token>.",
        )
    if status in (404, 405):
        return Answer(kind, State.FAILED, f"{quoted}: no OTLP endpoint at this path", _path_remedy(destination))
    if status == 407:
        return Answer(
            kind,
            State.FAILED,
            f"{quoted}: the proxy requires credentials",
            "Add them to the proxy variable: http://user:password@proxy:port.",
        )
    if status == 415:
        return Answer(
            kind, State.FAILED, f"{quoted}: it does not accept OTLP as protobuf", "Name an endpoint that does."
        )
    if status == 429:
        return Answer(
            kind,
            State.WARNING,
            f"{quoted}: it limits the rate",
            "Exporters try again, and lose what arrives in the meantime.",
        )
    if status == 400:
        return Answer(
            kind,
            State.WARNING,
            f"{quoted}: it refuses a request without spans",
            "To check whether it accepts one with a span: torchspan doctor --send",
        )
    if status in (502, 503, 504):
        return Answer(
            kind,
            State.FAILED,
            f"{quoted}: the server behind it is not available now; exporters try again for 10 s",
            "Check the log of the endpoint, or of the proxy in front of it.",
        )
    return Answer(kind, State.FAILED, f"{quoted}: not accepted", "Check the log of the endpoint.")


def _is_text(headers: Mapping[str, str]) -> bool:
    return headers.get("content-type", "").startswith(("text/plain", "application/json"))


def _path_remedy(destination: HttpDestination) -> str:
    path = f"/v1/{destination.signal}"
    if destination.has_path_of_its_own and not urlsplit(destination.url).path.rstrip("/").endswith(path):
        return f"The exporter uses {destination.source} as it is written: add {path} to it."
    return f"The usual endpoint is http://<host>:4318, to which the exporter adds {path}."
