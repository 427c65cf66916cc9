# SPDX-License-Identifier: Apache-2.0
"""The spans of a page as one JSON document, column by column, which `page.js` reads.

Its fields: `strings` (names, subjects and keys), `briefs` (a sentence for each key that has one), `operators` and `layers` (the
rows of each span that has such a table, by its index), `device` (what is said of the time on the device of each span that has
one), `traces` and `spans`. A trace has
its id, its title, the number of its spans and its threads. The spans of all traces follow each other; a column has a value for
each. Times are nanoseconds since the start of the trace. To be short where much is equal, `inside` is the part of a span's
duration that is not its own time, and `path` its own time less that on the critical path, null for a span that is not on it.
"""

from __future__ import annotations

import base64
import gzip
import json
import math
from collections.abc import Iterable
from typing import Any

from torchspan.reading.answers._device_times import device_text, layer_table
from torchspan.reading.answers._labels import error, subject
from torchspan.reading.answers._operator_rows import operator_rows
from torchspan.reading.answers.units import moment
from torchspan.reading.traces import Attributes, Node, Span, UnfinishedSpan
from torchspan.reading.views._critical_path import critical_path
from torchspan.reading.views._timeline import WholeTrace, processes
from torchspan.words import semconv

_BRIEFS = {str(row): row.brief for row in semconv.ATTRIBUTES}
_LARGEST_EXACT = 2**53
"""From here on, a number of JavaScript is not exact."""
_LEVEL = 4
"""Of gzip: higher levels take more time and save few bytes (`benchmarks/views.py`)."""
_ERROR, _UNFINISHED, _STAND_IN = 1, 2, 4


def packed(traces: Iterable[WholeTrace]) -> str:
    """The document of the traces, compressed by gzip, in base64."""
    document = _Document()
    for trace in traces:
        document.add(trace)
    text = json.dumps(document.fields(), separators=(",", ":"), allow_nan=False)
    return base64.b64encode(gzip.compress(text.encode("ascii"), _LEVEL, mtime=0)).decode("ascii")


class _Document:
    """Collects the fields."""

    def __init__(self) -> None:
        self._strings: dict[str, int] = {}
        self._traces: list[dict[str, Any]] = []
        self._resources: dict[int, tuple[Attributes, int]] = {}
        self._resource_lists: list[list[Any]] = []
        self._rows: list[tuple[Any, ...]] = []
        self._operators: dict[int, list[list[Any]]] = {}
        self._layers: dict[int, list[list[Any]]] = {}
        self._device: dict[int, str] = {}

    def fields(self) -> dict[str, Any]:
        briefs = {number: _BRIEFS[text] for text, number in self._strings.items() if text in _BRIEFS}
        values = zip(*self._rows, strict=True) if self._rows else [()] * len(_COLUMNS)
        columns = dict(zip(_COLUMNS, values, strict=True))
        lists = {"traces": self._traces, "resources": self._resource_lists}
        of_spans = {"operators": self._operators, "layers": self._layers, "device": self._device}
        return {"strings": list(self._strings), "briefs": briefs, **lists, **of_spans, "spans": columns}

    def add(self, trace: WholeTrace) -> None:
        nodes = trace.nodes
        start_ns = min(node.span.start_ns for node in nodes)
        index = {id(node): position for position, node in enumerate(nodes)}
        threads, places = _threads(nodes)
        path = {id(node): ns for node, ns in critical_path([node for node in nodes if node.parent is None])}
        title = f"{nodes[0].span.name} · {moment(start_ns)}"
        self._traces.append({"id": trace.trace_id, "title": title, "count": len(nodes), "threads": threads})
        for node in nodes:
            parent = index.get(id(node.parent), -1)
            self._add_span(node, parent, start_ns, places[id(node)], path.get(id(node)))

    def _add_span(self, node: Node, parent: int, start_ns: int, place: tuple[int, int], path_ns: int | None) -> None:
        span, own_ns = node.span, node.self_ns()
        flags = _ERROR * bool(error(span)[0]) + _UNFINISHED * isinstance(span, UnfinishedSpan)
        values = (
            span.span_id,
            parent,
            self._string(span.name),
            self._string(subject(span)),
            span.start_ns - start_ns,
            span.duration_ns,
            span.duration_ns - own_ns,
            None if path_ns is None else own_ns - path_ns,
            flags + _STAND_IN * node.is_stand_in,
            *place,
            self._resource(span),
            self._attributes({**_own(span), **span.attributes}),
            [
                [self._string(e.name), e.time_ns - start_ns if e.time_ns else None, self._attributes(e.attributes)]
                for e in span.events
            ],
            [[link.trace_id, link.span_id, self._attributes(link.attributes)] for link in span.links],
        )
        operators = [[self._string(row.name), *row[1:]] for row in operator_rows([span])]
        if operators:
            self._operators[len(self._rows)] = operators
        layers, device = layer_table(span), device_text(span)
        if layers is not None:
            self._layers[len(self._rows)] = [[self._string(name), *times] for name, *times in layers.rows]
        if device:
            self._device[len(self._rows)] = device.removeprefix("device ")
        self._rows.append(values)

    def _string(self, text: str) -> int:
        return self._strings.setdefault(text, len(self._strings))

    def _resource(self, span: Span) -> int:
        """The number of the resource. It is kept, so that no other one gets the same identity."""
        if id(span.resource) not in self._resources:
            self._resources[id(span.resource)] = span.resource, len(self._resources)
            self._resource_lists.append(self._attributes(span.resource))
        return self._resources[id(span.resource)][1]

    def _attributes(self, attributes: Attributes) -> list[Any]:
        """Keys and values in turn."""
        parts: list[Any] = []
        for key, value in attributes.items():
            parts += (self._string(key), value if type(value) is str else _value(value))  # most of them are texts
        return parts


_COLUMNS = (
    "id", "parent", "name", "subject", "start", "duration", "inside", "path", "flags", "thread", "lane", "resource",
    "attributes", "events", "links",
)  # fmt: skip


def _own(span: Span) -> Attributes:
    """What a span has besides its attributes."""
    facts = {"scope": span.scope, "kind": "" if span.kind == "internal" else span.kind, "status": span.status_message}
    return {key: text for key, text in facts.items() if text and text != semconv.SCOPE_NAME}


def _threads(nodes: Iterable[Node]) -> tuple[list[list[str]], dict[int, tuple[int, int]]]:
    """The names of processes and threads, and the thread and lane of each node."""
    names: list[list[str]] = []
    places: dict[int, tuple[int, int]] = {}
    for process in processes(nodes):
        for thread in process.threads:
            for lane, members in enumerate(thread.lanes):
                places.update((id(node), (len(names), lane)) for node in members)
            names.append([process.name, thread.name])
    return names, places


def _value(value: Any) -> Any:
    """The value as JSON that loses nothing in JavaScript."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, int) and not -_LARGEST_EXACT <= value <= _LARGEST_EXACT:
        return str(value)
    if isinstance(value, list):
        return [_value(part) for part in value]
    if isinstance(value, dict):
        return {key: _value(part) for key, part in value.items()}
    return value
