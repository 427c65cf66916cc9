# SPDX-License-Identifier: Apache-2.0
"""Lines of a given width. Names give way when room is short, numbers never do."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torchspan import semconv
from torchspan.cli._terminal import Line, Style, broken, cells, pad, shorten
from torchspan.cli.waterfall import _labels
from torchspan.cli.waterfall._answer import lines
from torchspan.cli.waterfall._answers import answers
from torchspan.cli.waterfall._fold import Fold, Row, rows
from torchspan.cli.waterfall._labels import SEPARATOR, Fact
from torchspan.cli.waterfall._units import duration, plural, size, times
from torchspan.traces import Node, Trace

_DURATION = 9
_STAND_IN = "stand-in"
_LABEL = 24  # columns that a label has however deep it stands


@dataclass(frozen=True)
class _Scale:
    """Columns of a line, and the time that the bars stand for."""

    width: int
    start_ns: int
    total_ns: int

    @property
    def bar(self) -> int:
        return max(8, min(40, self.width // 5))

    @property
    def left(self) -> int:
        return self.width - self.bar - _DURATION - 2


def waterfall(trace: Trace, width: int) -> Iterator[Line]:
    """The lines of one trace: a title, the tree, and under it what it comes to."""
    scale = _Scale(width, trace.start_ns, max(trace.end_ns - trace.start_ns, 1))
    yield _title(trace, width)
    for row in rows(trace):
        yield from _row(row, scale, "", "")
    for answer in answers(trace):
        yield from lines(answer, width)


def overview(traces: Sequence[Trace], width: int) -> Iterator[Line]:
    """One line for each name that traces start with: how many there are and how long they took."""
    groups: dict[str, list[Trace]] = {}
    for trace in traces:
        groups.setdefault(trace.roots[0].span.name, []).append(trace)
    yield [(f"{plural(len(traces), 'more trace')}; --trace ID shows one:", Style.STRONG)]
    for name, group in groups.items():
        shortest, longest = (f(trace.end_ns - trace.start_ns for trace in group) for f in (min, max))
        numbers = f" {times(len(group))}  {duration(shortest)} to {duration(longest)}  first {group[0].trace_id}"
        yield [(shorten(f"  {name}", max(width - cells(numbers), 8)) + numbers, Style.PLAIN)]


def _title(trace: Trace, width: int) -> Line:
    spans = [node.span for node in trace.nodes()]
    first = spans[0]
    seconds = trace.start_ns // 1_000_000_000
    when = dt.datetime.fromtimestamp(seconds, dt.timezone.utc).strftime("%Y-%m-%d %H:%M:%SZ")
    head, tail = f"trace {trace.trace_id}", SEPARATOR + plural(len(spans), "span")
    service = str(first.resource.get("service.name") or "")
    room = width - cells(head + tail)
    if room >= cells(when) + 3:
        tail = SEPARATOR + when + tail
        room -= cells(when) + 3
    if service and room >= 11:
        head += SEPARATOR + shorten(service, room - 3)
    return [(head, Style.STRONG), (tail, Style.DIM)]


def _row(row: Row, scale: _Scale, guide: str, guide_below: str) -> Iterator[Line]:
    fold = isinstance(row.item, Fold)
    name, subject = _fold_label(row.item) if isinstance(row.item, Fold) else _labels.label(row.item)
    facts = _fold_facts(row.item) if isinstance(row.item, Fold) else _labels.facts(row.item)
    nodes = row.nodes
    hidden = row.hidden_below()
    if hidden:
        facts.append(Fact(f"{plural(hidden, 'span')} inside"))
    is_stand_in = all(node.is_stand_in for node in nodes)
    failed = any(_labels.error(node.span)[0] for node in nodes)
    first, rest = _left(name, subject, facts, guide, scale.left, Style.ERROR if failed else Style.STRONG)
    bar, time = _bar(nodes, scale), _STAND_IN if is_stand_in else duration(sum(n.span.duration_ns for n in nodes))
    used = sum(cells(text) for text, _ in first)
    style = Style.STAND_IN if is_stand_in else Style.ERROR if failed else Style.BAR
    if is_stand_in:
        bar = bar.replace("█", "░")
    yield [*first, (" " * (scale.left - used + 1), Style.PLAIN), (bar, style), (f" {time:>{_DURATION}}", Style.PLAIN)]
    yield from _wrapped(rest, guide_below + ("│  " if row.rows and not fold else "   "), scale)
    for index, below in enumerate(row.rows):
        is_last = index == len(row.rows) - 1
        branch, trunk = ("└─ ", "   ") if is_last else ("├─ ", "│  ")
        yield from _row(below, scale, guide_below + branch, guide_below + trunk)


def _left(name: str, subject: str, facts: list[Fact], guide: str, width: int, style: Style) -> tuple[Line, list[Fact]]:
    """The left part of a line, and the facts that found no room in it."""
    guide = _short_guide(guide, width - _LABEL)
    room = width - cells(guide)
    line: Line = [(guide, Style.DIM), (shorten(name, room), style)]
    room -= cells(name)
    rest = list(facts)
    if subject and cells(subject) + len(SEPARATOR) <= room:
        line.append((SEPARATOR + subject, Style.PLAIN))
        room -= cells(subject) + len(SEPARATOR)
    elif subject:
        rest.insert(0, Fact(subject, Style.PLAIN))
    needed = sum(cells(fact.text) for fact in rest) + len(SEPARATOR) * (len(rest) - 1) + 2
    if rest and needed <= room:
        return [*line, ("  ", Style.PLAIN), *_joined(rest)], []
    return line, rest


def _short_guide(guide: str, width: int) -> str:
    return guide if cells(guide) <= width else "… " + guide[-((width - 2) // 3) * 3 :]


def _joined(facts: list[Fact]) -> Line:
    line: Line = []
    for fact in facts:
        line += [(SEPARATOR if line else "", Style.DIM), (fact.text, fact.style)]
    return line


def _wrapped(facts: list[Fact], guide: str, scale: _Scale) -> Iterator[Line]:
    """The facts on lines of their own, whole ones together where they fit, a long one broken between words."""
    guide = _short_guide(guide, scale.left - _LABEL)
    room = scale.width - cells(guide)
    line: list[Fact] = []
    for fact in facts:
        if line and cells(SEPARATOR.join(each.text for each in [*line, fact])) > room:
            yield [(guide, Style.DIM), *_joined(line)]
            line = []
        pieces = broken(fact.text, room)
        for piece in pieces[:-1]:
            yield [(guide, Style.DIM), (piece, fact.style)]
        line.append(Fact(pieces[-1], fact.style))
    if line:
        yield [(guide, Style.DIM), *_joined(line)]


def _bar(nodes: Sequence[Node], scale: _Scale) -> str:
    """From the first start to the last end among the nodes, at least a thin mark."""
    start = min(node.span.start_ns for node in nodes) - scale.start_ns
    end = max(node.span.start_ns + node.span.duration_ns for node in nodes) - scale.start_ns
    first = min(start * scale.bar // scale.total_ns, scale.bar - 1)
    length = round((end - start) * scale.bar / scale.total_ns)
    mark = "█" * min(max(length, 1), scale.bar - first) if (end - start) * scale.bar * 2 >= scale.total_ns else "▏"
    return pad(" " * first + mark, scale.bar)


def _fold_label(fold: Fold) -> tuple[str, str]:
    if fold.name:
        return f"{fold.name} {times(len(fold.nodes))}", ""
    return f"… {plural(len(fold.nodes), 'more span')}", ""


def _fold_facts(fold: Fold) -> list[Fact]:
    found = []
    if not all(node.is_stand_in for node in fold.nodes) and len(fold.nodes) > 1:
        times = [node.span.duration_ns for node in fold.nodes]
        shortest, longest = duration(min(times)), duration(max(times))
        found.append(Fact(f"{shortest} each" if shortest == longest else f"{shortest} to {longest} each"))
    sizes = [_labels.number(node.span.attributes, semconv.ENGINE_SIZE) for node in fold.nodes]
    if any(sizes):
        found.append(Fact(f"{size(sum(value or 0 for value in sizes))} together"))
    errors = Counter(_labels.error(node.span)[0] for node in fold.nodes)
    failed = errors.total() - errors[""]
    return [*found, Fact(f"{failed} failed", Style.ERROR)] if failed else found
