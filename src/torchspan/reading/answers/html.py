# SPDX-License-Identifier: Apache-2.0
"""The first screen as HTML: the table of answers, and the waterfalls as lines. It refers to nothing outside of it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from html import escape

from torchspan.reading.answers._compiled import Compiled
from torchspan.reading.answers._time_split import TimeSplit
from torchspan.reading.answers.drawing import Drawing, DrawingOptions, Section, rows_of, title_of
from torchspan.reading.answers.first_screen import MOST_ROWS, Rest, heading, said_of
from torchspan.reading.answers.lines import Code, Line, Paragraph, Style
from torchspan.reading.answers.units import times

Look = Mapping[Style, str]
"""The attribute that gives a style its look; styles without one look plain."""

IN_NOTEBOOK: Look = {
    Style.DIM: 'style="opacity:.65"',
    Style.STRONG: 'style="font-weight:bold"',
    Style.BAR: 'style="color:#0a7d91"',
    Style.STAND_IN: 'style="color:#0a7d91;opacity:.5"',
    Style.FALLBACK: 'style="color:#8a5a00"',
    Style.ERROR: 'style="color:#c5221f;font-weight:bold"',
}
ON_PAGE: Look = {style: f'class="{style.value}"' for style in Style if style is not Style.PLAIN}
"""Classes, for a page whose rules forbid attributes of style."""

WIDTH = 100
"""Columns of a waterfall."""
_BARS = frozenset("█░▏")
Link = Callable[[Compiled], str]
"""Where the name of a row leads; an empty string for a row without a link."""


def first_screen(drawing: Drawing, look: Look, link: Link | None = None) -> str:
    """The table of answers and the waterfalls of each section, as `torchspan show` draws them."""
    choice = DrawingOptions()
    parts, number = [], itertools.count(1)
    for section in drawing.sections:
        rows = rows_of(section, choice)
        blocks = drawing.waterfalls(section, rows, WIDTH, choice)
        waterfalls = (_pre(lines, look, f"waterfall {next(number)}") for lines in blocks)
        parts.append("\n".join([*_answers(section, rows, look, link), *waterfalls]))
    parts += [f"<p>{escape(' and '.join(drawing.left_out))} in the file</p>"] if drawing.left_out else []
    return "\n".join(parts)


def _answers(section: Section, rows: Sequence[tuple[int, Compiled]], look: Look, link: Link | None) -> Iterator[str]:
    yield from (f"<p>{_line(line, look)}</p>" for line in title_of(section, WIDTH))
    if rows:
        yield _table(rows, look, link)
    if section.run is not None:
        yield from (f"<p>{escape(sentence)}</p>" for sentence in TimeSplit.of(section.run).sentences())


def _table(rows: Sequence[tuple[int, Compiled]], look: Look, link: Link | None) -> str:
    whole_ns = sum(row.ns for _, row in rows)
    shown, rest = rows[:MOST_ROWS], Rest.of(rows[MOST_ROWS:])
    head = "".join(f'<th scope="col">{name}</th>' for name in ("part", heading(rows), "times", "time", "outcome"))
    lines = [f"<table><thead><tr>{head}</tr></thead>"]
    for number, row in shown:
        said = [_finding(paragraphs, style, look) for paragraphs, style in said_of(row, number, whole_ns, whole=False)]
        lines.append(f"<tbody><tr>{_cells(number, row, look, link)}</tr>")
        if any(said):
            lines.append(f'<tr><td></td><td colspan="4"><ul>{"".join(said)}</ul></td></tr>')
        lines.append("</tbody>")
    if rest is not None:
        cells = f"<td></td><td>{rest.summary}</td><td>{rest.times}</td><td>{rest.time}</td><td></td>"
        lines.append(f"<tbody><tr>{cells}</tr></tbody>")
    return "\n".join([*lines, "</table>"])


def _cells(number: int, row: Compiled, look: Look, link: Link | None) -> str:
    name = _piece(row.name, Style.ERROR if row.has_errors else Style.STRONG, look)
    target = link(row) if link is not None else ""
    name = f'<a href="{escape(target)}">{name}</a>' if target else name
    place = f" {_piece(row.place, Style.DIM, look)}" if row.place else ""
    rest = "".join(f"<td>{escape(text)}</td>" for text in (times(row.count), row.time, row.outcome))
    return f'<td>{number}</td><th scope="row">{name}{place}</th>{rest}'


def _finding(paragraphs: Sequence[Paragraph], style: Style, look: Look) -> str:
    lines = [_piece_of(" ".join(map(_word, paragraph)), style, look) for paragraph in paragraphs]
    return f"<li>{'<br>'.join(lines)}</li>" if lines else ""


def _word(piece: str) -> str:
    return f"<code>{escape(piece)}</code>" if isinstance(piece, Code) else escape(piece)


def _pre(lines: Iterable[Line], look: Look, label: str) -> str:
    text = "\n".join(_line(line, look) for line in lines)
    return f'<pre tabindex="0" role="region" aria-label="{label}">{text}\n</pre>'


def _line(line: Line, look: Look) -> str:
    return "".join(_piece(text, style, look) for text, style in line).rstrip()


def _piece(text: str, style: Style, look: Look) -> str:
    if not text.strip():
        return text
    hidden = ' aria-hidden="true"' if not _BARS.isdisjoint(text) else ""
    return _piece_of(escape(text), style, look, hidden)


def _piece_of(html: str, style: Style, look: Look, hidden: str = "") -> str:
    return f"<span {look[style]}{hidden}>{html}</span>" if style in look else html
