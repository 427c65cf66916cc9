# SPDX-License-Identifier: Apache-2.0
"""Spans that arrive at an OTLP receiver on a socket, from this process and from those that tests start."""

import functools
import os
import sys
from pathlib import Path

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from support import work
from support.receiver import Receiver


@pytest.fixture
def receiver():
    with Receiver() as receiver:
        yield receiver


@pytest.fixture
def provider(receiver):
    """Sends each span as it ends."""
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(f"{receiver.endpoint}/v1/traces")))
    yield provider
    provider.shutdown()


@pytest.fixture
def both(provider):
    """`both(label)`: a span of the user's and one of torchspan's, wherever it is called."""
    return functools.partial(work.both, provider=provider)


@pytest.fixture
def arrived(receiver):
    """What has arrived, by label."""
    return lambda: work.Arrived(receiver.spans())


@pytest.fixture
def parents(arrived):
    """`parents(label)`: the ids of the parents of the user's span and of torchspan's."""

    def of(label):
        spans = arrived()
        return spans.users[label].parent_id, spans.torchspans[label].parent_id

    return of


@pytest.fixture
def links(arrived):
    """`links(label)`: the ids of the spans that the user's span and torchspans are linked to."""

    def of(label):
        spans = arrived()
        return tuple([span_id for _, span_id in each[label].links] for each in (spans.users, spans.torchspans))

    return of


@pytest.fixture(scope="session")
def clean():
    """The environment without what configures OpenTelemetry or torchspan; children import the tests' helpers."""
    base = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("OTEL_", "TORCHSPAN_")) and name not in {"TRACEPARENT", "TRACESTATE", "BAGGAGE"}
    }
    paths = [str(Path(__file__).parents[1]), base.get("PYTHONPATH", "")]
    programs = f"{Path(sys.executable).parent}{os.pathsep}{base['PATH']}"
    return {**base, "PATH": programs, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


@pytest.fixture
def instrumented(clean, receiver):
    """The environment in which `opentelemetry-instrument` sends traces to the receiver."""
    return {**clean, **receiver.environment()}
