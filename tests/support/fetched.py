# SPDX-License-Identifier: Apache-2.0
"""Traces as backends give them back: from the query APIs of Jaeger and Tempo, and from the Collector's files.

Each is a message of OTLP, so that `otlp.plain` compares it with what a program emitted.
"""

import base64
import contextlib
import json
import time
import urllib.error
import urllib.parse
import urllib.request

from google.protobuf import json_format
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

WAIT_S = 120
_IDS = {"traceId", "spanId", "parentSpanId"}


def from_file(path):
    """What the Collector's file exporter wrote: a message for each line."""
    return [_from_json(json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


def from_jaeger(backend, trace_id):
    """A trace by its id, from Jaeger's API v3; an empty message where Jaeger does not have it."""
    found = get_json(f"{backend.api}/api/v3/traces/{trace_id}")
    message = _from_json((found or {}).get("result", {}))
    for holder in _holders_of_attributes([message]):
        for each in holder.attributes:
            if each.value.string_value.startswith("["):  # an array that Jaeger 2.0 wrote, numbers as Go writes them
                with contextlib.suppress(json.JSONDecodeError):  # a line of TensorRT-RTX 1.4 begins with its file
                    each.value.string_value = _json_text(json.loads(each.value.string_value))
    return message


def from_tempo(backend, trace_id):
    """A trace by its id, from Tempo's API as protobuf; an empty message where Tempo does not have it."""
    answer = get(f"{backend.api}/api/traces/{trace_id}", accept="application/protobuf")
    return TracesData.FromString(answer or b"")


def spans(messages):
    """Every span of some messages."""
    return [span for _, _, span in _parts(messages)]


def trace_ids(messages):
    """The ids of their traces, hexadecimal."""
    return list(_span_ids(messages))


def whole(fetch, backend, messages):
    """What `fetch` finds for each trace of some messages, once it has every span of it; AssertionError where it never has."""
    return [_whole_trace(fetch, backend, trace_id, spans) for trace_id, spans in _span_ids(messages).items()]


def traceql(backend, query, **parameters):
    """What Tempo's search finds: the `traces` of its answer. parameters: of the search, such as `limit` and `start`."""
    asked = urllib.parse.urlencode({"q": query, **parameters})
    return get_json(f"{backend.api}/api/search?{asked}").get("traces", [])


def get_json(url):
    """A document of JSON; None where there is none (404)."""
    answer = get(url, accept="application/json")
    return None if answer is None else json.loads(answer)


def get(url, *, accept):
    """The body of an answer; None where there is none (404). Jaeger answers with its page where it has no such address."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers={"Accept": accept}), timeout=60) as answer:
            assert answer.headers.get_content_type() != "text/html", f"a page for {url}"
            return answer.read()
    except urllib.error.HTTPError as error:
        with error:
            if error.code == 404:
                return None
            raise AssertionError(f"{error.code} for {url}: {error.read().decode(errors='replace')}") from error


def in_any_order(messages):
    """The same messages with attributes in the order of their keys: backends store them in an order of their own."""
    copies = _copies(messages)
    for holder in _holders_of_attributes(copies):
        ordered = sorted(holder.attributes, key=lambda each: each.key)
        del holder.attributes[:]
        holder.attributes.extend(ordered)
    return copies


def as_kept_by_tempo(messages):
    """The same messages without what Tempo loses: addresses of schemas, and in its blocks the flags of spans and links."""
    copies = in_any_order(messages)
    for of_resource, of_scope, span in _parts(copies):
        of_resource.schema_url = of_scope.schema_url = ""
        for holder in (span, *span.links):
            holder.flags = 0
    return copies


def as_kept_by_jaeger(backend, messages):
    """The same messages as that Jaeger keeps them; all of them is kept by later ones than 2.0."""
    return in_any_order(_as_kept_by_jaeger_2_0(messages) if _is_jaeger_2_0(backend) else messages)


def _is_jaeger_2_0(backend):
    """It has no summaries yet."""
    try:
        with urllib.request.urlopen(f"{backend.api}/api/v3/trace-summaries", timeout=60) as answer:
            return answer.headers.get_content_type() == "text/html"
    except urllib.error.HTTPError as error:
        error.close()
        return False


def _as_kept_by_jaeger_2_0(messages):
    """The same messages without what it loses: it stores spans in the form of Jaeger 1.

    An array is its JSON as a text. A link is its ids, and says `opentracing.ref_type`. There are no flags, no counts of
    what the program dropped, no attributes of the scope, and no addresses of schemas.
    """
    copies = _copies(messages)
    for holder in _holders_of_attributes(copies):
        for each in holder.attributes:
            if each.value.WhichOneof("value") == "array_value":
                items = [getattr(item, item.WhichOneof("value")) for item in each.value.array_value.values]
                each.value.CopyFrom(AnyValue(string_value=_json_text(items)))
    for of_resource, of_scope, span in _parts(copies):
        of_resource.schema_url = of_scope.schema_url = ""
        del of_scope.scope.attributes[:]
        for holder in (span, *span.events, *span.links):
            holder.dropped_attributes_count = 0
        span.flags = span.dropped_events_count = span.dropped_links_count = 0
        for link in span.links:
            del link.attributes[:]
            link.flags, link.trace_state = 0, ""
            link.attributes.add(key="opentracing.ref_type").value.string_value = "follows_from"
    return copies


def _json_text(items):
    """3.0 is 3, as Go writes it."""
    items = [int(each) if isinstance(each, float) and each.is_integer() else each for each in items]
    return json.dumps(items, separators=(",", ":"), ensure_ascii=False)


def _copies(messages):
    return [type(each).FromString(each.SerializeToString()) for each in messages]


def _parts(messages):
    """(of resource, of scope, span) of every span."""
    return [
        (of_resource, of_scope, span)
        for message in messages
        for of_resource in message.resource_spans
        for of_scope in of_resource.scope_spans
        for span in of_scope.spans
    ]


def _holders_of_attributes(messages):
    for message in messages:
        for of_resource in message.resource_spans:
            yield of_resource.resource
    for _, _, span in _parts(messages):
        yield from (span, *span.events, *span.links)


def _span_ids(messages):
    """trace id -> its spans' ids, both hexadecimal."""
    found = {}
    for _, _, span in _parts(messages):
        found.setdefault(span.trace_id.hex(), set()).add(span.span_id.hex())
    return found


def _whole_trace(fetch, backend, trace_id, expected):
    until = time.monotonic() + WAIT_S
    while True:
        found = fetch(backend, trace_id)
        arrived = _span_ids([found]).get(trace_id, set())
        if arrived >= expected:
            return found
        assert time.monotonic() < until, f"{len(arrived)} of {len(expected)} spans of {trace_id} within {WAIT_S} s"
        time.sleep(0.2)


def _from_json(document):
    return json_format.ParseDict(_with_bytes(document), TracesData())


def _with_bytes(value):
    """OTLP/JSON has ids in hexadecimal, where protobuf's JSON has bytes in base64."""
    if isinstance(value, list):
        return [_with_bytes(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        key: base64.b64encode(bytes.fromhex(each)).decode() if key in _IDS else _with_bytes(each)
        for key, each in value.items()
    }
