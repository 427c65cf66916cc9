# SPDX-License-Identifier: Apache-2.0
"""What a program that `support.child` runs may import: the bridge's switch, a tracer of its own, and the way back."""

import json
import os
from pathlib import Path

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from torchspan import TorchspanInstrumentor

exporter = InMemorySpanExporter()
provider = TracerProvider(shutdown_on_exit=False)
provider.add_span_processor(SimpleSpanProcessor(exporter))
tracer = provider.get_tracer("user")


def instrument(**options):
    """Switches the bridge on, without heartbeats, whose number depends on the machine; returns the instrumentor."""
    instrumentor = TorchspanInstrumentor()
    instrumentor.instrument(tracer_provider=provider, **{"heartbeat": "0", **options})
    return instrumentor


def finish(value):
    """Leaves the program's result and its spans for the test."""
    spans = [as_data(span) for span in exporter.get_finished_spans()]
    Path(os.environ["CHILD_RESULT"]).write_text(json.dumps({"value": value, "spans": spans}), encoding="utf-8")


def as_data(span):
    return {
        "name": span.name,
        "scope": span.instrumentation_scope.name,
        "span_id": span.context.span_id,
        "parent_id": None if span.parent is None else span.parent.span_id,
        "start": span.start_time,
        "end": span.end_time,
        "status": span.status.status_code.name,
        "attributes": dict(span.attributes),
        "events": [[event.name, dict(event.attributes)] for event in span.events],
        "links": [link.context.span_id for link in span.links],
    }
