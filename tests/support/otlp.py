# SPDX-License-Identifier: Apache-2.0
"""Traces made by hand and sent by OTLP: spans of any times, sizes and trace ids."""

import random
import ssl
import time
import urllib.request

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

START_NS = 1_790_000_000_000_000_000
MS = 1_000_000
ERROR = Status(code=Status.STATUS_CODE_ERROR)


def any_value(value):
    """A value of Python as OTLP's."""
    if isinstance(value, bool):
        return AnyValue(bool_value=value)
    if isinstance(value, int):
        return AnyValue(int_value=value)
    if isinstance(value, float):
        return AnyValue(double_value=value)
    if isinstance(value, (list, tuple)):
        return AnyValue(array_value=ArrayValue(values=[any_value(each) for each in value]))
    return AnyValue(string_value=value)


def pairs(attributes):
    """A dict as OTLP's attributes."""
    return [KeyValue(key=key, value=any_value(value)) for key, value in attributes.items()]


class Ids:
    """Trace and span ids, the same ones for each seed."""

    def __init__(self, seed):
        self._random = random.Random(seed)

    def trace(self):
        return self._random.randbytes(16)

    def span(self):
        return self._random.randbytes(8)


def make_span(ids, name, trace_id, *, parent=None, duration_ms=1.0, attributes=None, **fields):
    """A span. parent: another span. fields: others of the message, such as `status` or `trace_state`."""
    return Span(
        trace_id=trace_id,
        span_id=ids.span(),
        parent_span_id=parent.span_id if parent else b"",
        name=name,
        kind=Span.SPAN_KIND_INTERNAL,
        start_time_unix_nano=START_NS,
        end_time_unix_nano=START_NS + round(duration_ms * MS),
        attributes=pairs(attributes or {}),
        **fields,
    )


def request(spans, *, resource=None, scope="torchspan"):
    """Spans of one resource and scope as an export request."""
    made = ExportTraceServiceRequest()
    of_resource = made.resource_spans.add()
    of_resource.resource.attributes.extend(pairs(resource or {"service.name": "app"}))
    of_scope = of_resource.scope_spans.add()
    of_scope.scope.name = scope
    of_scope.spans.extend(spans)
    return made


def with_every_part(seed=2, *, start_ns=START_NS):
    """A request with each part that a span may have, on two spans of one trace."""
    made = Ids(seed)
    trace_id = made.trace()
    root = make_span(
        made,
        "tensorrt.build_engine",
        trace_id,
        duration_ms=0.000001,
        attributes={
            "text": "Krol ☃",
            "empty": "",
            "yes": True,
            "large": 2**62,
            "negative": -1,
            "double": 0.1,
            "whole": 3.0,
            "texts": ["a", "b"],
            "none": [],
            "numbers": [1, 2],
        },
        status=ERROR,
        trace_state="ot=th:c,vendor=1",
        flags=0x301,
        dropped_attributes_count=3,
        dropped_events_count=2,
        dropped_links_count=1,
    )
    root.status.message = "an error"
    root.events.add(name="exception", time_unix_nano=start_ns, attributes=pairs({"exception.type": "E"}))
    root.links.add(trace_id=made.trace(), span_id=made.span(), trace_state="a=b", attributes=pairs({"c": 1}))
    remote = make_span(made, "request", trace_id)
    remote.parent_span_id, remote.kind = made.span(), Span.SPAN_KIND_SERVER
    for span in (root, remote):
        span.start_time_unix_nano += start_ns - START_NS
        span.end_time_unix_nano += start_ns - START_NS
    message = request([root, remote], resource={"service.name": "app", "host.name": "h", "process.pid": 7})
    message.resource_spans[0].schema_url = "https://example.org/1"
    message.resource_spans[0].scope_spans[0].schema_url = "https://example.org/2"
    message.resource_spans[0].scope_spans[0].scope.version = "1.2"
    message.resource_spans[0].scope_spans[0].scope.attributes.extend(pairs({"d": "e"}))
    return message


def post(url, message, *, path="/v1/traces", context: ssl.SSLContext | None = None):
    """Send a message by OTLP/HTTP; raises urllib.error.HTTPError where it is refused."""
    asked = urllib.request.Request(
        url + path, message.SerializeToString(), {"Content-Type": "application/x-protobuf"}, method="POST"
    )
    with urllib.request.urlopen(asked, timeout=30, context=context) as answer:
        return answer.status


def send(url, spans, **options):
    """Send spans of one resource and scope by OTLP/HTTP; options are those of `request`."""
    return post(url, request(spans, **options))


def plain(messages):
    """Every span of some messages with its resource and scope, as text that can be compared, by span id."""
    return {
        span.span_id.hex(): (
            str(of_resource.resource),
            of_resource.schema_url,
            str(of_scope.scope),
            of_scope.schema_url,
            _whole(span),
        )
        for message in messages
        for of_resource in message.resource_spans
        for of_scope in of_resource.scope_spans
        for span in of_scope.spans
    }


def _whole(span):
    """A span as text. A status that is not set and one that is UNSET are the same."""
    span.status.SetInParent()
    return str(span)


def wait_until(condition, timeout_s=60):
    """Return once the condition holds; AssertionError after `timeout_s` seconds."""
    until = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < until, f"not within {timeout_s} s"
        time.sleep(0.05)
