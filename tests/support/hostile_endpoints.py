# SPDX-License-Identifier: Apache-2.0
"""Endpoints on loopback that are not good OTLP receivers: each a context manager with a `port`."""

import contextlib
import re
import socket
import ssl
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property

CLOSE = None
"""Instead of an answer: the connection is closed."""


def _request(stream):
    """What a client sends first; of HTTP/1 the whole request, because a closed connection resets what is still on its way."""
    received = stream.recv(65_536)
    while re.match(rb"[A-Z]+ /", received) and not _is_whole(received):
        part = stream.recv(65_536)
        if not part:
            break
        received += part
    return received


def _is_whole(request):
    head, end, body = request.partition(b"\r\n\r\n")
    length = re.search(rb"\r\ncontent-length: *(\d+)", head, re.IGNORECASE)
    return bool(end) and len(body) >= (int(length[1]) if length else 0)


class Endpoint:
    """Answers the first request of every connection with the same bytes, and closes it.

    answer: the bytes, or CLOSE. hangs: never answers. tls: an `ssl.SSLContext` of a server.
    """

    def __init__(self, answer=CLOSE, *, hangs=False, tls=None):
        self._answer, self._hangs, self._tls = answer, hangs, tls
        self.requests = []
        self._stopped = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def _serve(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._handle, args=(connection,), daemon=True).start()

    def _handle(self, connection):
        with contextlib.suppress(OSError), connection:
            connection.settimeout(30)
            stream = self._tls.wrap_socket(connection, server_side=True) if self._tls else connection
            with stream:
                self.requests.append(_request(stream))
                self._respond(stream)

    def _respond(self, stream):
        if self._hangs:
            self._stopped.wait()
        elif self._answer is not CLOSE:
            stream.sendall(self._answer)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stopped.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()


class Dripping(Endpoint):
    """Begins an answer in HTTP, and sends a byte of it now and then for as long as it runs: no wait for one byte is long."""

    def _respond(self, stream):
        stream.sendall(b"HTTP/1.1 200 OK\r\nX: ")
        while not self._stopped.wait(0.02):
            stream.sendall(b"x")


class Long(Endpoint):
    """Answers with 64 MiB. is_read: whether the client has read all of them, once `has_ended` is set."""

    def __init__(self):
        super().__init__()
        self.has_ended, self.is_read = threading.Event(), False

    def _respond(self, stream):
        size, part = 64 << 20, b"x" * (1 << 20)
        try:
            stream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
            for _ in range(size // len(part)):
                stream.sendall(part)
            self.is_read = True
        finally:
            self.has_ended.set()


def http(status, body=b"", **headers):
    """An endpoint that gives one HTTP answer to everything. headers: `content_type` for Content-Type."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    lines = [f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in named.items()), "Connection: close"]
    return Endpoint("\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode() + body)


class GrpcEndpoint:
    """A server of gRPC that ends every call with one status.

    code: its name. answer: the bytes of the message where it is OK. hangs: never answers a call. credentials: `grpc.ServerCredentials`.
    """

    def __init__(self, code="OK", details="", *, answer=b"", hangs=False, credentials=None):
        import grpc

        self.metadata = []
        self._stopped = threading.Event()

        def serve(_request, call):
            self.metadata.append(dict(call.invocation_metadata()))
            if hangs:
                self._stopped.wait()
            if code != "OK":
                call.abort(grpc.StatusCode[code], details)
            return answer

        class Services(grpc.GenericRpcHandler):
            def service(self, _call):
                return grpc.unary_unary_rpc_method_handler(serve)

        self._server = grpc.server(ThreadPoolExecutor(4), handlers=(Services(),))
        add = self._server.add_insecure_port
        self.port = (
            add("127.0.0.1:0") if credentials is None else self._server.add_secure_port("127.0.0.1:0", credentials)
        )
        self._server.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._stopped.set()
        self._server.stop(None).wait()


class Authority:
    """A private authority of certificates, and one certificate of a server.

    host: for which the certificate is. options: of `trustme.CA.issue_cert`.
    """

    def __init__(self, folder, host="127.0.0.1", **options):
        import trustme

        self._authority = trustme.CA()
        self._certificate = self._authority.issue_cert(host, **options)
        self.file = str(folder / "ca.pem")
        self._authority.cert_pem.write_to_path(self.file)

    @cached_property
    def server(self):
        """An `ssl.SSLContext` of a server with the certificate."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._certificate.configure_cert(context)
        return context

    @cached_property
    def grpc_server(self):
        """The same for a server of gRPC."""
        import grpc

        chain = b"".join(each.bytes() for each in self._certificate.cert_chain_pems)
        return grpc.ssl_server_credentials([(self._certificate.private_key_pem.bytes(), chain)])

    def server_that_asks(self, file):
        """The same for a server that takes clients alone whose certificate an authority in the file has signed."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=file)
        self._certificate.configure_cert(context)
        context.verify_mode = ssl.CERT_REQUIRED
        return context

    def client_files(self, folder):
        """The certificate as a file, and its key as another one."""
        certificate, key = str(folder / "client.pem"), str(folder / "client.key")
        self._certificate.cert_chain_pems[0].write_to_path(certificate)
        self._certificate.private_key_pem.write_to_path(key)
        return certificate, key


def closed_port():
    """A port of 127.0.0.1 on which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as made:
        return made.getsockname()[1]
