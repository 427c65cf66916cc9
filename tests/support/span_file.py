# SPDX-License-Identifier: Apache-2.0
"""The spans of a file of `torchspan run`, as the JSON says; each is also held against the attribute table at the end."""

import json
from dataclasses import dataclass
from types import SimpleNamespace

from support.emitted import EMITTED


@dataclass
class WrittenSpan:
    """A span as it stands in the file. line: number of its line. events: their names and attributes."""

    line: int
    name: str
    trace_id: str
    span_id: str
    parent_id: str
    start_ns: int
    end_ns: int
    scope: str
    attributes: dict
    resource: dict
    events: list

    def ancestors(self):
        """What it says of the spans around it: name, id and start of each, innermost first."""
        columns = [self.attributes.get(f"torchspan.open_ancestors.{key}", []) for key in ("names", "ids", "starts")]
        return list(zip(*columns, strict=True))

    def around(self):
        """The names of the spans around it, innermost first."""
        return [name for name, _, _ in self.ancestors()]


def read(path):
    """Every span, in the order of the file. Fails where a line is not whole."""
    *lines, end = path.read_bytes().split(b"\n")
    assert end == b""
    spans = [span for number, line in enumerate(lines) for span in _spans(number, json.loads(line))]
    EMITTED.add_file(spans)
    return spans


def _spans(number, request):
    for of_resource in request["resourceSpans"]:
        resource = _attributes(of_resource["resource"])
        for of_scope in of_resource["scopeSpans"]:
            for span in of_scope["spans"]:
                yield WrittenSpan(
                    number,
                    span["name"],
                    span["traceId"],
                    span["spanId"],
                    span.get("parentSpanId", ""),
                    int(span["startTimeUnixNano"]),
                    int(span["endTimeUnixNano"]),
                    of_scope["scope"].get("name", ""),
                    _attributes(span),
                    resource,
                    [
                        SimpleNamespace(name=each["name"], attributes=_attributes(each))
                        for each in span.get("events", ())
                    ],
                )


def _attributes(holder):
    return {each["key"]: _value(each["value"]) for each in holder.get("attributes", [])}


def _value(value):
    (kind, content), *_ = value.items()
    if kind == "arrayValue":
        return [_value(each) for each in content.get("values", [])]
    return int(content) if kind == "intValue" else content
