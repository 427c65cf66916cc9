# SPDX-License-Identifier: Apache-2.0
"""Which lines a trace is shown with, so that thousands of spans stay readable."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from torchspan.reading.answers import _labels
from torchspan.reading.traces import Node, Trace, UnfinishedSpan
from torchspan.words import semconv

MOST_LINES = 160
"""Lines at which a trace is folded more tightly; about four screens."""

DEEPEST, _DEEPEST_OF_ALL = 20, 100
"""Levels that have lines of their own, also where everything is unfolded."""
_ALL = sys.maxsize
_FINE = 0.005  # of the trace, and _FINE_NS: a builder phase below either is folded with its like
_FINE_NS = 1_000_000
_FINE_PASS = 0.01  # of all passes of a stage: one below that is folded with its like
_TIGHTENINGS = ((6, 3, 40), (3, 3, 16), (3, 3, 8), (1, 0, 4))
"""Per attempt: equal siblings that are left alone, the slowest that are shown when there are more, and lines below one span."""


@dataclass
class Fold:
    """Siblings that share one line.

    Args:
        name: Theirs, or empty where they differ.
    """

    name: str
    nodes: list[Node]


@dataclass
class Row:
    """A line: one node or a fold, and the rows below it; without rows, what is below is counted on the line."""

    item: Node | Fold
    rows: list[Row]

    @property
    def nodes(self) -> list[Node]:
        """The nodes that share the line."""
        return self.item.nodes if isinstance(self.item, Fold) else [self.item]

    def hidden_below(self) -> int:
        """Spans inside those of this line that no line shows."""
        return 0 if self.rows else sum(1 for node in self.nodes for _ in node.below()) - len(self.nodes)

    def depth(self) -> int:
        """Levels of rows below this one."""
        return 1 + max(row.depth() for row in self.rows) if self.rows else 0

    def count(self) -> int:
        return 1 + sum(row.count() for row in self.rows)


def rows(trace: Trace, *, unfolds: bool = False) -> list[Row]:
    """The rows of a trace: everything where that is readable, else with equal siblings and then small ones folded.

    A span that failed or did not end, or with such a one below it, is folded last.

    Args:
        unfolds: Whether everything has a row of its own.
    """
    roots = trace.roots
    notable = _notable(roots)
    fine_ns = max(round((trace.end_ns - trace.start_ns) * _FINE), _FINE_NS)
    passes_ns: Counter[int] = Counter()
    for node in trace.nodes():
        if semconv.PASS_NAME in node.span.attributes:
            passes_ns[id(node.parent)] += node.span.duration_ns
    result: list[Row] = []
    if unfolds:
        return _rows(roots, _Limits(_ALL, _ALL, _ALL, fine_ns, passes_ns, notable), _DEEPEST_OF_ALL)
    for alone, shown, most in _TIGHTENINGS:
        result = _rows(roots, _Limits(alone, shown, most, fine_ns, passes_ns, notable), DEEPEST)
        if sum(row.count() for row in result) <= MOST_LINES:
            break
    return result


@dataclass(frozen=True)
class _Limits:
    alone: int
    shown: int
    most: int
    fine_ns: int
    passes_ns: Counter[int]  # of each stage, by the id of its node
    notable: set[int]

    def is_fine(self, node: Node) -> bool:
        """Whether the node is a detail that took next to no time.

        Passes are recorded where they were asked for: those are short that are short among passes.
        """
        if not _labels.is_fine(node.span) or id(node) in self.notable or self.most == _ALL:
            return False
        if semconv.PASS_NAME in node.span.attributes:
            return node.span.duration_ns < _FINE_PASS * self.passes_ns[id(node.parent)]
        return node.span.duration_ns < self.fine_ns


def _rows(nodes: list[Node], limits: _Limits, depth: int) -> list[Row]:
    if depth == 0:
        return [Row(Fold("", nodes), [])] if nodes else []
    folds: dict[int, Fold] = {}
    _fold_fine(nodes, limits, folds)
    _fold_equal([node for node in nodes if id(node) not in folds], limits, folds)
    lines = _fold_small(_with_folds(nodes, folds), limits)
    return [_row(drawn, limits, depth) for drawn in lines]


def _row(drawn: Node | Fold, limits: _Limits, depth: int) -> Row:
    if isinstance(drawn, Fold) or limits.is_fine(drawn):
        return Row(drawn, [])
    return Row(drawn, _rows(drawn.children, limits, depth - 1))


def _fold_fine(nodes: list[Node], limits: _Limits, folds: dict[int, Fold]) -> None:
    groups: dict[str, list[Node]] = {}
    for node in nodes:
        if limits.is_fine(node):
            groups.setdefault(node.span.name.partition(" ")[0], []).append(node)
    for name, group in groups.items():
        if len(group) > 2:
            _fold(name, group, folds)


def _fold_equal(nodes: list[Node], limits: _Limits, folds: dict[int, Fold]) -> None:
    groups: dict[str, list[Node]] = {}
    for node in nodes:
        groups.setdefault(node.span.name, []).append(node)
    for name, group in groups.items():
        if len(group) > limits.alone:
            kept = {id(node) for node in [node for node in group if id(node) in limits.notable][: max(limits.shown, 1)]}
            slowest = sorted(group, key=lambda node: node.span.duration_ns, reverse=True)
            kept |= {id(node) for node in slowest[: limits.shown]}
            _fold(name, [node for node in group if id(node) not in kept], folds)


def _fold(name: str, nodes: list[Node], folds: dict[int, Fold]) -> None:
    """Note for each of the nodes the fold that stands for it; one node alone stands for itself."""
    if len(nodes) > 1:
        fold = Fold(name, nodes)
        folds.update((id(node), fold) for node in nodes)


def _with_folds(nodes: list[Node], folds: dict[int, Fold]) -> list[Node | Fold]:
    """The nodes in order, each fold in place of its first node."""
    lines: list[Node | Fold] = []
    for node in nodes:
        fold = folds.get(id(node))
        if fold is None:
            lines.append(node)
        elif fold.nodes[0] is node:
            lines.append(fold)
    return lines


def _fold_small(lines: list[Node | Fold], limits: _Limits) -> list[Node | Fold]:
    if len(lines) <= limits.most:
        return lines
    ranked = sorted(lines, key=lambda drawn: _weight(drawn, limits), reverse=True)
    kept = {id(drawn) for drawn in ranked[: limits.most - 1]}
    nodes: list[Node] = []
    for drawn in lines:
        if id(drawn) not in kept:
            nodes += drawn.nodes if isinstance(drawn, Fold) else [drawn]
    return [drawn for drawn in lines if id(drawn) in kept] + [Fold("", nodes)]


def _weight(drawn: Node | Fold, limits: _Limits) -> tuple[bool, int]:
    if isinstance(drawn, Node):
        return id(drawn) in limits.notable, drawn.span.duration_ns
    return any(id(node) in limits.notable for node in drawn.nodes), sum(node.span.duration_ns for node in drawn.nodes)


def _notable(roots: Iterable[Node]) -> set[int]:
    """Ids of the nodes that failed or did not end, and of those above them."""
    notable: set[int] = set()
    for root in roots:
        for node in root.below():
            if _labels.error(node.span)[0] or isinstance(node.span, UnfinishedSpan):
                above: Node | None = node
                while above is not None and id(above) not in notable:
                    notable.add(id(above))
                    above = above.parent
    return notable
