# SPDX-License-Identifier: Apache-2.0
"""Lines of a given width. Names are shortened where space is short, numbers never are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torchspan.reading.answers import _labels
from torchspan.reading.answers._attributes import number
from torchspan.reading.answers._device_times import gpu_ns, layer_lines
from torchspan.reading.answers._folded_rows import Fold, Row, rows
from torchspan.reading.answers._labels import SEPARATOR, Fact
from torchspan.reading.answers._operator_rows import operators_text
from torchspan.reading.answers._scene import Scene
from torchspan.reading.answers._stages import own_time
from torchspan.reading.answers.lines import Line, Style, broken, cells, flowed, pad, shorten
from torchspan.reading.answers.units import duration, moment, plural, size, times
from torchspan.reading.traces import Attributes, Node, Trace
from torchspan.words import semconv

_DURATION = 9
_OWN_TIME = "Own time  "
_OPERATORS = "Operators  "
_LAYERS = "Layers  "
_STAND_IN = "stand-in"
_LABEL = 24


@dataclass(frozen=True)
class _Scale:
    """Columns of a line, and the time that the bars stand for.

    A tree that is too deep for three columns a level has one for each, in all of its lines.

    Args:
        levels: How deep the tree is.
    """

    width: int
    start_ns: int
    total_ns: int
    scene: Scene
    levels: int

    @property
    def bar(self) -> int:
        return max(8, min(40, self.width // 5))

    @property
    def left(self) -> int:
        return self.width - self.bar - _DURATION - 2

    @property
    def most_guide(self) -> int:
        """Columns that a guide may take, so that there are some for the label however deep it stands."""
        return self.left - min(_LABEL, self.left * 3 // 5)

    def guide(self, text: str) -> str:
        """The lines of the tree before a label; `text` has three columns for each level."""
        if self.levels * 3 <= self.most_guide or not text:
            return text
        narrow = text[::3] + " "
        return narrow if cells(narrow) <= self.most_guide else "…" + narrow[1 - self.most_guide :]


def waterfall(trace: Trace, width: int, scene: Scene, head: str = "", *, unfolds: bool = False) -> Iterator[Line]:
    """The lines of one trace: a title, the tree, and under it what it comes to.

    Args:
        scene: All that is drawn with it.
        head: What the title begins with in place of the trace's id.
        unfolds: Whether every span has a line.
    """
    shown = rows(trace, unfolds=unfolds)
    levels = max(row.depth() for row in shown)
    scale = _Scale(width, trace.start_ns, max(trace.end_ns - trace.start_ns, 1), scene, levels)
    spans = [node.span for node in trace.nodes()]
    head = head or f"trace {trace.trace_id}"
    yield from title(head, spans[0].resource, trace.start_ns, plural(len(spans), "span"), width)
    for row in shown:
        yield from _row(row, scale, "", "")
    texts = (text for paragraph in own_time(list(trace.nodes())) for text in flowed(paragraph, width - len(_OWN_TIME)))
    for index, text in enumerate(texts):
        yield [(" " * len(_OWN_TIME) if index else _OWN_TIME, Style.STRONG), (text, Style.PLAIN)]


def service(resource: Attributes) -> str:
    """The service's name; empty where none was given, which the SDK writes as `unknown_service:` and the interpreter."""
    name = str(resource.get("service.name") or "")
    return "" if name.startswith("unknown_service") else name


def title(head: str, resource: Attributes, start_ns: int, what: str, width: int) -> Iterator[Line]:
    """Head, service, date and number of spans; the service where there is room, the others on more lines if need be."""
    rest = [moment(start_ns), *([what] if what else [])]
    name = service(resource)
    room = width - cells(SEPARATOR.join([head, *rest]))
    if name and room >= 11:
        head += SEPARATOR + shorten(name, room - 3)
    tails = [""]
    for text in rest:
        used = cells(head if len(tails) == 1 else "") + cells(tails[-1] + SEPARATOR + text)
        if used <= width:
            tails[-1] += SEPARATOR + text
        else:
            tails.append("  " + text)
    yield [(head, Style.STRONG), (tails[0], Style.DIM)]
    yield from ([(tail, Style.DIM)] for tail in tails[1:])


@dataclass(frozen=True)
class _Entry:
    """What one line says.

    Args:
        nodes: The spans that its bar and its time stand for.
    """

    name: str
    subject: str
    facts: list[Fact]
    nodes: Sequence[Node]

    @classmethod
    def of(cls, row: Row, scene: Scene) -> _Entry:
        """All that is known of the spans of a row."""
        if isinstance(row.item, Fold):
            name, subject, facts = _fold_label(row.item), "", _fold_facts(row.item)
        else:
            name, subject = _labels.label(row.item)
            facts = [*scene.facts(row.item), *_labels.facts(row.item)]
        hidden = row.hidden_below()
        if hidden:
            facts.append(Fact(f"{plural(hidden, 'span')} inside"))
        return cls(name, subject, facts, row.nodes)

    @property
    def failed(self) -> bool:
        return any(fact.style is Style.ERROR for fact in self.facts)


def _row(row: Row, scale: _Scale, guide: str, guide_below: str) -> Iterator[Line]:
    has_rows = bool(row.rows) and not isinstance(row.item, Fold)
    yield from _line(_Entry.of(row, scale.scene), scale, guide, guide_below, has_rows=has_rows)
    if not isinstance(row.item, Fold) or row.item.name:
        guide_inside = scale.guide(guide_below + ("│  " if has_rows else "   "))
        yield from _operators(row, scale, guide_inside)
        yield from _layers(row, scale, guide_inside)
    for index, below in enumerate(row.rows):
        is_last = index == len(row.rows) - 1
        branch, trunk = ("└─ ", "   ") if is_last else ("├─ ", "│  ")
        yield from _row(below, scale, guide_below + branch, guide_below + trunk)


def _operators(row: Row, scale: _Scale, guide: str) -> Iterator[Line]:
    text = operators_text(
        [node.span for node in row.nodes],
        scale.width - cells(guide + _OPERATORS),
        sum(node.span.duration_ns for node in row.nodes),
    )
    if text:
        yield [(guide, Style.DIM), (_OPERATORS, Style.STRONG), (text, Style.PLAIN)]


def _layers(row: Row, scale: _Scale, guide: str) -> Iterator[Line]:
    texts = layer_lines([node.span for node in row.nodes], scale.width - cells(guide + _LAYERS))
    for index, text in enumerate(texts):
        yield [(guide, Style.DIM), (" " * len(_LAYERS) if index else _LAYERS, Style.STRONG), (text, Style.PLAIN)]


def _line(entry: _Entry, scale: _Scale, guide: str, guide_below: str, *, has_rows: bool) -> Iterator[Line]:
    nodes = entry.nodes
    is_stand_in = all(node.is_stand_in for node in nodes)
    first, rest = _left(entry, scale.guide(guide), scale)
    bar, time = _bar(nodes, scale), _STAND_IN if is_stand_in else _labels.lasted(nodes)
    used = sum(cells(text) for text, _ in first)
    style = Style.STAND_IN if is_stand_in else Style.ERROR if entry.failed else Style.BAR
    if is_stand_in:
        bar = bar.replace("█", "░")
    if used > scale.left:  # the name needs the place of the bar
        bar = " " * (scale.left + 1 + scale.bar - used)
    else:
        first.append((" " * (scale.left - used + 1), Style.PLAIN))
    yield [*first, (bar, style), (_fitting(time), Style.PLAIN)]
    yield from _wrapped(rest, scale.guide(guide_below + ("│  " if has_rows else "   ")), scale)


def _fitting(time: str) -> str:
    """The duration in its column, with a space before it; the longest lower bounds need that of `≥ `."""
    return f" {time:>{_DURATION}}" if cells(time) <= _DURATION else f"{time.replace('≥ ', '≥'):>{_DURATION + 1}}"


def _left(entry: _Entry, guide: str, scale: _Scale) -> tuple[Line, list[Fact]]:
    """The left part of a line, and the facts that did not fit in it."""
    room = scale.left - cells(guide)
    name = _short_name(entry.name, room, scale.left + scale.bar - cells(guide))
    line: Line = [(guide, Style.DIM), (name, Style.ERROR if entry.failed else Style.STRONG)]
    room -= cells(name)
    rest = list(entry.facts)
    subject = entry.subject
    if subject and cells(subject) + len(SEPARATOR) <= room:
        line.append((SEPARATOR + subject, Style.PLAIN))
        room -= cells(subject) + len(SEPARATOR)
    elif subject:
        rest.insert(0, Fact(subject, Style.PLAIN))
    needed = sum(cells(fact.text) for fact in rest) + len(SEPARATOR) * (len(rest) - 1) + 2
    if rest and needed <= room:
        return [*line, ("  ", Style.PLAIN), *_joined(rest)], []
    return line, rest


def _short_name(name: str, room: int, whole_room: int) -> str:
    """The name, or the end of it that follows the library's; where space is short, in place of the bar.

    Args:
        whole_room: Columns with those of the bar. A name that is longer still keeps both its ends.
    """
    own = _labels.without_library(name)
    forms = [name]
    if own != name:
        last = own.rpartition(".")[2]
        forms += [f"…{ending}" for ending in (own, last, last.partition(" ")[2]) if ending]
    most = whole_room if room < _LABEL else room
    for columns in (room, most):
        for form in forms:
            if cells(form) <= columns:
                return form
    return shorten(forms[-1].lstrip("…"), most)


def _joined(facts: list[Fact]) -> Line:
    line: Line = []
    for fact in facts:
        line += [(SEPARATOR if line else "", Style.DIM), (fact.text, fact.style)]
    return line


def _wrapped(facts: list[Fact], guide: str, scale: _Scale) -> Iterator[Line]:
    """The facts on lines of their own, whole ones together where they fit, a long one broken between words."""
    room = scale.width - cells(guide)
    line: list[Fact] = []
    for fact in facts:
        if line and cells(SEPARATOR.join(part.text for part in [*line, fact])) > room:
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
    start = max(min(node.span.start_ns for node in nodes) - scale.start_ns, 0)  # another process's clock may be behind
    end = max(*(node.span.start_ns + node.span.duration_ns - scale.start_ns for node in nodes), start)
    first = min(start * scale.bar // scale.total_ns, scale.bar - 1)
    length = round((end - start) * scale.bar / scale.total_ns)
    mark = "█" * min(max(length, 1), scale.bar - first) if (end - start) * scale.bar * 2 >= scale.total_ns else "▏"
    return pad(" " * first + mark, scale.bar)


def _fold_label(fold: Fold) -> str:
    return f"{fold.name} {times(len(fold.nodes))}" if fold.name else f"… {plural(len(fold.nodes), 'more span')}"


def _fold_facts(fold: Fold) -> list[Fact]:
    lines = []
    if not all(node.is_stand_in for node in fold.nodes) and len(fold.nodes) > 1:
        lines.append(Fact(_range([node.span.duration_ns for node in fold.nodes])))
    on_device = [ns for node in fold.nodes if (ns := gpu_ns(node.span)) is not None]
    if on_device:
        lines.append(Fact(f"device {_range(on_device)}"))
    sizes = [number(node.span.attributes, semconv.ENGINE_SIZE) for node in fold.nodes]
    if any(sizes):
        lines.append(Fact(f"{size(sum(value or 0 for value in sizes))} together"))
    errors = Counter(_labels.error(node.span)[0] for node in fold.nodes)
    failed = errors.total() - errors[""]
    return [*lines, Fact(f"{failed} failed", Style.ERROR)] if failed else lines


def _range(ns: Sequence[float]) -> str:
    shortest, longest = duration(min(ns)), duration(max(ns))
    return f"{shortest} each" if shortest == longest else f"{shortest} to {longest} each"
