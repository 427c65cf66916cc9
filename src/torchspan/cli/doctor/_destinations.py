# SPDX-License-Identifier: Apache-2.0
"""Where the OTLP exporters of a program started here would send, from the variables that they read.

https://opentelemetry.io/docs/specs/otel/protocol/exporter/, and where OpenTelemetry's exporters for Python do otherwise,
what they do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from torchspan._config_file import VARIABLE
from torchspan.cli.doctor._check import Context
from torchspan.cli.doctor._exporters import GRPC, Exporter
from torchspan.cli.doctor._urls import secrets_in, shown

_PREFIX = "OTEL_EXPORTER_OTLP"
_DEFAULT_PORTS = {"http": 80, "https": 443}
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9a-z-]+")


class AddressError(Exception):
    """No request can be made to what is written. The message says why and what to write, in two sentences."""


class Address(NamedTuple):
    """A host and a port, and whether TLS is spoken there."""

    host: str
    port: int
    is_secure: bool

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class TlsFiles(NamedTuple):
    """Files for TLS that variables name; empty without one. ca: the certificates that are trusted."""

    ca: str = ""
    certificate: str = ""
    key: str = ""


@dataclass(frozen=True)
class Destination:
    """The endpoint of one exporter.

    url: as it is written, for HTTP with the path that the exporter adds. source: the variable that names it, or
    OTEL_CONFIG_FILE; empty for the exporter's default. headers: by lower-case names. is_asked_for: a variable or a
    configuration file names the signal's exporter or its endpoint.
    """

    signal: str
    url: str
    source: str
    address: Address
    headers: Mapping[str, str]
    tls: TlsFiles
    is_asked_for: bool

    @property
    def secrets(self) -> set[str]:
        """What must not be printed."""
        return secrets_in(self.url, self.headers.values())


class HttpDestination(Destination):
    """An endpoint of OTLP over HTTP."""

    @property
    def has_path_of_its_own(self) -> bool:
        """Whether the exporter takes the path as it is written, and adds none for the signal."""
        return self.source not in ("", f"{_PREFIX}_ENDPOINT")


class GrpcDestination(Destination):
    """An endpoint of OTLP over gRPC."""


def destination(exporter: Exporter, context: Context) -> Destination:
    """The endpoint of an OTLP exporter. Raises AddressError."""
    url, source = _written(exporter, context)
    is_grpc = exporter.name == GRPC
    # Without one of its own, a signal shares the endpoint that is named for all.
    is_named = source and (source != f"{_PREFIX}_ENDPOINT" or exporter.signal == "traces")
    common: dict[str, Any] = {
        "signal": exporter.signal,
        "source": source,
        "headers": dict(_headers(exporter, context)),
        "tls": TlsFiles(
            *(_of(name, exporter, context)[0] for name in ("CERTIFICATE", "CLIENT_CERTIFICATE", "CLIENT_KEY"))
        ),
        "is_asked_for": bool(is_named or exporter.source),
    }
    if is_grpc:
        return GrpcDestination(url=url, address=_grpc_address(url, source, exporter, context), **common)
    if source in ("", f"{_PREFIX}_ENDPOINT"):
        url = f"{url.removesuffix('/')}/v1/{exporter.signal}"
    return HttpDestination(url=url, address=_http_address(url, source), **common)


def _written(exporter: Exporter, context: Context) -> tuple[str, str]:
    if exporter.options.get("endpoint"):
        return str(exporter.options["endpoint"]), VARIABLE
    default = "http://localhost:4317" if exporter.name == GRPC else "http://localhost:4318"
    url, variable = _of("ENDPOINT", exporter, context)
    return (url, variable) if url else (default, "")


def _of(name: str, exporter: Exporter, context: Context) -> tuple[str, str]:
    """The value of a variable of OTLP exporters, that of the signal first, and which one it is."""
    for variable in (f"{_PREFIX}_{exporter.signal.upper()}_{name}", f"{_PREFIX}_{name}"):
        if value := context.variable(variable):
            return value, variable
    return "", ""


def _http_address(url: str, source: str) -> Address:
    scheme = url.partition("://")[0].lower() if "://" in url else ""
    if scheme not in _DEFAULT_PORTS:
        raise AddressError(
            f"{shown(url)} begins with neither http:// nor https://, so the exporter refuses every batch. "
            f"Write the whole URL, such as {source}=http://collector:4318."
        )
    return _address(_parts(url), url, scheme == "https", _DEFAULT_PORTS[scheme])


def _grpc_address(url: str, source: str, exporter: Exporter, context: Context) -> Address:
    """As `OTLPExporterMixin` decides: https is TLS, then OTEL_EXPORTER_OTLP_INSECURE, then http is none."""
    scheme = url.partition("://")[0].lower() if "://" in url else ""
    insecure = _of("INSECURE", exporter, context)[0].lower()
    is_secure = scheme == "https" or (insecure != "true" if insecure else scheme != "http")
    if "://" in url and scheme not in _DEFAULT_PORTS:
        raise AddressError(
            f"{shown(url)} is not an endpoint of gRPC. Write {source}=http://collector:4317, or https:// for TLS."
        )
    parts = _parts(url if "://" in url else f"//{url}")
    return _address(parts, url, is_secure, 443)


def _parts(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError:
        raise AddressError("The endpoint is not a URL. Write one such as http://collector:4318.") from None


def _address(parts: SplitResult, url: str, is_secure: bool, default_port: int) -> Address:
    try:
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host:
        raise AddressError(
            f"{shown(url)} has no host, or an invalid port. Write host and port, such as http://collector:4318."
        )
    return Address(host, default_port if port is None else port, is_secure)


def _headers(exporter: Exporter, context: Context) -> Iterator[tuple[str, str]]:
    """The headers of a request, as the exporters read them: URL-decoded, names in lower case."""
    text = exporter.options.get("headers_list") or _of("HEADERS", exporter, context)[0]
    for entry in str(text).split(","):
        name, equals, value = entry.partition("=")
        if equals and _HEADER_NAME.fullmatch(unquote(name).strip().lower()):
            yield unquote(name).strip().lower(), unquote(value).strip()
    pairs: Any = exporter.options.get("headers") or ()
    for pair in pairs:
        yield str(pair.name).lower(), str(pair.value or "")
