# SPDX-License-Identifier: Apache-2.0
"""The known set of real compilations, sent by OTLP over gRPC and over HTTP through one Collector to one backend."""

import contextlib
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from support import backends, fetched, known_compiles, otlp

PROTOCOLS = ("grpc", "http")
TO_FILE = {
    "exporters": {"file": {"path": "${env:TORCHSPAN_TEST_FILE}", "format": "json", "flush_interval": "200ms"}},
    "service": {"pipelines": {"traces/out": {"exporters": ["otlp_http/backend", "file"]}}},
}
"""Over base.yaml: what leaves goes to a file of OTLP/JSON as well."""


@dataclass(frozen=True)
class Sent:
    """What two processes sent. emitted: protocol -> what that process handed to its exporters. backend: where it went.

    begun_s: when the first was started, in seconds since 1970.
    """

    backend: backends.Backend
    collector: backends.Collector
    file: Path
    emitted: dict[str, known_compiles.Emitted]
    begun_s: int

    def messages(self, protocol):
        return self.emitted[protocol].trace_messages()

    def in_file(self, protocol):
        """What the Collector wrote of one process's spans, a message for each resource."""
        return [
            message
            for line in fetched.from_file(self.file)
            for message in _by_resource(line)
            if _service(message) == service_name(protocol)
        ]


def service_name(protocol):
    return f"known-{protocol}"


def _by_resource(message):
    return [type(message)(resource_spans=[each]) for each in message.resource_spans]


def _service(message):
    attributes = message.resource_spans[0].resource.attributes
    return next(each.value.string_value for each in attributes if each.key == "service.name")


@pytest.fixture(scope="session")
def send_known_set(tmp_path_factory):
    """`send_known_set(backend)`: a context manager for a Sent, all of which has left the Collector."""

    @contextlib.contextmanager
    def send(backend):
        folder = tmp_path_factory.mktemp("known")
        file, begun_s = folder / "traces.jsonl", int(time.time())
        environment = {"TORCHSPAN_OTLP_ENDPOINT": backend.otlp, "TORCHSPAN_TEST_FILE": str(file)}
        with backends.collector("base.yaml", TO_FILE, environment=environment) as collector:
            with ThreadPoolExecutor() as both:
                emitted = dict(
                    zip(PROTOCOLS, both.map(lambda each: _run(each, folder, collector), PROTOCOLS), strict=True)
                )
            sent = Sent(backend, collector, file, emitted, begun_s)
            for protocol in PROTOCOLS:
                expected = len(sent.emitted[protocol].spans())
                otlp.wait_until(lambda p=protocol, n=expected: len(otlp.plain(sent.in_file(p))) == n)
            yield sent

    return send


def _run(protocol, folder, collector):
    environment = {
        "OTEL_SERVICE_NAME": service_name(protocol),
        "OTEL_BSP_SCHEDULE_DELAY": "3600000",  # the spans of a step are sent together, also where it takes long
        "OTEL_EXPORTER_OTLP_PROTOCOL": {"grpc": "grpc", "http": "http/protobuf"}[protocol],
        "OTEL_EXPORTER_OTLP_ENDPOINT": {"grpc": f"http://{collector.grpc}", "http": collector.http}[protocol],
    }
    (emitted,) = known_compiles.one_process(folder / protocol, environment)
    return emitted
