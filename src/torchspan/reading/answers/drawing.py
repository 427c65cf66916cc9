# SPDX-License-Identifier: Apache-2.0
"""What of spans is drawn, and in which order: the answers first, then the waterfalls of what has news."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from torchspan.reading.answers import _labels
from torchspan.reading.answers._compiled import Compiled, compiled
from torchspan.reading.answers._operator_rows import is_operator
from torchspan.reading.answers._render import title, waterfall
from torchspan.reading.answers._scene import Scene
from torchspan.reading.answers._stages import covered_ns, is_wait
from torchspan.reading.answers._time_split import TimeSplit
from torchspan.reading.answers.first_screen import MOST_ROWS, table
from torchspan.reading.answers.lines import Line, Style, broken, cells, shorten
from torchspan.reading.answers.printable_spans import printable_spans
from torchspan.reading.answers.units import duration, plural, share
from torchspan.reading.traces import Node, Run, Span, Trace, by_run, trees

MOST_PARTS = 10
"""Waterfalls of one row that are drawn when not all are asked for."""
_MOST_AROUND = 20
"""Spans around a slow one that its line names."""
_EMPTY: Line = [("", Style.PLAIN)]


@dataclass(frozen=True)
class DrawingOptions:
    """What of a drawing is wanted.

    Args:
        number: The row of which all waterfalls are drawn.
        unfolds: Whether every row and every span is drawn, and of a file every run.
        draws_all: Whether every waterfall is drawn.
        only_errors: Whether rows without a failure and without a limit are left out.
        slowest: How many spans to list, by the time in which they ran and nothing inside them did.
    """

    number: int | None = None
    unfolds: bool = False
    draws_all: bool = False
    only_errors: bool = False
    slowest: int | None = None


@dataclass(frozen=True)
class Section:
    """One run of a program, or all traces that belong to none.

    Args:
        rows: Each with its number in the drawing.
    """

    run: Run | None
    traces: Sequence[Trace]
    rows: Sequence[tuple[int, Compiled]]


@dataclass(frozen=True)
class Drawing:
    """What of a file is drawn.

    Args:
        scene: Everything that is drawn.
        left_out: What the file has besides, in words.
        operators: Spans of operators of the whole file, which are in none of the sections.
    """

    sections: Sequence[Section]
    scene: Scene
    left_out: Sequence[str] = ()
    operators: Sequence[Span] = ()

    @classmethod
    def of(cls, spans: Iterable[Span], *, newest: bool = False, encoding: str = "utf-8") -> Drawing:
        """The drawing of spans.

        Args:
            newest: Whether only the newest run is drawn, if there is a run.
            encoding: That of what is drawn.
        """
        every: list[Span] = []
        operators: list[Span] = []
        for span in printable_spans(spans, encoding):
            (operators if is_operator(span) else every).append(span)
        works = by_run(trees(every))
        runs = [work for work in works if isinstance(work, Run)]
        left_out: list[str] = []
        if newest and runs:
            others = ((len(runs) - 1, "older run"), (len(works) - len(runs), "trace of no run", "traces of no run"))
            left_out = [plural(*other) for other in others if other[0]]
            works = [max(runs, key=lambda run: run.span.start_ns)]
        groups: list[tuple[Run | None, list[Trace]]] = [(work, work.members) for work in works if isinstance(work, Run)]
        loose = [work for work in works if isinstance(work, Trace)]
        groups += [(None, loose)] if loose else []
        sections, number = [], 1
        for run, traces in groups:
            rows = list(enumerate(compiled(traces), number))
            number += len(rows)
            sections.append(Section(run, traces, rows))
        return cls(sections, Scene.of(every), left_out, operators)

    @property
    def rows(self) -> list[tuple[int, Compiled]]:
        """The rows of all sections with their numbers, from 1."""
        return [row for section in self.sections for row in section.rows]

    def lines(self, width: int, choice: DrawingOptions | None = None) -> Iterator[Line]:
        """The lines, none wider than `width` columns except for code to copy."""
        choice = choice or DrawingOptions()
        blocks = self._slowest(choice.slowest, width) if choice.slowest else self._blocks(width, choice)
        for index, block in enumerate(blocks):
            yield from [_EMPTY] if index else []
            yield from block
        if self.left_out and choice == DrawingOptions():
            line = f"{' and '.join(self.left_out)} in the file; show --all draws everything"
            yield from [_EMPTY, *([(text, Style.STRONG)] for text in broken(line, width))]

    def _blocks(self, width: int, choice: DrawingOptions) -> Iterator[Iterable[Line]]:
        for section in self.sections:
            rows = rows_of(section, choice)
            if choice.only_errors and not rows:
                ended = [] if section.run is None else _labels.exit_of(section.run.span)
                failed = [f"{fact.text}: no recorded work failed" for fact in ended if fact.style is not Style.DIM]
                yield [[(f"{''.join(failed) or 'nothing failed'}, and no limit was reached", Style.PLAIN)]]
                continue
            if choice.number is None:
                yield self._first_screen(section, rows, width, choice)
            elif rows:
                yield table(rows, width, whole=True)
            yield from self.waterfalls(section, rows, width, choice)

    def _first_screen(
        self, section: Section, rows: Sequence[tuple[int, Compiled]], width: int, choice: DrawingOptions
    ) -> Iterator[Line]:
        yield from title_of(section, width)
        yield from table(rows, width, whole=choice.unfolds)
        if section.run is not None:
            yield from TimeSplit.of(section.run).lines(width)

    def waterfalls(
        self, section: Section, rows: Sequence[tuple[int, Compiled]], width: int, choice: DrawingOptions
    ) -> Iterator[Iterable[Line]]:
        """The waterfalls of the wanted rows, in the order of the rows; of the first row if none has news.

        Args:
            section: What has the rows.
            rows: The wanted rows with their numbers.
            width: In columns.
            choice: What of the drawing is wanted.

        Yields:
            The lines of each.
        """
        numbers: dict[int, list[int]] = {}
        for number, row in section.rows:
            for trace in row.traces:
                numbers.setdefault(id(trace), []).append(number)
        draws_all = choice.unfolds or choice.draws_all or choice.number
        worst = [row for row in rows[:MOST_ROWS] if row[1].news or row[1].has_errors]  # what did not end says nothing
        shown = rows if draws_all else worst or rows[:1]
        drawn: set[int] = set()
        for number, row in shown:
            traces = _of_row(row, choice)
            for trace in traces:
                if id(trace) not in drawn:
                    drawn.add(id(trace))
                    # Another part of the run has the same trace id.
                    is_of_run = section.run is not None and trace.trace_id == section.run.span.trace_id
                    head = f"part {_listed(numbers[id(trace)])}" if is_of_run else ""
                    yield waterfall(trace, width, self.scene, head, unfolds=choice.unfolds)
            more = len(row.traces) - len(traces)
            if more:
                how = f"show FILE {number} --all" if choice.number else f"show FILE {number}"
                line = f"{plural(more, 'more trace')} of part {number}; {how} draws all"
                yield [[(text, Style.DIM)] for text in broken(line, width)]

    def _slowest(self, most: int, width: int) -> Iterator[Iterable[Line]]:
        """The spans that ran longest while nothing inside them did, with the spans around them."""
        nodes = [node for section in self.sections for trace in section.traces for node in trace.nodes()]
        whole_ns = covered_ns(nodes)
        ranked = sorted(
            (node for node in nodes if not (node.is_stand_in or is_wait(node))),
            key=lambda node: node.self_ns(),
            reverse=True,
        )
        yield [_slow_line(node, whole_ns, width) for node in ranked[:most]]


def rows_of(section: Section, choice: DrawingOptions) -> list[tuple[int, Compiled]]:
    """The rows of a section that are wanted, with their numbers."""
    rows = [(number, row) for number, row in section.rows if _is_wanted(number, row, choice)]
    if not rows and section.run is None and choice.number is None and not choice.only_errors:
        return list(section.rows)  # imports alone, which no split of the time has
    return rows


def title_of(section: Section, width: int) -> Iterator[Line]:
    """The lines that name a run: its trace, service, date and how it ended. None for traces of no run."""
    run = section.run
    if run is not None:
        resource = next((member.roots[0].span.resource for member in run.members), run.span.resource)
        ended = "".join(fact.text for fact in _labels.exit_of(run.span))
        yield from title(f"trace {run.span.trace_id}", resource, run.span.start_ns, ended, width)


def _slow_line(node: Node, whole_ns: int, width: int) -> Line:
    path: list[str] = []
    above = node.parent
    while above is not None and len(path) < _MOST_AROUND:
        path.append(_labels.short(above.span))
        above = above.parent
    path += ["…"] if above is not None else []
    own = node.self_ns()
    begin = f"{duration(own):>9} {share(own, whole_ns):>5}  "
    around = f"  in {' → '.join(reversed(path))}" if path else ""
    name = shorten(_text(node), width - cells(begin))
    return [
        (begin, Style.PLAIN),
        (name, Style.STRONG),
        (shorten(around, width - cells(begin) - cells(name)), Style.DIM),
    ]


def _text(node: Node) -> str:
    return _labels.SEPARATOR.join(filter(None, _labels.label(node)))


def _is_wanted(number: int, row: Compiled, choice: DrawingOptions) -> bool:
    """Whether the row is drawn. Rows of imports alone are, where all are: the split of the time has their sum."""
    if choice.number is not None:
        return choice.number == number
    if choice.only_errors:
        return row.has_errors
    return choice.unfolds or not row.is_import


def _of_row(row: Compiled, choice: DrawingOptions) -> list[Trace]:
    if choice.unfolds or choice.draws_all:
        return row.traces
    return row.traces[:MOST_PARTS] if choice.number else [row.worst()]


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers[:3])) + (", …" if len(numbers) > 3 else "")
