# SPDX-License-Identifier: Apache-2.0
"""`tls.yaml`: programs reach the Collector over TLS alone, and where an authority is named, with a certificate of it."""

import ssl
import urllib.error

import pytest
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from support import backends, otlp
from support.receiver import Receiver

pytestmark = pytest.mark.needs("otelcol-torchspan")


@pytest.fixture
def backend():
    with Receiver() as receiver:
        yield receiver


@pytest.fixture
def start(backend, certificates):
    def start(**environment):
        return backends.collector(
            "base.yaml",
            "tls.yaml",
            environment={
                "TORCHSPAN_OTLP_ENDPOINT": backend.url,
                "TORCHSPAN_RECEIVER_CERT_FILE": str(certificates / "server.pem"),
                "TORCHSPAN_RECEIVER_KEY_FILE": str(certificates / "server.key"),
                **environment,
            },
        )

    return start


def span(seed=1):
    made = otlp.Ids(seed)
    return otlp.make_span(made, "torch_tensorrt.compile", made.trace())


def context(certificates, *, with_client):
    made = ssl.create_default_context(cafile=certificates / "ca.pem")
    if with_client:
        made.load_cert_chain(certificates / "client.pem", certificates / "client.key")
    return made


def https(collector):
    return collector.http.replace("http:", "https:")


def test_traces_arrive_over_tls(start, backend, certificates):
    with start() as collector:
        otlp.post(https(collector), otlp.request([span()]), context=context(certificates, with_client=False))
        backend.wait_for(lambda receiver: len(receiver.spans()) == 1)
        assert collector.complaints() == []


def test_the_sdks_grpc_exporter_with_a_clients_certificate_is_let_in(start, backend, certificates):
    with start(TORCHSPAN_RECEIVER_CA_FILE=str(certificates / "ca.pem")) as collector:
        import grpc

        credentials = grpc.ssl_channel_credentials(
            *((certificates / name).read_bytes() for name in ("ca.pem", "client.key", "client.pem"))
        )
        provider = TracerProvider(shutdown_on_exit=False)
        exporter = OTLPSpanExporter(endpoint=f"https://{collector.grpc}", credentials=credentials)
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        provider.get_tracer("app").start_span("span").end()
        backend.wait_for(lambda receiver: len(receiver.spans()) == 1)
        provider.shutdown()


def test_without_tls_there_is_no_way_in(start, backend):
    with start() as collector:
        with pytest.raises(urllib.error.HTTPError, match="400"):
            otlp.send(collector.http, [span()])
        assert backend.spans() == []


def test_a_client_without_a_certificate_is_kept_out_where_an_authority_is_named(start, backend, certificates):
    with start(TORCHSPAN_RECEIVER_CA_FILE=str(certificates / "ca.pem")) as collector:
        with pytest.raises(OSError, match=r"certificate required|EOF|reset|Broken pipe"):
            otlp.post(https(collector), otlp.request([span(1)]), context=context(certificates, with_client=False))
        otlp.post(https(collector), otlp.request([span(2)]), context=context(certificates, with_client=True))
        backend.wait_for(lambda receiver: receiver.spans())
        assert [each.span_id for each in backend.spans()] == [span(2).span_id.hex()]
