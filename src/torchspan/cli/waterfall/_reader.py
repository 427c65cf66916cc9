# SPDX-License-Identifier: Apache-2.0
"""OTLP JSON lines to plain data, reading what can be read and saying what cannot.

Format: https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torchspan.cli._terminal import printable

Attributes = dict[str, Any]
_STATUS_ERROR = (2, "2", "STATUS_CODE_ERROR")


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened at one moment of a span."""

    name: str
    attributes: Attributes


@dataclass(frozen=True, slots=True, eq=False)
class Span:
    """One span. Every text in it is printable: nothing in a file can act on a terminal.

    parent_id: empty for a root. Times in nanoseconds since 1970; `end_ns` may lie before `start_ns`.
    """

    trace_id: str
    span_id: str
    parent_id: str
    name: str
    start_ns: int
    end_ns: int
    attributes: Attributes
    events: tuple[Event, ...]
    is_error: bool
    status_message: str
    scope: str
    resource: Attributes

    @property
    def duration_ns(self) -> int:
        """Never negative: clocks that were set back give 0."""
        return max(self.end_ns - self.start_ns, 0)


@dataclass
class TraceFile:
    """What a file holds. problems: one sentence for each thing that could not be read, with its line."""

    spans: list[Span] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


class _UnreadableError(Exception):
    """Says what is wrong with a line or a span; `read_file` turns it into a problem."""


def read_file(path: str, *, offset: int = 0) -> TraceFile:
    """Read a file from a byte offset on. Raises OSError when it cannot be opened or read."""
    result = TraceFile()
    seen = _Seen()
    with Path(path).open("rb") as file:
        file.seek(offset)
        for number, line in enumerate(file, 1):
            if line.strip():
                _read_line(line, f"line {number}", result, seen)
    return result


@dataclass(slots=True)
class _Seen:
    """What later lines of a file may repeat. resources: by their text, so that each is held once.

    Lines are parsed one by one, and so their equal texts are different objects: names, keys and ids are interned.
    """

    spans: dict[tuple[str, str], Span] = field(default_factory=dict)
    resources: dict[str, Attributes] = field(default_factory=dict)


def _read_line(line: bytes, place: str, result: TraceFile, seen: _Seen) -> None:
    try:
        for where, raw, scope, resource in _raw_spans(_json(line), place, seen.resources):
            try:
                span = _span(raw, scope, resource)
            except (_UnreadableError, RecursionError) as error:
                result.problems.append(f"{where}: {_reason(error)}")
                continue
            # An exporter that tries again writes a span twice. Equal ids alone prove nothing: a program that seeds
            # the global random generator gives the same ids to different spans.
            twin = seen.spans.setdefault((span.trace_id, span.span_id), span)
            if twin is span or (twin.name, twin.start_ns, twin.end_ns) != (span.name, span.start_ns, span.end_ns):
                result.spans.append(span)
    except (_UnreadableError, RecursionError) as error:
        result.problems.append(f"{place}: {_reason(error)}")


def _reason(error: Exception) -> str:
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)


def _json(line: bytes) -> Any:
    is_torn = not line.endswith(b"\n")
    try:
        return json.loads(line.decode("utf-8"))
    except UnicodeDecodeError:
        raise _UnreadableError("not UTF-8 text") from None
    except ValueError:
        if is_torn and line.lstrip().startswith(b"{"):
            raise _UnreadableError("cut off (the program was stopped while writing, or still writes)") from None
        raise _UnreadableError("not JSON") from None


def _raw_spans(
    document: Any, place: str, resources: dict[str, Attributes]
) -> Iterator[tuple[str, Any, str, Attributes]]:
    if not isinstance(document, dict) or not isinstance(document.get("resourceSpans"), list):
        keys = document.keys() if isinstance(document, dict) else ()
        kind = next((what for what in ("Metrics", "Logs", "Profiles") if f"resource{what}" in keys), None)
        raise _UnreadableError(f"OTLP {kind.lower()}, not traces" if kind else "JSON, but not OTLP (no resourceSpans)")
    number = 0
    for resource_spans in _mappings(document["resourceSpans"]):
        attributes = _mapping(resource_spans.get("resource")).get("attributes")
        resource = resources.setdefault(repr(attributes), _attributes(attributes))
        for scope_spans in _mappings(resource_spans.get("scopeSpans")):
            scope = sys.intern(_text(_mapping(scope_spans.get("scope")).get("name")))
            spans = scope_spans.get("spans")
            for raw in spans if isinstance(spans, list) else ():
                number += 1
                yield f"{place}, span {number}", raw, scope, resource


def _span(raw: Any, scope: str, resource: Attributes) -> Span:
    if not isinstance(raw, dict):
        raise _UnreadableError("not a span")
    status = _mapping(raw.get("status"))
    return Span(
        trace_id=_id(raw, "traceId"),
        span_id=_id(raw, "spanId"),
        parent_id=_id(raw, "parentSpanId") if raw.get("parentSpanId") else "",
        name=sys.intern(_text(raw.get("name"))) or "(no name)",
        start_ns=_time(raw, "startTimeUnixNano"),
        end_ns=_time(raw, "endTimeUnixNano"),
        attributes=_attributes(raw.get("attributes")),
        events=tuple(
            Event(_text(event.get("name")), _attributes(event.get("attributes")))
            for event in _mappings(raw.get("events"))
        ),
        is_error=status.get("code") in _STATUS_ERROR,
        status_message=_text(status.get("message")),
        scope=scope,
        resource=resource,
    )


def _id(raw: Mapping[str, Any], key: str) -> str:
    value = raw.get(key)
    if not isinstance(value, str) or not value:
        raise _UnreadableError(f"no {key}")
    try:
        return sys.intern(bytes.fromhex(value).hex())
    except ValueError:
        raise _UnreadableError(f"{key} is not hexadecimal") from None


def _time(raw: Mapping[str, Any], key: str) -> int:
    try:
        value = int(raw[key])
    except (KeyError, TypeError, ValueError):
        raise _UnreadableError(f"no {key}") from None
    if not 0 <= value < 2**64:
        raise _UnreadableError(f"{key} is not a time")
    return value


def _attributes(items: Any) -> Attributes:
    return {sys.intern(_text(item.get("key"))): _value(_mapping(item.get("value"))) for item in _mappings(items)}


def _value(value: Mapping[str, Any]) -> Any:
    """The Python value of an AnyValue; None where it has none that is known here."""
    for kind, raw in value.items():
        try:
            return _READERS[kind](raw)
        except (KeyError, TypeError, ValueError):
            return None
    return None


def _bytes(raw: str) -> str:
    return f"{len(base64.b64decode(raw))} bytes"


def _text(value: Any) -> str:
    return printable(value) if isinstance(value, str) else ""


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _mappings(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


_READERS: dict[str, Callable[[Any], Any]] = {
    "stringValue": _text,
    "boolValue": bool,
    "intValue": int,
    "doubleValue": float,
    "bytesValue": _bytes,
    "arrayValue": lambda raw: [_value(item) for item in _mappings(_mapping(raw).get("values"))],
    "kvlistValue": lambda raw: _attributes(_mapping(raw).get("values")),
}
