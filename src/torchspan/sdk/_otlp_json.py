# SPDX-License-Identifier: Apache-2.0
"""Spans to lines of OTLP JSON.

OpenTelemetry's JSON encoder builds a message object for each value before it makes a dictionary of it, which takes several
times as long as the text itself. The result is the same, byte for byte, except for what would make a
reader refuse the whole line: integers beyond 64 bits and lone surrogates.
Format: https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding
"""

from __future__ import annotations

import base64
import itertools
import json
import math
import operator
import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, Status

from torchspan._base.logs import Log

_FLAGS = {False: 256, True: 768}
"""Whether a parent or a linked span is remote is known (0x100), and whether it is (0x200)."""

_MOST_REMEMBERED = 1_000
"""Resources and scopes whose texts an encoder keeps; it starts again beyond that."""

_LARGEST = 2**63
_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
_ESCAPES = re.compile(r"\\(?:ud[89ab]..\\ud[c-f]..|ud[89a-f]..|.)")
"""Each escape of a JSON text: a surrogate pair, a lone surrogate, any other."""

_dumps = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode

_SPANS = ["spans"]
"""Stands for the spans in a request. No other list of a request has a text as its member."""
_SPANS_TEXT = _dumps(_SPANS)

_logger = Log("torchspan.sdk")


class Encoded(NamedTuple):
    """A span as text, or several with commas between.

    Attributes:
        around: The text of the request that it is in: what is in front of all spans, and what is behind them.
    """

    around: tuple[str, str]
    span: str


class Encoder:
    """Spans one at a time; what every line repeats, resource and scope, is written as text once.

    Args:
        resource: Attributes that every resource gets; they take the place of its own under these keys.
    """

    def __init__(self, resource: Mapping[str, Any] = MappingProxyType({})) -> None:
        self._resource = resource
        # The objects are kept alongside their texts, so that no other object gets the same identity meanwhile.
        self._known: dict[tuple[int, int], tuple[object, object, tuple[str, str]]] = {}

    def encode(
        self, span: ReadableSpan, additions: Mapping[str, Any] | None = None, events: Sequence[Event] = ()
    ) -> Encoded:
        """The span; `additions` are attributes that it gets besides its own, `events` further events."""
        return self.around(span, _dumps(_span(span, additions, events)))

    def around(self, span: ReadableSpan, text: str) -> Encoded:
        """`text`, which is that of one or several spans, with the resource and the scope of `span`."""
        resource, scope = span.resource, span.instrumentation_scope
        known = self._known.get((id(resource), id(scope)))
        if known is None:
            if len(self._known) > _MOST_REMEMBERED:
                self._known.clear()
            known = self._known[id(resource), id(scope)] = (resource, scope, self._request(resource, scope))
        return Encoded(known[2], text)

    def _request(self, resource: Resource, scope: InstrumentationScope | None) -> tuple[str, str]:
        own = scope or InstrumentationScope("")
        name = {"name": own.name, "version": own.version, "attributes": _attributes(own.attributes)}
        spans = {"scope": _without_empty(name), "spans": _SPANS, "schemaUrl": own.schema_url}
        attributes = _attributes({**resource.attributes, **self._resource})
        request = {
            "resource": _without_empty({"attributes": attributes}),
            "scopeSpans": [_without_empty(spans)],
            "schemaUrl": resource.schema_url,
        }
        front, _, behind = _dumps({"resourceSpans": [_without_empty(request)]}).partition(_SPANS_TEXT)
        return f"{front}[", f"]{behind}\n"


def lines(spans: Iterable[Encoded]) -> bytes:
    """The spans as requests of OTLP JSON, each with a newline, ASCII alone; neighbors of one resource and scope share a request.

    An integer beyond 64 bits becomes a string, with it every integer of its array: OTLP has none, and
    `torch.initial_seed()` is one every other time. A lone surrogate becomes `?`: it has no UTF-8. An attribute whose
    value OTLP cannot hold is left out and logged.
    """
    text = ""
    for (front, behind), members in itertools.groupby(spans, key=operator.itemgetter(0)):
        text += f"{front}{','.join([member.span for member in members])}{behind}"
    if "\\ud" in text:
        text = _ESCAPES.sub(_without_lone_surrogate, text)
    return text.encode("ascii")


def _without_lone_surrogate(escape: re.Match[str]) -> str:
    code = escape[0]
    return "?" if len(code) == 6 and code.startswith("\\ud") else code


def _span(span: ReadableSpan, additions: Mapping[str, Any] | None, further: Sequence[Event]) -> dict[str, Any]:
    context, parent = span.get_span_context(), span.parent
    return _without_empty(
        {
            **_ids(context),
            "traceState": context and ",".join(f"{key}={value}" for key, value in context.trace_state.items()),
            "parentSpanId": parent and f"{parent.span_id:016x}",
            "flags": _FLAGS[bool(parent and parent.is_remote)],
            "name": _text(span.name),
            "kind": span.kind.value + 1,
            "startTimeUnixNano": f"{span.start_time or ''}",
            "endTimeUnixNano": f"{span.end_time or ''}",
            "attributes": _attributes(span.attributes, additions),
            "droppedAttributesCount": span.dropped_attributes,
            "events": [_event(event) for event in (*span.events, *further)],
            "droppedEventsCount": span.dropped_events,
            "links": [_link(link) for link in span.links],
            "droppedLinksCount": span.dropped_links,
            "status": _status(span.status),
        }
    )


def _without_empty(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields without those that a message of OTLP leaves out. An empty message is one that is there."""
    return {name: value for name, value in fields.items() if value or value == {}}


def _ids(context: SpanContext | None) -> dict[str, str]:
    trace_id, span_id = (context.trace_id, context.span_id) if context is not None else (0, 0)
    return {"traceId": f"{trace_id:032x}", "spanId": f"{span_id:016x}"}


def _text(value: Any) -> str:
    return value if type(value) is str else str(value or "")


def _event(event: Event) -> dict[str, Any]:
    return _without_empty(
        {
            "timeUnixNano": f"{event.timestamp or ''}",
            "name": _text(event.name),
            "attributes": _attributes(event.attributes),
            "droppedAttributesCount": event.dropped_attributes,
        }
    )


def _link(link: Link) -> dict[str, Any]:
    return _without_empty(
        {
            **_ids(link.context),
            "attributes": _attributes(link.attributes),
            "droppedAttributesCount": link.dropped_attributes,
            "flags": _FLAGS[bool(link.context.is_remote)],
        }
    )


def _status(status: Status | None) -> dict[str, Any] | None:
    if status is None:
        return None
    return _without_empty({"message": _text(status.description), "code": status.status_code.value})


def _attributes(attributes: Mapping[str, Any] | None, additions: Mapping[str, Any] | None = None) -> list[Any]:
    """The attributes, with `additions` in the place of those with the same keys."""
    # The SDK's mapping looks up each value through Python; its copy is a dictionary.
    copy = getattr(attributes, "copy", None)
    items = (attributes or {}) if copy is None else copy()
    written = []
    for key, value in {**items, **(additions or {})}.items():
        try:
            written.append({"key": key, "value": _value(value)})
        except Exception as error:
            _logger.warning("torchspan: attribute %s is left out (%s: %s).", key, type(error).__name__, error)
    return written


def _value(value: Any) -> dict[str, Any]:
    """An AnyValue. Raises TypeError for what is none.

    The order is that of OpenTelemetry's encoder, which decides what a subclass of two is.
    """
    match value:
        case None:
            return {}
        case bool():
            return {"boolValue": value}
        case str():
            return {"stringValue": value}
        case int() if -_LARGEST <= value < _LARGEST:
            return {"intValue": f"{value:d}"}  # as a number: the text of an enum's member may be its name
        case int():
            return {"stringValue": f"{value:d}"}
        case float():
            return {"doubleValue": float(value) if math.isfinite(value) else _NOT_FINITE[str(float(value))]}
        case bytes():
            return {"bytesValue": base64.b64encode(value).decode("ascii")}
        case Sequence():
            members = list(map(_value, _with_equal_integers(value)))
            return {"arrayValue": {"values": members} if members else {}}
        case Mapping():
            members = [{"key": str(key), "value": _value(member)} for key, member in value.items()]
            return {"kvlistValue": {"values": members} if members else {}}
    raise TypeError(f"OTLP cannot represent a value of type {type(value).__name__}")


def _with_equal_integers(values: Sequence[Any]) -> Sequence[Any]:
    """The values; with an integer beyond 64 bits among them, every integer as a string."""
    if not any(map(_is_beyond, values)):
        return values
    return [str(int(value)) if isinstance(value, int) and type(value) is not bool else value for value in values]


def _is_beyond(value: Any) -> bool:
    return isinstance(value, int) and not -_LARGEST <= value < _LARGEST
