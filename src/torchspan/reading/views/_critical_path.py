# SPDX-License-Identifier: Apache-2.0
"""The critical path of a trace: the work that decided when it ended."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torchspan.reading.traces import Node


def critical_path(tops: Sequence[Node]) -> list[tuple[Node, int]]:
    """The spans on the critical path, in the order of their start.

    From the end of a span backwards, the path follows the child that ended last, up to its start, then the child that
    ended last before that. Where there is none, it is the span itself. Children that still ran when a later one on the
    path began are not on it. Source: the rule of Jaeger's user interface
    (packages/jaeger-ui/src/components/TracePage/CriticalPath).

    Args:
        tops: The nodes without a parent.

    Returns:
        Each node with the nanoseconds in which the path is the span itself and not a child.
    """
    own_ns: dict[int, int] = {}
    on_path: list[Node] = []
    pending: list[tuple[Node | None, int, int]] = []
    if tops:
        pending.append((None, min(node.span.start_ns for node in tops), max(map(_end_ns, tops))))
    while pending:
        node, start_ns, end_ns = pending.pop()
        inside = list(_last_children(tops if node is None else node.children, start_ns, end_ns))
        pending += inside
        if node is not None:
            on_path.append(node)
            own_ns[id(node)] = end_ns - start_ns - sum(end - start for _, start, end in inside)
    on_path.sort(key=lambda node: node.span.start_ns)
    return [(node, own_ns[id(node)]) for node in on_path]


def _last_children(children: Iterable[Node], start_ns: int, end_ns: int) -> Iterable[tuple[Node, int, int]]:
    """The children on the path between two moments, the last one first, each with its part of that time."""
    reached_ns = end_ns
    for child in sorted(children, key=_end_ns, reverse=True):
        child_end_ns = min(_end_ns(child), end_ns)
        child_start_ns = max(child.span.start_ns, start_ns)
        if child_start_ns < child_end_ns <= reached_ns:
            yield child, child_start_ns, child_end_ns
            reached_ns = child_start_ns


def _end_ns(node: Node) -> int:
    return node.span.start_ns + node.span.duration_ns
