# SPDX-License-Identifier: Apache-2.0
"""A backend that takes everything and looks at nothing."""

import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class _Sink(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        """Silent."""


@contextmanager
def sink(port: int = 0) -> Iterator[str]:
    """The address of the backend, on loopback: on a free port, or on this one."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), _Sink)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
