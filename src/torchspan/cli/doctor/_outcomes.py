# SPDX-License-Identifier: Apache-2.0
"""What an OTLP exporter logged about a request, as a word that `torchspan doctor` explains.

No text of a log record is printed: a refused header stands there with its value. So a record is read by the types of exceptions, by
status codes, and for gRPC by eight patterns of grpcio's details. What is not recognized is never guessed.
"""

from __future__ import annotations

import errno
import http
import re
import ssl
from collections.abc import Iterator
from http.client import BadStatusLine, RemoteDisconnected
from typing import Any, NamedTuple

_PHRASES = {status.phrase: status.value for status in http.HTTPStatus}

_UNAVAILABLE = (
    ("name", re.compile(r"lookup error|DNS resolution failed|Domain name not found")),
    ("tls untrusted", re.compile(r"CERTIFICATE_VERIFY_FAILED")),
    ("tls name", re.compile(r"[Pp]eer name .* is not in peer certificate|Hostname Verification Check failed")),
    ("speaks no tls", re.compile(r"WRONG_VERSION_NUMBER")),
    ("speaks http", re.compile(r"Failed parsing HTTP/2|http1\.x server")),
    ("reset", re.compile(r"Connection reset|Socket closed|Broken pipe")),
    ("refused", re.compile(r"Connection refused")),
    ("unreachable", re.compile(r"Network is unreachable|No route to host")),
)
"""What grpcio says in the details of UNAVAILABLE."""

_UNREACHABLE = {errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN}
_BY_TYPE = {
    "NameResolutionError": "name",
    "gaierror": "name",
    "ProxyError": "proxy",
    "ConnectionRefusedError": "refused",
    "ConnectionResetError": "reset",
    "BrokenPipeError": "reset",
    "RemoteDisconnected": "reset",
    "ReadTimeout": "timeout",
    "ConnectTimeout": "timeout",
    "InvalidHeader": "header",
    "MissingSchema": "address",
    "InvalidSchema": "address",
    "InvalidURL": "address",
    "LocationParseError": "address",
    "FileNotFoundError": "tls file",
    "IsADirectoryError": "tls file",
    "PermissionError": "tls file",
}
"""Class of an exception, or of one of its causes -> the word."""


class Meaning(NamedTuple):
    """What a word for an outcome means.

    Attributes:
        text: What happened, in a clause about the endpoint.
        remedy: What to do.
    """

    text: str
    remedy: str


REFUSALS = ("http 401", "http 403", "grpc UNAUTHENTICATED", "grpc PERMISSION_DENIED")
"""Words for an endpoint that does not accept the credentials."""

_CREDENTIALS = "Check the headers of OTEL_EXPORTER_OTLP_HEADERS, and whether the endpoint knows the credentials."
_PORTS = "4317 is the usual port for gRPC, 4318 for HTTP (OTEL_EXPORTER_OTLP_PROTOCOL)."
MEANINGS = {
    "refused": Meaning("no program listens on that port", "Start the Collector, or correct the endpoint."),
    "name": Meaning("its name cannot be resolved", "Correct the host in the endpoint."),
    "unreachable": Meaning("the network does not reach it", "Correct the host, or ask who runs the network."),
    "timeout": Meaning(
        "it does not answer", "A firewall may drop the packets, or the endpoint hangs. Try: curl -v <endpoint>"
    ),
    "reset": Meaning(
        "it closes the connection without an answer", f"The port may require TLS (https://), or speak no OTLP. {_PORTS}"
    ),
    "proxy": Meaning("the proxy does not connect to it", "See HTTP_PROXY, HTTPS_PROXY and NO_PROXY."),
    "tls untrusted": Meaning(
        "its certificate is signed by an authority that is not trusted",
        "Name the authority's certificate: OTEL_EXPORTER_OTLP_CERTIFICATE. REQUESTS_CA_BUNDLE and CURL_CA_BUNDLE win over it.",
    ),
    "tls name": Meaning("its certificate is for another name", "Use a name of the certificate in the endpoint."),
    "tls expired": Meaning("its certificate is not valid now", "Renew the certificate, or correct the clock."),
    "tls client": Meaning(
        "it requires a client's certificate",
        "Set OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE and OTEL_EXPORTER_OTLP_CLIENT_KEY.",
    ),
    "tls file": Meaning(
        "a file of certificates that a variable names cannot be read",
        "Correct OTEL_EXPORTER_OTLP_CERTIFICATE, OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE or OTEL_EXPORTER_OTLP_CLIENT_KEY.",
    ),
    "tls": Meaning("TLS fails", "Check the certificates with: openssl s_client -connect <host>:<port>"),
    "speaks grpc": Meaning(
        "the port speaks HTTP/2, as gRPC does, but the exporter sends HTTP/1.1",
        "Set OTEL_EXPORTER_OTLP_PROTOCOL=grpc, or name the port for HTTP, which is usually 4318.",
    ),
    "speaks http": Meaning(
        "the port does not speak HTTP/2, which gRPC needs",
        "Set OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf, or name the port for gRPC, which is usually 4317.",
    ),
    "speaks tls": Meaning(
        "the port speaks TLS, but the endpoint begins with http://", "Write https:// in the endpoint."
    ),
    "speaks no tls": Meaning(
        "the port does not speak TLS, but the endpoint asks for it",
        "Write http:// in the endpoint. For gRPC, an endpoint without a scheme means TLS.",
    ),
    "no http": Meaning("it does not speak HTTP", _PORTS),
    "no otlp": Meaning("it answers with a page or a text, not as OTLP does", _PORTS),
    "header": Meaning("a header cannot be sent", "Correct OTEL_EXPORTER_OTLP_HEADERS: its values are URL-encoded."),
    "address": Meaning("it is not an address", "Write the whole URL into the endpoint, such as http://collector:4318."),
    "http 404": Meaning(
        "HTTP 404: the path does not exist",
        "OTEL_EXPORTER_OTLP_ENDPOINT is without the path /v1/traces, the variable of one signal is with it.",
    ),
    "http later": Meaning("it refuses requests for now", "Look at the log of the Collector."),
    "grpc UNIMPLEMENTED": Meaning(
        "gRPC UNIMPLEMENTED: it does not accept this signal", "If that is intended: OTEL_<signal>_EXPORTER=none."
    ),
    "grpc UNAVAILABLE": Meaning("it cannot be reached", f"Correct the endpoint. {_PORTS}"),
}
"""The words, apart from other statuses (`http 500`, `grpc INTERNAL`) and classes of exceptions (`failed ValueError`)."""


def meaning(word: str) -> Meaning:
    """What a word of `of_record` or `of_exception` means."""
    if word in MEANINGS:
        return MEANINGS[word]
    kind, _, detail = word.partition(" ")
    if kind == "failed":
        return Meaning(f"the exporter failed with {detail}", "Send a test trace: torchspan doctor --send")
    status = f"{'HTTP' if kind == 'http' else 'gRPC'} {detail}"
    if kind == "http" and detail.startswith("3"):
        return Meaning(
            f"{status}: it redirects, which exporters do not follow", "Write where it leads into the endpoint."
        )
    if word in REFUSALS:
        return Meaning(f"{status}: it does not accept the credentials", _CREDENTIALS)
    return Meaning(status, "Look at the log of the Collector.")


def of_record(arguments: tuple[Any, ...], exception: BaseException | None) -> str | None:
    """The word for a log record of an exporter during an export; None if the record does not say how it ended.

    Args:
        arguments, exception: What was logged. HTTP exporters log the status or the exception that a request ended with,
            and the reason phrase alone for a status after which they try again. gRPC exporters log the status code and
            the details.
    """
    for argument in arguments:
        name = getattr(argument, "name", None)
        if type(argument).__name__ == "StatusCode" and isinstance(name, str):
            return of_grpc(name, " ".join(text for text in arguments if isinstance(text, str)))
    for argument in (*arguments, exception):
        if isinstance(argument, BaseException):
            return of_exception(argument)
    for argument in arguments:
        if type(argument) is int:
            return f"http {argument}"
    if len(arguments) > 1:
        return f"http {_PHRASES[arguments[0]]}" if arguments[0] in _PHRASES else "http later"
    return None


def of_answer(response: Any) -> str | None:
    """The word for an answer over HTTP that exporters take for a success although nothing was taken; None for any other."""
    if 300 <= response.status_code < 400:
        return f"http {response.status_code}"
    is_page = response.headers.get("Content-Type", "").startswith("text/")
    return "no otlp" if response.status_code == 200 and is_page else None


def of_grpc(code: str, details: str) -> str:
    """The word for a status of gRPC."""
    if code == "DEADLINE_EXCEEDED":
        return "timeout"
    if code == "UNAVAILABLE":
        return next((word for word, pattern in _UNAVAILABLE if pattern.search(details)), f"grpc {code}")
    return f"grpc {code}"


def of_exception(error: BaseException) -> str:
    """The word for an exception, by its type and those of its causes."""
    causes = list(_causes(error))
    for cause in causes:
        if isinstance(cause, ssl.SSLError):
            return _of_tls(cause)
        if isinstance(cause, BadStatusLine) and not isinstance(cause, RemoteDisconnected):
            return _of_status_line(str(cause.args[0]) if cause.args else "")
    words = (_BY_TYPE.get(type(cause).__name__) for cause in causes)
    word = next((word for word in words if word is not None), None)
    if word is not None:
        return word
    for cause in causes:
        if isinstance(cause, OSError) and cause.errno in _UNREACHABLE:
            return "unreachable"
        if isinstance(cause, TimeoutError):
            return "timeout"
    if type(error) is OSError:  # requests, for a file of certificates that does not exist
        return "tls file"
    return f"failed {type(causes[-1]).__name__}"


def _of_tls(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):  # codes of OpenSSL's X509_verify_cert
        return {9: "tls expired", 10: "tls expired", 62: "tls name", 64: "tls name"}.get(
            error.verify_code, "tls untrusted"
        )
    reason = error.reason or ""
    if "CERTIFICATE" in reason:
        return "tls client"
    return "speaks no tls" if reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST") else "tls"


def _of_status_line(line: str) -> str:
    """An answer that is not HTTP/1: a frame of HTTP/2 (RFC 9113, 4.1: SETTINGS is type 4), or an alert of TLS (type 21)."""
    if line[3:4] == "\x04" and line[:1] == "\x00":
        return "speaks grpc"
    return "speaks tls" if line[:2] == "\x15\x03" else "no http"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """An exception, and those that it was raised for, outermost first."""
    pending, seen = [error], set()
    while pending:
        cause = pending.pop(0)
        if id(cause) in seen:
            continue
        seen.add(id(cause))
        yield cause
        reasons = (cause.__cause__, cause.__context__, getattr(cause, "reason", None), *cause.args)
        pending.extend(reason for reason in reasons if isinstance(reason, BaseException))
