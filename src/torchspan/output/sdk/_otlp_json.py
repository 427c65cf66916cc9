# SPDX-License-Identifier: Apache-2.0
"""Spans to lines of OTLP JSON, written directly as text.

OpenTelemetry's JSON encoder builds a message object and a dictionary for each value before it writes the text, which
takes several times as long as the text itself. The result is the same, byte for byte, except for what would make a
reader refuse the whole line: integers beyond 64 bits and lone surrogates.
Format: https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding
"""

from __future__ import annotations

import base64
import itertools
import math
import operator
import re
from collections.abc import Iterable, Mapping, Sequence
from json.encoder import encode_basestring_ascii as quoted
from types import MappingProxyType
from typing import Any, NamedTuple

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, TraceState

from torchspan.base.logs import Log

_KINDS = {
    SpanKind.INTERNAL: "1",
    SpanKind.SERVER: "2",
    SpanKind.CLIENT: "3",
    SpanKind.PRODUCER: "4",
    SpanKind.CONSUMER: "5",
}
_FLAGS = {False: "256", True: "768"}
"""Whether a parent or a linked span is remote is known (0x100), and whether it is (0x200)."""

_MOST_REMEMBERED = 1_000
"""Keys, and resources and scopes, whose texts an encoder keeps; it starts again beyond that."""

_LARGEST = 2**63
_ESCAPES = re.compile(r"\\(?:ud[89ab]..\\ud[c-f]..|ud[89a-f]..|.)")
"""Each escape of a JSON text: a surrogate pair, a lone surrogate, any other."""

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
        self._keys: dict[str, str] = {}

    def encode(
        self, span: ReadableSpan, additions: Mapping[str, Any] | None = None, events: Sequence[Event] = ()
    ) -> Encoded:
        """The span; `additions` are attributes that it gets besides its own, `events` further events."""
        if len(self._keys) > _MOST_REMEMBERED:  # a program may make up keys without end
            self._keys.clear()
        return self.around(span, _span(span, self._keys, additions, events))

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
        attributes = _attributes({**resource.attributes, **self._resource}, {}).removeprefix(",")
        front, behind = _scope_parts(scope)
        return (
            f'{{"resourceSpans":[{{"resource":{{{attributes}}},"scopeSpans":[{front}',
            f"{behind}]{_schema_url(resource.schema_url)}}}]}}\n",
        )


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


def _scope_parts(scope: InstrumentationScope | None) -> tuple[str, str]:
    if not scope:
        return '{"scope":{},"spans":[', "]}"
    fields = (
        (f',"name":{_text(scope.name)}' if scope.name else "")
        + (f',"version":{_text(scope.version)}' if scope.version else "")
        + _attributes(scope.attributes, {})
    )
    return f'{{"scope":{{{fields.removeprefix(",")}}},"spans":[', f"]{_schema_url(scope.schema_url)}}}"


def _schema_url(url: str | None) -> str:
    return f',"schemaUrl":{_text(url)}' if url else ""


def _span(
    span: ReadableSpan,
    keys: dict[str, str],
    additions: Mapping[str, Any] | None,
    further: Sequence[Event],
) -> str:
    context, parent = span.get_span_context(), span.parent
    start, end = span.start_time, span.end_time
    events, links = (*span.events, *further) if further else span.events, span.links
    dropped_attributes, dropped_events, dropped_links = span.dropped_attributes, span.dropped_events, span.dropped_links
    return (
        f"{{{_ids(context)}"
        + (_trace_state(context.trace_state) if context is not None and context.trace_state else "")
        + (f',"parentSpanId":"{parent.span_id.to_bytes(8, "big").hex()}"' if parent else "")
        + f',"flags":{_FLAGS[bool(parent and parent.is_remote)]}'
        + (f',"name":{_text(span.name)}' if span.name else "")
        + f',"kind":{_KINDS[span.kind]}'
        + (f',"startTimeUnixNano":"{start}"' if start else "")
        + (f',"endTimeUnixNano":"{end}"' if end else "")
        + _attributes(span.attributes, keys, additions)
        + (f',"droppedAttributesCount":{dropped_attributes}' if dropped_attributes else "")
        + (f',"events":[{",".join([_event(event, keys) for event in events])}]' if events else "")
        + (f',"droppedEventsCount":{dropped_events}' if dropped_events else "")
        + (f',"links":[{",".join([_link(link, keys) for link in links])}]' if links else "")
        + (f',"droppedLinksCount":{dropped_links}' if dropped_links else "")
        + _status(span.status)
        + "}"
    )


def _ids(context: SpanContext | None) -> str:
    trace_id, span_id = (context.trace_id, context.span_id) if context is not None else (0, 0)
    return f'"traceId":"{trace_id.to_bytes(16, "big").hex()}","spanId":"{span_id.to_bytes(8, "big").hex()}"'


def _trace_state(state: TraceState) -> str:
    return f',"traceState":{quoted(",".join(f"{key}={value}" for key, value in state.items()))}'


def _event(event: Event, keys: dict[str, str]) -> str:
    fields = (
        (f',"timeUnixNano":"{event.timestamp}"' if event.timestamp else "")
        + (f',"name":{_text(event.name)}' if event.name else "")
        + _attributes(event.attributes, keys)
        + (f',"droppedAttributesCount":{event.dropped_attributes}' if event.dropped_attributes else "")
    )
    return f"{{{fields.removeprefix(',')}}}"


def _link(link: Link, keys: dict[str, str]) -> str:
    dropped = link.dropped_attributes
    return (
        f"{{{_ids(link.context)}{_attributes(link.attributes, keys)}"
        + (f',"droppedAttributesCount":{dropped}' if dropped else "")
        + f',"flags":{_FLAGS[bool(link.context.is_remote)]}}}'
    )


def _status(status: Status | None) -> str:
    if status is None:
        return ""
    message = f'"message":{_text(status.description)}' if status.description else ""
    code = f'"code":{status.status_code.value}' if status.status_code.value else ""
    return f',"status":{{{message}{"," if message and code else ""}{code}}}'


def _attributes(
    attributes: Mapping[str, Any] | None, keys: dict[str, str], additions: Mapping[str, Any] | None = None
) -> str:
    """`,"attributes":[...]`, or nothing where there are none.

    Args:
        attributes: The attributes of the span, event or link.
        keys: What a key looks like in the text, filled here; one dictionary for all spans of a line.
        additions: Attributes besides those, which take the place of any with the same key.
    """
    if not attributes and not additions:
        return ""
    # The SDK's mapping looks up each value through Python; its copy is a dictionary.
    copy = getattr(attributes, "copy", None)
    items = (attributes or {}) if copy is None else copy()
    if additions:
        items = {**items, **additions}
    written = []
    for key, value in items.items():
        head = keys.get(key)
        if head is None:
            head = keys[key] = _key(key)
        try:
            written.append(f"{head}{_value(value)}}}")
        except Exception as error:
            _logger.warning("torchspan: attribute %s is left out (%s: %s).", key, type(error).__name__, error)
    return f',"attributes":[{",".join(written)}]' if written else ""


def _key(key: str) -> str:
    return f'{{"key":{_text(key)},"value":' if key else '{"value":'


def _value(value: Any) -> str:
    """An AnyValue. Raises TypeError for what is none."""
    kind = type(value)
    if kind is str:
        return f'{{"stringValue":{quoted(value)}}}'
    if kind is bool:
        return '{"boolValue":true}' if value else '{"boolValue":false}'
    if kind is int and -_LARGEST <= value < _LARGEST:
        return f'{{"intValue":"{value}"}}'
    if kind is float and math.isfinite(value):
        return f'{{"doubleValue":{value!r}}}'
    if kind is tuple or kind is list:
        return _array(value)
    return _rare_value(value)


def _rare_value(value: Any) -> str:
    """An AnyValue of any type; in the order of OpenTelemetry's encoder, which decides what a subclass of two is."""
    if value is None:
        return "{}"
    if isinstance(value, str):
        return f'{{"stringValue":{quoted(value)}}}'
    if isinstance(value, int):
        # Through int: the text of an enum's member may be its name.
        kind = "stringValue" if _is_beyond(value) else "intValue"
        return f'{{"{kind}":"{int(value)}"}}'
    if isinstance(value, float):
        return f'{{"doubleValue":{_double(float(value))}}}'
    if isinstance(value, bytes):
        return f'{{"bytesValue":"{base64.b64encode(value).decode("ascii")}"}}'
    if isinstance(value, Sequence):
        return _array(value)
    if isinstance(value, Mapping):
        members = ",".join(f"{_key(str(key))}{_value(member)}}}" for key, member in value.items())
        return f'{{"kvlistValue":{{"values":[{members}]}}}}' if members else '{"kvlistValue":{}}'
    raise TypeError(f"OTLP cannot represent a value of type {type(value).__name__}")


def _double(value: float) -> str:
    if math.isfinite(value):
        return repr(value)
    return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'


def _array(values: Sequence[Any]) -> str:
    kinds = set(map(type, values))
    if kinds == {str}:
        members = [f'{{"stringValue":{quoted(value)}}}' for value in values]
    else:
        if any(_is_beyond(value) for value in values):
            values = [
                str(int(value)) if isinstance(value, int) and type(value) is not bool else value for value in values
            ]
        members = [_value(value) for value in values]
    return f'{{"arrayValue":{{"values":[{",".join(members)}]}}}}' if members else '{"arrayValue":{}}'


def _is_beyond(value: Any) -> bool:
    return isinstance(value, int) and not -_LARGEST <= value < _LARGEST


def _text(value: Any) -> str:
    return quoted(value if isinstance(value, str) else str(value))
