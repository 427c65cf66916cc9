# SPDX-License-Identifier: Apache-2.0
"""Endpoints that take nothing, below `run`: the program ends as without them, the file has its spans, and the loss is counted."""

import pytest
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics.export import MetricsData

from support.hostile_endpoints import CLOSE, Authority, Dripping, Endpoint, Long, closed_port, http
from torchspan.start.launched.answers import EndpointAnswers

ENDS = """
import sys
from opentelemetry import trace
for number in range(3):
    with trace.get_tracer("app").start_as_current_span(f"span {number}"):
        pass
print("done")
sys.exit(4)
"""

FILED = [(f"span {number}", "torchspan.run") for number in range(3)]


def undelivered(program, url, **variables):
    """The program below run, with its exporter at this URL: the spans of each exporter that were not delivered."""
    below = program(ENDS).below_run(
        exit_s=1,
        OTEL_TRACES_EXPORTER="otlp_proto_http",
        OTEL_EXPORTER_OTLP_ENDPOINT=url,
        OTEL_EXPORTER_OTLP_TIMEOUT="1",
        **variables,
    )
    assert (below.status, below.out) == (4, "done\n")
    assert below.filed == FILED
    (report,) = below.reports
    return report.undelivered


BAD = {
    "answers 429 with Retry-After": lambda: http("429 Too Many Requests", Retry_After="60"),
    "answers 503": lambda: http("503 Service Unavailable"),
    "answers 401": lambda: http("401 Unauthorized"),
    "answers garbage": lambda: Endpoint(b"SSH-2.0-OpenSSH_9.2\r\n"),
    "answers half a response": lambda: Endpoint(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"),
    "answers a byte at a time": Dripping,
    "closes the connection": lambda: Endpoint(CLOSE),
    "never answers": lambda: Endpoint(hangs=True),
    "redirects": lambda: http("307 Temporary Redirect", Location="http://127.0.0.1:9/v1/traces"),
}


def fault(what, lost="3 spans"):
    return pytest.mark.fault("exporters", what, lost=lost, counted="the last line of torchspan run")


@pytest.mark.parametrize("endpoint", [pytest.param(make, id=what, marks=fault(what)) for what, make in BAD.items()])
def test_spans_that_an_endpoint_does_not_take_are_counted(program, endpoint):
    with endpoint() as served:
        assert undelivered(program, f"http://127.0.0.1:{served.port}") == {"otlp_proto_http": 3}


@fault("takes a part", "2 spans")
def test_spans_that_an_endpoint_refuses_in_a_partial_success_are_counted(program):
    from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as service

    answer = service.ExportTraceServiceResponse(partial_success=service.ExportTracePartialSuccess(rejected_spans=2))
    with http("200 OK", answer.SerializeToString(), content_type="application/x-protobuf") as served:
        assert undelivered(program, f"http://127.0.0.1:{served.port}") == {"otlp_proto_http": 2}


@fault("cuts TLS in the handshake")
def test_spans_for_an_endpoint_that_cuts_the_handshake_are_counted(program):
    with Endpoint(CLOSE) as served:
        assert undelivered(program, f"https://127.0.0.1:{served.port}") == {"otlp_proto_http": 3}


@fault("cuts TLS after the request")
def test_spans_for_an_endpoint_that_cuts_tls_after_the_request_are_counted(program, tmp_path):
    authority = Authority(tmp_path)
    with Endpoint(CLOSE, tls=authority.server) as served:
        url = f"https://127.0.0.1:{served.port}"
        assert undelivered(program, url, OTEL_EXPORTER_OTLP_CERTIFICATE=authority.file) == {"otlp_proto_http": 3}


@fault("has a certificate that is not trusted")
def test_spans_for_an_endpoint_whose_certificate_is_not_trusted_are_counted(program, tmp_path):
    with Endpoint(CLOSE, tls=Authority(tmp_path).server) as served:
        assert undelivered(program, f"https://127.0.0.1:{served.port}") == {"otlp_proto_http": 3}


@pytest.mark.parametrize("body", [b"", b"<html>Sign in</html>", b'{"partialSuccess": {}}'])
def test_all_spans_for_an_endpoint_that_takes_them_are_delivered(program, body):
    with http("200 OK", body, content_type="application/x-protobuf") as served:
        assert undelivered(program, f"http://127.0.0.1:{served.port}") == {}


SEEDED = """
import logging, random, threading
from opentelemetry import trace
from torchspan import observers

tries_again = threading.Event()

class Tries(logging.Handler):
    def emit(self, record):
        if record.msg.startswith("Transient error"):
            tries_again.set()

logging.getLogger("opentelemetry").addHandler(Tries())

@observers.observable()
def work():
    pass

random.seed(1)
work()
print(tries_again.wait(60), random.random())
"""


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
def test_a_seeded_program_gets_its_numbers_while_exporters_try_again(program, protocol):
    variables = {
        "OTEL_TRACES_EXPORTER": "otlp",
        "OTEL_METRICS_EXPORTER": "otlp",
        "OTEL_METRIC_EXPORT_INTERVAL": "100",
        "OTEL_BSP_SCHEDULE_DELAY": "100",
        "OTEL_EXPORTER_OTLP_PROTOCOL": protocol,
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{closed_port()}",
    }
    below = program(SEEDED).below_run(exit_s=0, **variables)
    assert below.out == "True 0.13436424411240122\n"


@pytest.mark.parametrize("kind", [OTLPSpanExporter, OTLPMetricExporter])
def test_no_more_than_the_beginning_of_a_long_answer_is_read(kind):
    with Long() as served:
        exporter = kind(f"http://127.0.0.1:{served.port}", **EndpointAnswers().arguments(kind))
        result = exporter.export([] if kind is OTLPSpanExporter else MetricsData([]))
        assert served.has_ended.wait(60)
    assert (result.name, served.is_read) == ("SUCCESS", False)


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
def test_a_header_that_cannot_be_read_is_not_printed(program, protocol):
    variables = {
        "OTEL_TRACES_EXPORTER": "otlp",
        "OTEL_METRICS_EXPORTER": "otlp",
        "OTEL_EXPORTER_OTLP_PROTOCOL": protocol,
        "OTEL_EXPORTER_OTLP_HEADERS": "authorization Bearer secret5",
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{closed_port()}",
    }
    below = program(ENDS).below_run(exit_s=0, **variables)
    assert below.status == 4
    assert "Header format invalid!" in below.err
    assert "secret5" not in below.err
