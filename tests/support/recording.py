# SPDX-License-Identifier: Apache-2.0
"""Files of traces, written by the real SDK and the real exporter, with ids and times that a test chooses."""

from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from support.run_recording import START_NS, CountingIds, at
from torchspan.sdk import FileSpanExporter
from torchspan.words import semconv


class Recording:
    """Spans with times in milliseconds since START_NS, written to `path` as they end. of: further attributes of the process."""

    def __init__(self, path, **of):
        self.path = str(path)
        resource = Resource.create({"service.name": "app.py", **of})
        self._provider = TracerProvider(id_generator=CountingIds(), resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(SimpleSpanProcessor(FileSpanExporter(path)))

    def span(
        self,
        name,
        start_ms,
        end_ms,
        attributes=None,
        *,
        parent=None,
        scope=semconv.SCOPE_NAME,
        error=None,
        description=None,
        events=(),
    ):
        tracer = self._provider.get_tracer(scope)
        context = trace.set_span_in_context(parent) if parent is not None else None
        span = tracer.start_span(name, context, attributes=attributes, start_time=at(start_ms))
        for event, facts in events:
            span.add_event(event, facts, timestamp=at(start_ms))
        if error is not None:
            kind, message = error
            span.set_status(trace.Status(trace.StatusCode.ERROR, description))
            span.set_attribute(semconv.ERROR_TYPE, kind)
            if message is not None:
                event = {semconv.EXCEPTION_TYPE: kind, semconv.EXCEPTION_MESSAGE: message}
                span.add_event("exception", event, timestamp=START_NS)
        span.end(at(end_ms))
        return span
