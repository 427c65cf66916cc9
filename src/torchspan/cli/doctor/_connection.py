# SPDX-License-Identifier: Apache-2.0
"""Connections to endpoints: TCP, the proxy, TLS, and what a port speaks. Uses only the standard library."""

from __future__ import annotations

import base64
import contextlib
import errno
import socket
import ssl
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from torchspan.cli.doctor._answer import Answer, Progress
from torchspan.cli.doctor._check import State
from torchspan.cli.doctor._destinations import Address, TlsFiles
from torchspan.cli.doctor._urls import shown

_HTTP2_START = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
"""The connection preface and empty SETTINGS (RFC 9113, 3.4)."""

_SETTINGS = 4
_UNTRUSTED = {18, 19, 20, 21}
"""X509_V_ERR_* of certificates whose issuer is not known or not trusted."""
_EXPIRED, _NOT_YET_VALID, _OTHER_HOST, _OTHER_ADDRESS = 10, 9, 62, 64
_PROBE_S = 1.0


class NoConnectionError(Exception):
    """There is no connection. `answer` says why."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.text)
        self.answer = answer


def connect(address: Address, proxy: str | None, progress: Progress) -> socket.socket:
    """A TCP connection to the address, or to the proxy, as a URL. Raises NoConnectionError."""
    host, port = address.host, address.port
    through = ""
    if proxy is not None:
        try:
            parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
            host, port = parts.hostname or "", parts.port or 80
        except ValueError:
            host = ""
        if not host:
            raise NoConnectionError(
                Answer(
                    "proxy",
                    State.FAILED,
                    "the proxy variable does not contain a URL",
                    "Correct HTTP_PROXY or HTTPS_PROXY.",
                )
            )
        through = f" (the proxy {shown(proxy)})"
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        progress.stage = f"connecting to it{through}"
        return _first(found, progress)
    except (socket.gaierror, UnicodeError):
        raise NoConnectionError(
            Answer(
                "name",
                State.FAILED,
                f"the name {host} cannot be resolved{through}",
                "Correct the name, or check that this machine's name server resolves it.",
            )
        ) from None
    except ConnectionRefusedError:
        raise NoConnectionError(
            Answer(
                "refused",
                State.FAILED,
                f"connection refused{through}: no program listens on port {port} of {host}",
                "Correct the proxy variable, or add the endpoint's host to NO_PROXY."
                if through
                else "Start a Collector there, or set OTEL_EXPORTER_OTLP_ENDPOINT to the host and port of yours.",
            )
        ) from None
    except TimeoutError:
        raise NoConnectionError(progress.late()) from None
    except OSError as error:
        code = errno.errorcode.get(error.errno or 0, "")
        raise NoConnectionError(
            Answer(
                "unreachable",
                State.FAILED,
                f"no connection{through}: {error.strerror or code or type(error).__name__}",
                "Check the network of this machine, and the host and port of the endpoint.",
            )
        ) from None


def _first(found: Iterable[tuple[Any, ...]], progress: Progress) -> socket.socket:
    """A connection to the first of several addresses that takes one."""
    last: OSError | None = None
    for family, kind, protocol, _, address in found:
        made = socket.socket(family, kind, protocol)
        try:
            made.settimeout(progress.left)
            made.connect(address)
        except OSError as error:
            made.close()
            last = last or error
        else:
            return made
    raise last or OSError(errno.EADDRNOTAVAIL, "no address")


class Trust(NamedTuple):
    """The certificates that are trusted. file: empty for the system's. source: the variable that names it; empty without."""

    file: str = ""
    source: str = ""


_NAMED_FOR_OTLP = "OTEL_EXPORTER_OTLP_CERTIFICATE"


def secured(
    connection: socket.socket, address: Address, tls: TlsFiles, trust: Trust, progress: Progress, protocol: str
) -> ssl.SSLSocket:
    """TLS over a connection, verified. protocol: for ALPN. Raises NoConnectionError."""
    try:
        context = _context(tls, trust)
    except NoConnectionError:
        connection.close()
        raise
    context.set_alpn_protocols([protocol])
    progress.stage = "negotiating TLS"
    connection.settimeout(progress.left)
    try:
        return context.wrap_socket(connection, server_hostname=address.host)
    except TimeoutError:
        answer = progress.late()
    except ssl.SSLCertVerificationError as error:
        answer = _untrusted(error, address, trust)
    except (ssl.SSLError, OSError) as error:
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or type(error).__name__
        answer = Answer(
            "tls",
            State.FAILED,
            f"no TLS on that port ({reason})",
            "If it speaks no TLS, write http:// instead of https://. If it requires a client's certificate, set "
            "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE and OTEL_EXPORTER_OTLP_CLIENT_KEY.",
        )
    connection.close()
    raise NoConnectionError(answer)


def _context(tls: TlsFiles, trust: Trust) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=trust.file or None)
    except (OSError, ValueError) as error:
        raise NoConnectionError(_bad_file(trust.source or _NAMED_FOR_OTLP, error)) from None
    if tls.certificate:
        try:
            context.load_cert_chain(tls.certificate, tls.key or None)
        except (OSError, ValueError) as error:
            variables = "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE or _CLIENT_KEY"
            raise NoConnectionError(_bad_file(variables, error)) from None
    return context


def _bad_file(variable: str, error: Exception) -> Answer:
    reason = getattr(error, "strerror", None) or type(error).__name__
    return Answer(
        "tls file",
        State.FAILED,
        f"the file that {variable} names cannot be used: {reason}",
        "Name a file of certificates in PEM format that this user can read.",
    )


def _untrusted(error: ssl.SSLCertVerificationError, address: Address, trust: Trust) -> Answer:
    if error.verify_code in _UNTRUSTED:
        where, remedy = "that this machine does not trust", f"Name its certificate: {_NAMED_FOR_OTLP}=<file in PEM>."
        if trust.source == _NAMED_FOR_OTLP:
            where = f"that is not in the file of {trust.source}"
        elif trust.source:
            where = f"that is not in the file of {trust.source}, which wins over {_NAMED_FOR_OTLP}"
            remedy = f"Add its certificate to that file, or unset {trust.source}."
        text = f"the endpoint's certificate is signed by an authority {where}"
        return Answer("tls untrusted", State.FAILED, text, remedy)
    if error.verify_code in (_OTHER_HOST, _OTHER_ADDRESS):
        return Answer(
            "tls name",
            State.FAILED,
            f"the endpoint's certificate is not for {address.host}",
            "Write the name in the certificate as the endpoint's host.",
        )
    if error.verify_code in (_EXPIRED, _NOT_YET_VALID):
        return Answer(
            "tls expired",
            State.FAILED,
            f"the endpoint's certificate is not valid now ({error.verify_message})",
            "Renew it, or correct the clock of this machine.",
        )
    text = f"the endpoint's certificate is refused: {error.verify_message}"
    return Answer("tls", State.FAILED, text, "Correct the certificate.")


def tunnel(connection: socket.socket, address: Address, proxy: str, progress: Progress) -> None:
    """Make the proxy at the other end connect to the address (CONNECT, RFC 9110, 9.3.6). Raises NoConnectionError."""
    progress.stage = f"the proxy {shown(proxy)} was connecting to it"
    connection.settimeout(progress.left)
    credentials = authorization(proxy)
    header = f"Proxy-Authorization: {credentials}\r\n" if credentials else ""
    status = ""
    with contextlib.suppress(OSError):
        connection.sendall(f"CONNECT {address} HTTP/1.1\r\nHost: {address}\r\n{header}\r\n".encode())
        status = b"".join(_head(connection)).decode("latin-1").partition("\r\n")[0]
    if status.startswith("HTTP/1.") and status[9:10] == "2":
        return
    connection.close()
    raise NoConnectionError(
        Answer(
            "proxy",
            State.FAILED,
            f"the proxy {shown(proxy)} does not connect to it: {status[9:60] or 'no answer'}",
            "Allow the host in the proxy, or add it to NO_PROXY.",
        )
    )


def authorization(proxy: str) -> str:
    """The value of Proxy-Authorization for the user and the password in a proxy's URL; empty without them."""
    parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    if parts.username is None:
        return ""
    text = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return f"Basic {base64.b64encode(text.encode()).decode()}"


def _head(connection: socket.socket) -> Iterator[bytes]:
    """An answer up to its empty line, byte by byte: what follows belongs to the tunnel."""
    end = b""
    for _ in range(16_384):
        byte = connection.recv(1)
        if not byte:
            return
        yield byte
        end = (end + byte)[-4:]
        if end == b"\r\n\r\n":
            return


def speaks(address: Address) -> str:
    """What a port answers to: `http/1`, `http/2`, `tls`, or nothing of these: empty. For about three seconds at most."""
    if _first_bytes(address, _HTTP2_START)[3:4] == bytes([_SETTINGS]):
        return "http/2"
    request = f"GET / HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n".encode()
    first = _first_bytes(address, request)
    # First: a server for TLS may say in plain text that it is one.
    if not address.is_secure and _has_tls(address):
        return "tls"
    return "http/1" if first.startswith(b"HTTP/1.") else ""


def _first_bytes(address: Address, request: bytes) -> bytes:
    with (
        contextlib.suppress(OSError, UnicodeError),
        socket.create_connection((address.host, address.port), _PROBE_S) as made,
    ):
        stream: socket.socket = (
            _unverified().wrap_socket(made, server_hostname=address.host) if address.is_secure else made
        )
        with stream:
            stream.sendall(request)
            return stream.recv(64)
    return b""


def _has_tls(address: Address) -> bool:
    with (
        contextlib.suppress(OSError, UnicodeError),
        socket.create_connection((address.host, address.port), _PROBE_S) as made,
        _unverified().wrap_socket(made, server_hostname=address.host),
    ):
        return True
    return False


def _unverified() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2", "http/1.1"])
    return context
