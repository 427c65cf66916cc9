# SPDX-License-Identifier: Apache-2.0
"""Spans by process, thread and lane, as timelines draw them."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from torchspan.reading.answers._attributes import process_id
from torchspan.reading.answers.drawing import Drawing, Section
from torchspan.reading.traces import Attributes, Node, Trace, UnfinishedSpan, trees
from torchspan.words import phase, semconv

NEVER_NS = 2**64
"""The end of a span that did not end: after every other."""
_WORKERS = "compile workers"
_MAIN = "main thread"
_ProcessKey = tuple[str, ...]
_ThreadKey = tuple[_ProcessKey, object]
_Operators = dict[tuple[str, str], list[Node]]
"""The outermost operators by the trace id and the id of the span above."""


@dataclass(eq=False)
class Thread:
    """A thread of a process.

    Attributes:
        name: Its name, or what it does.
        lanes: Spans by lane. In a lane, two spans either do not overlap, or the later one is below the earlier one
            and within it. By start; parents before their children.
    """

    name: str
    lanes: list[list[Node]] = field(default_factory=list)


@dataclass(eq=False)
class Process:
    """A process.

    Attributes:
        pid: Its id; None if unknown.
        name: Its service or program, and its id.
        threads: Its threads, in the order in which each began to work.
    """

    pid: int | None
    name: str
    threads: list[Thread] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class WholeTrace:
    """The spans of one trace id in a section of a drawing, with the span of `torchspan run` above those of its program.

    Attributes:
        trace_id: The trace's id, in lower-case hexadecimal.
        nodes: Every node, parents before their children. Spans of operators are below others by their `parent` alone: they are no
            `children`, so that neither the own time of a span nor the critical path depends on them.
    """

    trace_id: str
    nodes: list[Node]


def whole_traces(drawing: Drawing) -> list[WholeTrace]:
    """The traces of a drawing, section by section, in the order of their start.

    A drawing has the parts of a run apart, and its span nowhere. Here each span is in one trace.
    """
    operators: _Operators = {}
    for top in _roots(trees(drawing.operators)):
        operators.setdefault((top.span.trace_id, top.span.parent_id), []).append(top)
    return [trace for section in drawing.sections for trace in _of_section(section, operators)]


def _of_section(section: Section, operators: _Operators) -> Iterator[WholeTrace]:
    roots: dict[str, dict[int, Node]] = {}
    if section.run is not None and not any(root.parent is not None for root in _roots(section.traces)):
        roots[section.run.span.trace_id] = {id(section.run.span): Node(section.run.span)}
    for root in _roots(section.traces):
        top = root if root.parent is None else root.parent  # the run's span, below which the parts of a run are
        roots.setdefault(top.span.trace_id, {})[id(top.span)] = top
    for trace_id, tops in roots.items():
        nodes = (node for top in tops.values() for node in top.below())
        yield WholeTrace(trace_id, [inside for node in nodes for inside in _with_operators(node, operators)])


def _with_operators(node: Node, operators: _Operators) -> Iterator[Node]:
    yield node
    for top in operators.pop((node.span.trace_id, node.span.span_id), ()):
        top.parent = node
        yield from top.below()


def _roots(traces: Iterable[Trace]) -> Iterator[Node]:
    return (root for trace in traces for root in trace.roots)


def end_ns(node: Node) -> int:
    """When a span ends: its start where a clock was set back, and `NEVER_NS` if it did not end."""
    return NEVER_NS if isinstance(node.span, UnfinishedSpan) else node.span.start_ns + node.span.duration_ns


def processes(nodes: Iterable[Node]) -> list[Process]:
    """Arrange spans by process, thread and lane.

    A span is in the lane of its parent if both are of one thread and it lies within. Else it is in the first lane of
    its thread that is free when it starts.

    Args:
        nodes: The nodes, parents before their children.

    Returns:
        The processes, in the order in which each began to work.
    """
    threads: dict[int, _ThreadKey] = {}
    keys: dict[int, _ProcessKey] = {}  # by the identity of the resource
    by_thread: dict[_ThreadKey, list[Node]] = {}
    for node in nodes:
        resource = node.span.resource
        process = keys.get(id(resource)) or keys.setdefault(id(resource), _process_key(resource))
        threads[id(node)] = key = _thread(node, process, threads.get(id(node.parent)))
        by_thread.setdefault(key, []).append(node)
    result: dict[_ProcessKey, Process] = {}
    for (process, _), members in sorted(by_thread.items(), key=lambda item: _start_ns(item[1])):
        resource = members[0].span.resource
        row = result.setdefault(process, Process(process_id(resource), _process_name(resource)))
        row.threads.append(Thread(_thread_name(members), _lanes(members)))
    return list(result.values())


def _start_ns(nodes: Iterable[Node]) -> int:
    return min(node.span.start_ns for node in nodes)


def _process_key(resource: Attributes) -> _ProcessKey:
    keys = ("host.name", "service.name", "service.instance.id", semconv.PROCESS_PID)
    return tuple(str(resource.get(key, "")) for key in keys)


def _process_name(resource: Attributes) -> str:
    service = str(resource.get("service.name") or "process").removeprefix("unknown_service:")
    pid = process_id(resource)
    return service if pid is None else f"{service} {pid}"


def _thread(node: Node, process: _ProcessKey, above: _ThreadKey | None) -> _ThreadKey:
    """The thread: that of the span above in the same process, unless the span has one of its own."""
    if node.span.name == phase.COMPILE_WORKER.name:
        return process, _WORKERS
    own = node.span.attributes.get(semconv.THREAD_ID)
    if own is None and above is not None and above[0] == process:
        return above
    return process, own if isinstance(own, int) else None


def _thread_name(nodes: Iterable[Node]) -> str:
    for node in nodes:
        if node.span.name == phase.COMPILE_WORKER.name:
            return _WORKERS
        own, name = (node.span.attributes.get(key) for key in (semconv.THREAD_ID, "thread.name"))
        if name:
            return str(name)
        if own is not None:
            return f"thread {own}"
    return _MAIN


class _Lanes:
    """Collects spans by lane. Each lane has a stack of those that are open."""

    def __init__(self) -> None:
        self.nodes: list[list[Node]] = []
        self._open: list[list[Node]] = []
        self._of_node: dict[int, int] = {}
        self._busy: list[tuple[int, int]] = []
        """When the outermost span of a lane ends, and the lane; a heap."""
        self._free: list[int] = []

    def add(self, node: Node) -> None:
        lane = self._of_node.get(id(node.parent))
        if lane is None or not self._fits(node, self._open[lane]):
            lane = self._first_free(node)
        self._of_node[id(node)] = lane
        self._open[lane].append(node)
        self.nodes[lane].append(node)

    def _fits(self, node: Node, opened: list[Node]) -> bool:
        while opened and opened[-1] is not node.parent and end_ns(opened[-1]) <= node.span.start_ns:
            opened.pop()
        return bool(opened) and opened[-1] is node.parent and end_ns(node) <= end_ns(opened[-1])

    def _first_free(self, node: Node) -> int:
        while self._busy and self._busy[0][0] <= node.span.start_ns:
            heapq.heappush(self._free, heapq.heappop(self._busy)[1])
        if self._free:
            lane = heapq.heappop(self._free)
            self._open[lane].clear()
        else:
            lane = len(self.nodes)
            self.nodes.append([])
            self._open.append([])
        heapq.heappush(self._busy, (end_ns(node), lane))
        return lane


def _lanes(nodes: Iterable[Node]) -> list[list[Node]]:
    lanes = _Lanes()
    for node in sorted(nodes, key=lambda node: node.span.start_ns):  # stable: parents stay before their children
        lanes.add(node)
    return lanes.nodes
