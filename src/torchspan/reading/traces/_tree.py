# SPDX-License-Identifier: Apache-2.0
"""Arranges spans as trees, with the time that each span spent outside its children.

Nothing here recurses, because a file may contain a chain of thousands of spans.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from torchspan.reading.traces._file_spans import Span, UnfinishedSpan
from torchspan.reading.traces._unfinished import lasting, settled
from torchspan.words import semconv

Interval = tuple[int, int]
"""Start and end, in nanoseconds since 1970."""


@dataclass(eq=False, repr=False)
class Node:
    """A span in its tree.

    Attributes:
        span: The span.
        parent: The node above; None for a root, and for a span whose parent is not in the file.
        children: The nodes below, in the order of their start.
    """

    span: Span
    parent: Node | None = None
    children: list[Node] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"<Node of {self.span.name!r} with {len(self.children)} children>"

    @property
    def is_stand_in(self) -> bool:
        """Whether a stand-in for the GPU did this work, so that its duration means nothing."""
        return self.span.attributes.get(semconv.STAND_IN) is True

    def below(self) -> Iterator[Node]:
        """The node itself and every node below it.

        Returns:
            The nodes, parents before their children.
        """
        pending = [self]
        while pending:
            node = pending.pop()
            yield node
            pending.extend(reversed(node.children))

    def self_ns(self) -> int:
        """The time in which the span ran and none of its children did.

        Returns:
            Nanoseconds.
        """
        return length_ns(self.own_intervals(self.span.start_ns, self.span.end_ns))

    def own_intervals(self, begin_ns: int, end_ns: int) -> list[Interval]:
        """The moments in which the span ran and none of its children did.

        Args:
            begin_ns: What was before is left out, in nanoseconds since 1970.
            end_ns: What came after is left out.

        Returns:
            Intervals that do not overlap, in their order.
        """
        own: list[Interval] = []
        reached, end_ns = max(self.span.start_ns, begin_ns), min(self.span.end_ns, end_ns)
        for child in self.children:  # by start
            start = min(child.span.start_ns, end_ns)
            if child.span.end_ns > child.span.start_ns:
                if start > reached:
                    own.append((reached, start))
                reached = max(reached, child.span.end_ns)
        return [*own, (reached, end_ns)] if reached < end_ns else own


@dataclass(repr=False)
class Trace:
    """The trees of one trace id. They do not change once a node has been read.

    Attributes:
        trace_id: The trace's id, in lower-case hexadecimal.
        roots: The trees' roots, in the order of their start.
    """

    trace_id: str
    roots: list[Node]

    def __repr__(self) -> str:
        return f"<Trace {self.trace_id} of {len(self._nodes)} spans>"

    def nodes(self) -> Iterator[Node]:
        """Every node.

        Returns:
            The nodes, parents before their children.
        """
        return iter(self._nodes)

    @functools.cached_property
    def start_ns(self) -> int:
        """The earliest start, in nanoseconds since 1970."""
        return min(node.span.start_ns for node in self._nodes)

    @functools.cached_property
    def end_ns(self) -> int:
        """The latest end, in nanoseconds since 1970."""
        return max(node.span.start_ns + node.span.duration_ns for node in self._nodes)

    @functools.cached_property
    def _nodes(self) -> list[Node]:
        return [node for root in self.roots for node in root.below()]

    @functools.cached_property
    def _by_span(self) -> dict[int, Node]:
        return {id(node.span): node for node in self._nodes}


def at_or_below(nodes: Iterable[Node], is_meant: Callable[[Node], bool]) -> set[int]:
    """Find nodes with everything below them.

    Args:
        nodes: The nodes, each after its parent.
        is_meant: Called with each node that is not below a node that was found.

    Returns:
        `id(node)` of each node for which `is_meant` is true, and of every node below one.
    """
    seen: set[int] = set()
    for node in nodes:
        if id(node.parent) in seen or is_meant(node):
            seen.add(id(node))
    return seen


def own_intervals(nodes: Iterable[Node]) -> dict[int, list[Interval]]:
    """The moments in which each node ran and none of its children did.

    Args:
        nodes: The nodes, each after its parent. What a node did after the outermost one around it had ended is left out.

    Returns:
        `id(node)` of each node -> its moments.
    """
    limits: dict[int, Interval] = {}
    own: dict[int, list[Interval]] = {}
    for node in nodes:
        limit = limits[id(node)] = limits.get(id(node.parent), (node.span.start_ns, node.span.end_ns))
        own[id(node)] = node.own_intervals(*limit)
    return own


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """The same moments as intervals that do not overlap.

    Args:
        intervals: The moments, in any order.

    Returns:
        Intervals that do not touch each other, in their order.
    """
    united: list[Interval] = []
    for start, end in sorted(intervals):
        if united and start <= united[-1][1]:
            united[-1] = (united[-1][0], max(united[-1][1], end))
        else:
            united.append((start, end))
    return united


def length_ns(intervals: Iterable[Interval]) -> int:
    """The sum of the lengths of intervals.

    Args:
        intervals: What overlaps counts once for each.

    Returns:
        Nanoseconds.
    """
    return sum(end - start for start, end in intervals)


def trees(spans: Iterable[Span]) -> list[Trace]:
    """Arrange spans as trees.

    `torchspan.progress` spans are in none of the trees. If a progress span reports work whose own span is missing, that work is
    an `UnfinishedSpan`. A span whose parent is not among the spans is a root. If spans are each other's parents
    (different spans with the same ids), the earliest is a root.

    Args:
        spans: The spans, in any order.

    Returns:
        One trace for each trace id, in the order of their start.
    """
    by_trace: dict[str, list[Span]] = {}
    for span in sorted(settled(spans), key=lambda span: (span.start_ns, -span.duration_ns)):
        by_trace.setdefault(span.trace_id, []).append(span)
    return [Trace(trace_id, _roots(members)) for trace_id, members in by_trace.items()]


def _roots(spans: list[Span]) -> list[Node]:
    nodes = [Node(span) for span in spans]
    by_id: dict[str, Node] = {}
    for node in nodes:
        by_id.setdefault(node.span.span_id, node)
    for node in nodes:
        parent = by_id.get(node.span.parent_id)
        if parent is not None and parent is not node:
            node.parent = parent
    _cut_cycles(nodes)
    roots: list[Node] = []
    for node in nodes:
        (roots if node.parent is None else node.parent.children).append(node)
    if any(isinstance(span, UnfinishedSpan) for span in spans):
        _extend(roots)
    return roots


def _extend(roots: Iterable[Node]) -> None:
    """Make each unfinished span last as long as what is below it is known to have."""
    nodes = [node for root in roots for node in root.below()]
    ends: dict[int, int] = {}
    finished: dict[int, int] = {}  # of those below it that ended
    unfinished: set[int] = set()  # with one below it
    for node in reversed(nodes):  # children before their parents
        own = id(node)
        end_ns, finished_ns = ends.get(own, 0), finished.get(own, 0)
        if isinstance(node.span, UnfinishedSpan):
            node.span = lasting(node.span, end_ns, finished_ns, has_unfinished=own in unfinished)
        else:
            finished_ns = max(finished_ns, node.span.end_ns)
        if node.parent is not None:
            above = id(node.parent)
            ends[above] = max(ends.get(above, 0), end_ns, node.span.end_ns)
            finished[above] = max(finished.get(above, 0), finished_ns)
            if own in unfinished or isinstance(node.span, UnfinishedSpan):
                unfinished.add(above)


def _cut_cycles(nodes: list[Node]) -> None:
    """Make the earliest node of each ring of parents a root."""
    grounded: set[int] = set()
    for start in nodes:  # by start, so that the first node of a ring met here is its earliest
        path: dict[int, Node] = {}
        node: Node | None = start
        while node is not None and id(node) not in grounded:
            if id(node) in path:
                ring = list(path.values())[list(path).index(id(node)) :]
                min(ring, key=lambda member: member.span.start_ns).parent = None
                break
            path[id(node)] = node
            node = node.parent
        grounded.update(path)
