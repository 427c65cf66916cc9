# SPDX-License-Identifier: Apache-2.0
"""Traces as a file for Perfetto: TrackEvent in Protocol Buffers, on the clock of torch.profiler's Chrome traces.

The numbers of fields are those of `protos/perfetto/trace/trace_packet.proto` and of `protos/perfetto/trace/track_event/*.proto`
in https://github.com/google/perfetto.
"""

from __future__ import annotations

import itertools
import re
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from operator import itemgetter
from typing import Any

from torchspan.reading.answers import _labels
from torchspan.reading.answers._device_times import STILL_RUNNING, gpu_ns, is_still_running
from torchspan.reading.answers.drawing import Drawing
from torchspan.reading.traces import Attributes, Node, Span, UnfinishedSpan, at_or_below
from torchspan.reading.views._protobuf import double, fixed, integer, message, text
from torchspan.reading.views._timeline import NEVER_NS, Process, end_ns, processes, whole_traces
from torchspan.words import phase, semconv

_PROFILER_INTERVAL_NS = 7_889_238 * 10**9
"""What torch.profiler's base time is a multiple of, from 1970 on; about three months. Source: `_trimester_base_ns` in
torch/profiler/_chrome_trace_export.py (PyTorch 2.14), which follows `ChromeTraceBaseTime` of libkineto."""
_MOST_NS = 2**62
"""The last time that is written. Perfetto computes with 64 bits, also one nanosecond after the end of a trace."""
_DEEPEST = 500
"""Slices inside each other on a track. Of 512 and more, trace processor 52 did not find the ends when it was tried."""
_MOST_PID = 2**31
_SEQUENCE = integer(10, 1)  # TracePacket.trusted_packet_sequence_id
_STARTS_TABLES, _USES_TABLES = integer(13, 1), integer(13, 2)  # TracePacket.sequence_flags
_BEGIN, _END, _INSTANT, _COUNTER = (integer(9, kind) for kind in (1, 2, 3, 4))  # TrackEvent.type
_CATEGORIES, _NAMES, _KEYS, _STRINGS = 1, 2, 3, 29  # fields of InternedData
_IS_APART = integer(15, 2)
"""TrackDescriptor.sibling_merge_behavior: a track of the same name is another track."""
_IN_THIS_ORDER = integer(11, 3)  # TrackDescriptor.child_ordering: by sibling_order_rank
_COUNT, _BYTES = (message(8, integer(3, unit)) for unit in (2, 3))  # TrackDescriptor.counter, by its unit
_COMPILATIONS = frozenset(row.name for row in (phase.COMPILE_FRAME, *phase.LOWERING, phase.BUILD_ENGINE))
_MEMORY = (
    ("process memory: before a build, at its end the peak", semconv.MEMORY_BEFORE, semconv.MEMORY_PEAK),
    ("free GPU memory", semconv.GPU_MEMORY_FREE_BEFORE, semconv.GPU_MEMORY_FREE_AFTER),
)
"""Name of a counter, and what it is when a build begins and ends."""
_USED_GPU_MEMORY = "used GPU memory: before a build, at its end the peak"
_REALTIME, _BOOTTIME = 1, 6
"""Clocks of a ClockSnapshot, by which Perfetto knows the date. BOOTTIME is that of packets which name none."""
_Sample = tuple[int, int]
"""Time in nanoseconds, and the counter's value from then on."""


def _packet(content: bytes) -> bytes:
    return message(1, content + _SEQUENCE)  # Trace.packet


_FIRST = _packet(
    message(12, message(_NAMES, integer(1, 1) + text(2, "written by torchspan show --perfetto"))) + _STARTS_TABLES
)
"""The first packet. It has a name that no event uses, which Perfetto does not show."""
PERFETTO_MARK = re.compile(re.escape(_FIRST))
"""Matches the first bytes of each file that is written here."""


def perfetto(drawing: Drawing) -> Iterator[bytes]:
    """What is drawn, as a file for Perfetto.

    A process is a group of tracks. A track has the spans of a thread; where these overlap, the thread has more tracks. A span is
    a slice, an event an instant, a link within the file a flow, and an attribute a debug annotation. The time of a run on the
    device is an annotation, not a slice: when the device began is not known. Where the device was still running at the end of
    the slice, an instant is there.

    Times are those of torch.profiler's Chrome traces, so that Perfetto shows both on one timeline: nanoseconds since
    `baseTimeNanoseconds`. torchspan does not know that time. It computes it from the earliest span as torch does from the
    date of the profile, so the two differ if a new interval of three months began in between.

    Args:
        drawing: What is drawn.

    Yields:
        The packets of the file, in their order.
    """
    yield _FIRST
    traces = whole_traces(drawing)
    nodes = [node for trace in traces for node in trace.nodes]
    if nodes:
        seed = zlib.crc32("".join(trace.trace_id for trace in traces).encode())
        yield from _File(nodes, itertools.count((seed << 16) + 1)).packets()


class _Texts:
    """Texts that are written once and then referred to by number."""

    def __init__(self) -> None:
        self._numbers: defaultdict[int, dict[str, int]] = defaultdict(dict)
        self._new: list[bytes] = []
        self._seen: set[str] = set()

    def number(self, table: int, content: str) -> int:
        numbers = self._numbers[table]
        number = numbers.get(content)
        if number is None:
            number = numbers[content] = len(numbers) + 2  # 1 is in the first packet
            self._new.append(message(table, integer(1, number) + text(2, content)))
        return number

    def string(self, content: str) -> bytes:
        """A string as the value of an annotation: by number from the second time on, since most strings occur once."""
        if content in self._seen:
            return integer(17, self.number(_STRINGS, content))
        self._seen.add(content)
        return text(6, content)

    def new(self) -> bytes:
        """TracePacket.interned_data with the texts that no packet has defined so far."""
        new = message(12, b"".join(self._new)) if self._new else b""
        self._new.clear()
        return new


class _File:
    """What is written of spans. uuids: numbers for tracks and flows that no other file has."""

    def __init__(self, nodes: list[Node], uuids: Iterator[int]) -> None:
        self._nodes = nodes
        self._uuids = uuids
        self._texts = _Texts()
        earliest_ns = min(_MOST_NS, *(node.span.start_ns for node in nodes))
        self._base_ns = earliest_ns // _PROFILER_INTERVAL_NS * _PROFILER_INTERVAL_NS
        self._flows = _flows(nodes, uuids)
        self._compilations = _outermost(nodes)

    def packets(self) -> Iterator[bytes]:
        clocks = ((_BOOTTIME, 0), (_REALTIME, self._base_ns))
        yield _packet(message(6, b"".join(message(1, integer(1, clock) + integer(2, at)) for clock, at in clocks)))
        pids: set[int] = set()
        for process in processes(self._nodes):
            group = next(self._uuids)
            yield _group(process, group, pids)
            ranks = itertools.count()
            for name, unit, samples in self._counters(process):
                track = next(self._uuids)
                yield _track(track, group, name, next(ranks), unit)
                for time_ns, value in samples:
                    yield self._event(track, time_ns, _COUNTER + integer(30, value))
            for name, lane in _lanes(process):
                track = next(self._uuids)
                yield _track(track, group, name, next(ranks))
                yield from self._lane(track, lane)

    def _lane(self, track: int, lane: Iterable[Node]) -> Iterator[bytes]:
        """Begins and ends in pairs, as of brackets: Perfetto keeps the order of events that have the same time."""
        opened: list[Node] = []
        for node in lane:
            while opened and not _is_inside(node, opened[-1]):
                yield from self._end(track, opened.pop())
            yield self._event(track, node.span.start_ns, self._begin(node))
            yield from self._instants(track, node)
            opened.append(node)
        while opened:
            yield from self._end(track, opened.pop())

    def _begin(self, node: Node) -> bytes:
        flows = b"".join(fixed(47, flow) for flow in self._flows.get(id(node), ()))
        return _BEGIN + self._named(node.span.name, node.span.scope) + flows + self._annotations(_facts(node.span))

    def _end(self, track: int, node: Node) -> Iterator[bytes]:
        if not isinstance(node.span, UnfinishedSpan):
            yield self._event(track, end_ns(node), _END)

    def _instants(self, track: int, node: Node) -> Iterator[bytes]:
        span = node.span
        for event in span.events:
            content = _INSTANT + self._named(event.name, span.scope) + self._annotations(event.attributes)
            yield self._event(track, event.time_ns or span.start_ns, content)
        if is_still_running(span):
            yield self._event(track, end_ns(node), _INSTANT + self._named(STILL_RUNNING, span.scope))

    def _event(self, track: int, time_ns: int, content: bytes) -> bytes:
        time_ns = min(max(time_ns - self._base_ns, 0), _MOST_NS)
        event = message(11, content + integer(11, track))
        return _packet(integer(8, time_ns) + _USES_TABLES + self._texts.new() + event)

    def _named(self, name: str, scope: str) -> bytes:
        category = integer(3, self._texts.number(_CATEGORIES, scope)) if scope else b""
        return category + integer(10, self._texts.number(_NAMES, name))

    def _annotations(self, facts: Mapping[str, Any]) -> bytes:
        return b"".join(self._annotation(4, key, value) for key, value in facts.items() if value is not None)

    def _annotation(self, field: int, key: str, value: Any) -> bytes:
        return message(field, integer(1, self._texts.number(_KEYS, key)) + self._value(value))

    def _value(self, value: Any) -> bytes:
        """The value of a DebugAnnotation."""
        if isinstance(value, str):
            return self._texts.string(value)
        if isinstance(value, bool):
            return integer(2, value)
        if isinstance(value, int):
            return integer(4, value)
        if isinstance(value, float):
            return double(5, value)
        if isinstance(value, list):
            return b"".join(message(12, self._value(member)) for member in value if member is not None)
        return b"".join(self._annotation(11, key, member) for key, member in value.items() if member is not None)

    def _counters(self, process: Process) -> Iterator[tuple[str, bytes, list[_Sample]]]:
        """Name, unit and samples of each counter that has some."""
        nodes = sorted((node for _, lane in _lanes(process) for node in lane), key=lambda node: node.span.start_ns)
        attributes = [(node, node.span.attributes) for node in nodes]
        running = _at_both_ends((node, 1, -1) for node in nodes if id(node) in self._compilations)
        sums = itertools.accumulate(change for _, change in running)
        counts = [(time_ns, count) for (time_ns, _), count in zip(running, sums, strict=True)]
        memory = (
            (name, _BYTES, _at_both_ends((node, facts.get(before), facts.get(after)) for node, facts in attributes))
            for name, before, after in _MEMORY
        )
        used = [(node, _used_before(facts), facts.get(semconv.GPU_MEMORY_USED_PEAK)) for node, facts in attributes]
        rows = (("running compilations", _COUNT, counts), *memory, (_USED_GPU_MEMORY, _BYTES, _at_both_ends(used)))
        yield from (row for row in rows if row[2])


def _at_both_ends(nodes: Iterable[tuple[Node, object, object]]) -> list[_Sample]:
    """Samples, of a number where a span begins, and of another one where it ends."""
    samples = [
        (time_ns, number)
        for node, before, after in nodes
        for time_ns, number in ((node.span.start_ns, before), (end_ns(node), after))
        if type(number) is int and time_ns != NEVER_NS
    ]
    return sorted(samples, key=itemgetter(0))


def _used_before(facts: Attributes) -> int | None:
    """Bytes of the device that were in use before a build."""
    total, free = facts.get(semconv.GPU_MEMORY_TOTAL), facts.get(semconv.GPU_MEMORY_FREE_BEFORE)
    return total - free if type(total) is type(free) is int else None


def _facts(span: Span) -> Attributes:
    """What a slice says of a span besides its name and times; of OpenTelemetry's, with the keys that it has for other formats.

    https://opentelemetry.io/docs/specs/otel/common/mapping-to-non-otlp/
    """
    links = [f"{link.trace_id}-{link.span_id}" for link in span.links]
    device_ns = gpu_ns(span)
    own = {
        "device ms": None if device_ns is None else device_ns / 1e6,
        "subject": _labels.subject(span),
        "otel.status_code": "ERROR" if span.is_error else "",
        "otel.status_description": span.status_message,
        "otel.scope.name": span.scope,
        "span.kind": "" if span.kind == "internal" else span.kind,
        "links": links,
        "trace_id": span.trace_id,
        "span_id": span.span_id,
        "parent_id": span.parent_id,
    }
    return {**span.attributes, **{key: value for key, value in own.items() if value}}


def _group(process: Process, uuid: int, pids: set[int]) -> bytes:
    """The track of a process. Perfetto merges processes that have the same id, so the second of an id is a group of tracks only.

    Args:
        process: The process.
        uuid: The track's number.
        pids: Ids of the processes before, to which that of this one is added.
    """
    name = text(2, process.name)
    if process.pid is not None and 0 < process.pid < _MOST_PID and process.pid not in pids:
        pids.add(process.pid)
        # Perfetto itself writes the id behind the name.
        name = message(3, integer(1, process.pid) + text(6, process.name.removesuffix(f" {process.pid}")))
    return _packet(message(60, integer(1, uuid) + name + _IN_THIS_ORDER))


def _track(uuid: int, group: int, name: str, rank: int, kind: bytes = b"") -> bytes:
    """A track of a process; kind: what makes it a counter."""
    place = integer(5, group) + _IS_APART + integer(12, rank)
    return _packet(message(60, integer(1, uuid) + place + text(2, name) + kind))


def _lanes(process: Process) -> Iterator[tuple[str, list[Node]]]:
    """The tracks of a process by name, and what is on each.

    For Perfetto they are tracks of the process. As threads they would need the numbers of the operating system, and spans have
    Python's. Perfetto would also merge the main thread with that of torch.profiler's file, whose slices overlap with the spans.
    """
    for thread in process.threads:
        for index, part in enumerate(part for lane in thread.lanes for part in _shallow(lane)):
            yield f"{thread.name} ({index + 1})" if index else thread.name, part


def _shallow(lane: Iterable[Node]) -> list[list[Node]]:
    """The spans of a lane as lanes that Perfetto can show: what is inside too many others gets a lane of its own."""
    parts: list[list[Node]] = []
    opened: list[Node] = []
    for node in lane:
        while opened and not _is_inside(node, opened[-1]):
            opened.pop()
        part = len(opened) // _DEEPEST
        if part == len(parts):
            parts.append([])
        parts[part].append(node)
        opened.append(node)
    return parts


def _is_inside(node: Node, above: Node) -> bool:
    """Whether the slice of a span is inside that of the span which is open in its lane."""
    return above is node.parent and end_ns(node) <= end_ns(above)


def _flows(nodes: Iterable[Node], uuids: Iterator[int]) -> dict[int, list[int]]:
    """Numbers of flows by `id(node)`: one for each link to another span of the file, at both ends. The earlier one starts it."""
    linked = [node for node in nodes if node.span.links]
    targets: dict[tuple[str, str], Node] = {}
    for node in nodes if linked else ():
        targets.setdefault((node.span.trace_id, node.span.span_id), node)
    flows: defaultdict[int, list[int]] = defaultdict(list)
    for node in linked:
        for link in node.span.links:
            target = targets.get((link.trace_id, link.span_id))
            if target is not None and target is not node:
                flow = next(uuids)
                flows[id(node)].append(flow)
                flows[id(target)].append(flow)
    return flows


def _outermost(nodes: list[Node]) -> set[int]:
    """`id(node)` of the compilations that are in no other one."""
    inside = at_or_below(nodes, lambda node: node.span.name in _COMPILATIONS)
    return {id(node) for node in nodes if id(node) in inside and id(node.parent) not in inside}
