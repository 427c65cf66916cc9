# SPDX-License-Identifier: Apache-2.0
"""Documents of OTLP JSON to spans.

Format: https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding
"""

from __future__ import annotations

import base64
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from torchspan.reading.traces._file_spans import Attributes, Link, Span, SpanEvent
from torchspan.words import semconv

_STATUS_ERROR = (2, "STATUS_CODE_ERROR")
_KINDS = {1: "internal", 2: "server", 3: "client", 4: "producer", 5: "consumer"}
_LOWER_HEX = re.compile(r"(?:[0-9a-f]{16}){1,2}")
_LONGEST_ID = 32
"""Hexadecimal digits of a trace id."""


class UnreadableError(Exception):
    """Says what is wrong with a document or a span, as a clause."""


Raw = tuple[str, str, Any, str, Attributes]
"""A span or a log record as it stands in a document: where that is, SPAN or RECORD, the message, the scope's name, the resource."""

SPAN, RECORD = "span", "log record"
_OTHER_SIGNALS = ("resourceMetrics", "resourceProfiles")
_FIELDS = {SPAN: ("resourceSpans", "scopeSpans", "spans"), RECORD: ("resourceLogs", "scopeLogs", "logRecords")}


def raw_messages(document: Any, place: str, resources: dict[str, Attributes]) -> Iterator[Raw]:
    """The spans and log records of a document: a request, or a list of requests. Raises UnreadableError when it is neither.

    Args:
        document: The document, decoded from JSON.
        place: Where the document is, for errors: the file and the line.
        resources: Those that were seen, by their text, so that equal ones are held once; filled here.
    """
    requests = document if isinstance(document, list) and document else [document]
    number = 0
    for request in requests:
        kind = _kind(request)
        if not kind:
            continue
        of_resources, of_scopes, messages = _FIELDS[kind]
        for resource_part in mappings(request[of_resources]):
            attributes = mapping(resource_part.get("resource")).get("attributes")
            key = repr(attributes)
            resource = resources.get(key)
            if resource is None:
                resource = resources[key] = _attributes(attributes)
            for scope_part in mappings(resource_part.get(of_scopes)):
                scope = sys.intern(_text(mapping(scope_part.get("scope")).get("name")))
                raws = scope_part.get(messages)
                for raw in raws if isinstance(raws, list) else ():
                    number += 1
                    yield f"{place}, {kind} {number}", kind, raw, scope, resource


def _kind(request: Any) -> str:
    """SPAN or RECORD, by what the request has a list of; empty for another signal, which a Collector's file may have as well."""
    fields = mapping(request)
    for kind, (of_resources, *_) in _FIELDS.items():
        if isinstance(fields.get(of_resources), list):
            return kind
    if any(isinstance(fields.get(other), list) for other in _OTHER_SIGNALS):
        return ""
    raise UnreadableError("JSON, but not OTLP (no resourceSpans)")


def span_of(raw: Any, scope: str, resource: Attributes) -> Span:
    """The span. Raises UnreadableError where an id or a time is missing or wrong."""
    if not isinstance(raw, dict):
        raise UnreadableError("not a span")
    status = mapping(raw.get("status"))
    attributes, texts = _with_texts_apart(_attributes(raw.get("attributes")), scope)
    events, links = raw.get("events"), raw.get("links")
    return Span(
        trace_id=_id(raw, "traceId"),
        span_id=_id(raw, "spanId"),
        parent_id=_id(raw, "parentSpanId") if raw.get("parentSpanId") else "",
        name=sys.intern(_text(raw.get("name"))) or "(no name)",
        start_ns=_time(raw, "startTimeUnixNano"),
        end_ns=_time(raw, "endTimeUnixNano"),
        attributes=attributes,
        events=tuple(map(_event, mappings(events))) if events else (),
        is_error=status.get("code") in _STATUS_ERROR,
        status_message=_text(status.get("message")),
        scope=scope,
        resource=resource,
        links=tuple(_links(links)) if links else (),
        kind=_KINDS.get(raw["kind"], "") if isinstance(raw.get("kind"), int) else "",
        texts=texts,
    )


def _with_texts_apart(attributes: Attributes, scope: str) -> tuple[Attributes, Attributes]:
    """The attributes, and the whole texts among them, which only torchspan's spans have."""
    if scope != semconv.SCOPE_NAME:
        return attributes, {}
    keys = [key for key in attributes if key.startswith(semconv.LOCAL)]
    return attributes, {key.removeprefix(semconv.LOCAL): attributes.pop(key) for key in keys}


def event_of(raw: Any) -> tuple[str, str, SpanEvent]:
    """The event that a log record is, behind its trace and span id. Raises UnreadableError where its name or an id is missing or wrong."""
    name = _text(mapping(raw).get("eventName"))
    if not name:
        raise UnreadableError("no eventName")
    name = "exception" if name.endswith(".exception") else name
    return _id(raw, "traceId"), _id(raw, "spanId"), _event({**raw, "name": name})


def _event(raw: Mapping[str, Any]) -> SpanEvent:
    try:
        time_ns = _time(raw, "timeUnixNano")
    except UnreadableError:
        time_ns = 0
    return SpanEvent(_text(raw.get("name")), _attributes(raw.get("attributes")), time_ns)


def _links(raw: Any) -> Iterator[Link]:
    """Those that can be read: a link is never worth the span that has it."""
    for member in mappings(raw):
        try:
            yield Link(_id(member, "traceId"), _id(member, "spanId"), _attributes(member.get("attributes")))
        except UnreadableError:
            continue


def _id(raw: Mapping[str, Any], key: str) -> str:
    value = raw.get(key)
    if not isinstance(value, str) or not value:
        raise UnreadableError(f"no {key}")
    if _LOWER_HEX.fullmatch(value):
        return sys.intern(value)
    if len(value) > _LONGEST_ID:
        raise UnreadableError(f"{key} is longer than {_LONGEST_ID} digits")
    try:
        return sys.intern(bytes.fromhex(value).hex())
    except ValueError:
        raise UnreadableError(f"{key} is not hexadecimal") from None


def _time(raw: Mapping[str, Any], key: str) -> int:
    try:
        value = int(raw[key])
    except (KeyError, TypeError, ValueError, OverflowError):
        raise UnreadableError(f"no {key}") from None
    if not 0 <= value < 2**64:
        raise UnreadableError(f"{key} is not a time")
    return value


def _attributes(items: Any) -> Attributes:
    return {sys.intern(_text(item.get("key"))): _value(mapping(item.get("value"))) for item in mappings(items)}


def _value(value: Mapping[str, Any]) -> Any:
    """The Python value of an AnyValue; None where it has none that is known here."""
    for kind, raw in value.items():
        try:
            return _READERS[kind](raw)
        except (KeyError, TypeError, ValueError, OverflowError):
            return None
    return None


def _integer(raw: Any) -> int:
    """Raises OverflowError for what OTLP's 64 bits do not hold, so that computing with it cannot fail."""
    value = int(raw)
    if not -(2**63) <= value < 2**63:
        raise OverflowError
    return value


def _bytes(raw: str) -> str:
    return f"{len(base64.b64decode(raw))} bytes"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def mapping(value: Any) -> Mapping[str, Any]:
    """The value, or an empty mapping where it is something else."""
    return value if isinstance(value, dict) else {}


def mappings(value: Any) -> list[Mapping[str, Any]]:
    """The mappings of a list; none where it is something else."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


_READERS: dict[str, Callable[[Any], Any]] = {
    "stringValue": _text,
    "boolValue": bool,
    "intValue": _integer,
    "doubleValue": float,
    "bytesValue": _bytes,
    "arrayValue": lambda raw: [_value(item) for item in mappings(mapping(raw).get("values"))],
    "kvlistValue": lambda raw: _attributes(mapping(raw).get("values")),
}
