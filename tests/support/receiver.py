# SPDX-License-Identifier: Apache-2.0
"""OTLP receivers on loopback sockets, for HTTP and for gRPC: what a program really sends, in the order in which it arrives."""

import functools
import gzip
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True)
class Received:
    """A span as it arrived. Ids are hexadecimal, `parent_id` is empty for a root; times in ns since 1970.

    links: (trace id, span id) of each.
    """

    name: str
    trace_id: str
    span_id: str
    parent_id: str
    start_ns: int
    end_ns: int
    attributes: dict[str, Any]
    scope: str
    resource: dict[str, Any]
    links: list[tuple[str, str]]


class Arrivals:
    """What has arrived at a receiver. Also the receiver as a context manager; its `stop()` is called at the end."""

    def __init__(self):
        self._changed = threading.Condition()
        self._traces, self._metrics = [], []
        self.bodies = []
        """(path, headers, body) of each request, uncompressed."""
        self.requests = 0
        """Requests whose body has arrived, whatever they were."""

    def spans(self):
        """Every span so far, in the order of arrival."""
        with self._changed:
            requests = list(self._traces)
        return [
            Received(
                span.name,
                span.trace_id.hex(),
                span.span_id.hex(),
                span.parent_span_id.hex(),
                span.start_time_unix_nano,
                span.end_time_unix_nano,
                mapping(span.attributes),
                of_scope.scope.name,
                mapping(of_resource.resource.attributes),
                [(link.trace_id.hex(), link.span_id.hex()) for link in span.links],
            )
            for request in requests
            for of_resource in request.resource_spans
            for of_scope in of_resource.scope_spans
            for span in of_scope.spans
        ]

    def metrics(self):
        """Every metrics request so far, as ExportMetricsServiceRequest."""
        with self._changed:
            return list(self._metrics)

    def messages(self):
        """Every request so far as the message that it is: of traces, metrics or logs."""
        kinds = {
            "traces": ExportTraceServiceRequest,
            "metrics": ExportMetricsServiceRequest,
            "logs": ExportLogsServiceRequest,
        }
        with self._changed:
            bodies = list(self.bodies)
        return [kinds[path.rpartition("/")[2]].FromString(body) for path, _, body in bodies]

    def wait_for(self, predicate, timeout_s=60):
        """Wait until `predicate(receiver)` is true after some request; AssertionError after `timeout_s` seconds."""
        with self._changed:
            done = self._changed.wait_for(lambda: predicate(self), timeout_s)
        assert done, f"not within {timeout_s} s; got {[span.name for span in self.spans()]}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def _take(self, path, headers, body):
        with self._changed:
            self.bodies.append((path, headers, body))
            if path == "/v1/traces":
                self._traces.append(ExportTraceServiceRequest.FromString(body))
            elif path == "/v1/metrics":
                self._metrics.append(ExportMetricsServiceRequest.FromString(body))
            self.requests += 1
            self._changed.notify_all()


class Receiver(Arrivals):
    """An OTLP/HTTP receiver on a free port of 127.0.0.1, from its making to `stop()`; also as a context manager.

    answers: False makes it take every request and never answer one before it is stopped. status: of its answers; what is
    answered with another than 200 is not taken. delay_s: before each answer. These may change while it runs. port: a certain
    one. tls: an ssl.SSLContext.
    """

    def __init__(self, *, answers=True, status=200, delay_s=0.0, port=0, tls=None):
        super().__init__()
        self.answers, self.status, self.delay_s = answers, status, delay_s
        self.refused = 0
        """Requests that were not taken."""
        self._scheme = "https" if tls else "http"
        self._stopped = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", port), self._handler())
        if tls:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self._server.daemon_threads, self._server.block_on_close = True, False
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.005,), daemon=True)
        self._thread.start()

    @property
    def url(self):
        """For OTEL_EXPORTER_OTLP_ENDPOINT."""
        return f"{self._scheme}://127.0.0.1:{self.port}"

    endpoint = url

    @property
    def port(self):
        return self._server.server_port

    def environment(self):
        """Variables that make an instrumented program send traces here, and neither metrics nor logs anywhere."""
        return {
            "OTEL_EXPORTER_OTLP_ENDPOINT": self.url,
            "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
            "OTEL_TRACES_EXPORTER": "otlp",
            "OTEL_METRICS_EXPORTER": "none",
            "OTEL_LOGS_EXPORTER": "none",
        }

    def stop(self):
        """Take no request any more; those that were left without an answer get none."""
        self._stopped.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _handler(self):
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                status = receiver.status
                if status == 200:
                    receiver._take(self.path, str(self.headers), body)
                else:
                    receiver.refused += 1
                if not receiver.answers:
                    receiver._stopped.wait()
                    return
                receiver._stopped.wait(receiver.delay_s)
                self.send_response(status)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *arguments):
                pass

        return Handler


class GrpcReceiver(Arrivals):
    """An OTLP/gRPC receiver on a free port of 127.0.0.1, from its making to `stop()`; also as a context manager.

    In `bodies` the path is that of OTLP/HTTP, and the headers are the call's metadata.
    """

    def __init__(self):
        super().__init__()
        import grpc  # most tests do without it

        class Services(grpc.GenericRpcHandler):
            def service(_, call):
                return grpc.unary_unary_rpc_method_handler(functools.partial(self._answer, call.method))

        self._server = grpc.server(ThreadPoolExecutor(4), handlers=(Services(),))
        self._port = self._server.add_insecure_port("127.0.0.1:0")
        self._server.start()

    @property
    def url(self):
        """For OTEL_EXPORTER_OTLP_ENDPOINT."""
        return f"http://127.0.0.1:{self._port}"

    endpoint = url

    def stop(self):
        """Take no call any more."""
        self._server.stop(None).wait()

    def _answer(self, method, body, call):
        signal = re.search(r"collector\.(\w+)\.v1\.", method)[1]
        self._take(f"/v1/{'traces' if signal == 'trace' else signal}", str(call.invocation_metadata()), body)
        return b""  # an empty message: everything has been taken


def spans_in(messages):
    """The spans of all messages of traces among them."""
    return [
        span
        for message in messages
        for of_resource in getattr(message, "resource_spans", ())
        for of_scope in of_resource.scope_spans
        for span in of_scope.spans
    ]


def log_records_in(messages, scope=None):
    """The log records of all messages of logs among them, of every scope or of one."""
    return [
        record
        for message in messages
        for of_resource in getattr(message, "resource_logs", ())
        for of_scope in of_resource.scope_logs
        for record in of_scope.log_records
        if scope in {None, of_scope.scope.name}
    ]


def mapping(attributes):
    """OTLP's attributes as a dict."""
    return {each.key: _value(each.value) for each in attributes}


def _value(value):
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(each) for each in value.array_value.values]
    if kind == "kvlist_value":
        return mapping(value.kvlist_value.values)
    return getattr(value, kind) if kind else None
