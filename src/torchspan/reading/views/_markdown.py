# SPDX-License-Identifier: Apache-2.0
"""The answers as Markdown, for a comment or the summary of a job."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from torchspan.reading.answers._compiled import Compiled
from torchspan.reading.answers._time_split import TimeSplit
from torchspan.reading.answers.drawing import Drawing, DrawingOptions, Section, rows_of, title_of
from torchspan.reading.answers.first_screen import MOST_ROWS, Rest, heading, said_of
from torchspan.reading.answers.lines import Code, Line
from torchspan.reading.answers.units import plural, times

MOST_LINES = 60
_LONGEST = 300
"""Characters of a line. Names and messages of a file may be longer."""
_MARKUP = re.compile(r"([\\`*_\[\]<>|~&$]|:(?=//))")
"""What Markdown takes for markup, a link or an entity. Lines begin with words of torchspan's."""
_REFERENCES = re.compile(r"(@|#|www(?=\.))")
"""What a site that shows it takes for a mention, the number of an issue or a link, even behind a backslash."""


def markdown(drawing: Drawing) -> str:
    """The answers, in at most `MOST_LINES` lines.

    Names and messages are escaped: none of them is markup, a link or a mention.
    """
    return cut_off([line for section in drawing.sections for line in _section(section)], "torchspan show FILE")


def cut_off(lines: Sequence[str], command: str) -> str:
    """The first `MOST_LINES` lines as one text, which ends with the command that has all if there are more."""
    if len(lines) > MOST_LINES:
        rest = len(lines) - MOST_LINES + 2
        lines = [*lines[: MOST_LINES - 2], "", f"{plural(rest, 'more line')}: `{command}` has all"]
    return "\n".join(lines) + "\n"


def _section(section: Section) -> Iterator[str]:
    rows = rows_of(section, DrawingOptions())
    for line in title_of(section, _LONGEST):
        yield f"**{escaped(_text(line))}**"
    yield ""
    if rows:
        yield from _table(rows)
    if section.run is not None:
        yield from (f"{escaped(sentence)}  " for sentence in TimeSplit.of(section.run).sentences())
        yield ""


def _table(rows: Sequence[tuple[int, Compiled]]) -> Iterator[str]:
    shown, rest = rows[:MOST_ROWS], Rest.of(rows[MOST_ROWS:])
    whole_ns = sum(row.ns for _, row in rows)
    yield f"| | {heading(rows)} | times | time | outcome |"
    yield "|---|---|---|---|---|"
    for number, row in shown:
        place = f" {escaped(row.place)}" if row.place else ""
        outcome = escaped(row.outcome)
        yield f"| {number} | **{escaped(row.name)}**{place} | {times(row.count)} | {row.time} | {outcome} |"
    if rest is not None:
        yield f"| | {rest.summary} | {rest.times} | {rest.time} | |"
    yield ""
    for number, row in shown:
        for paragraphs, _ in said_of(row, number, whole_ns, whole=False):
            for paragraph in paragraphs:
                yield f"- {number}: {' '.join(map(_word, paragraph))}"
    yield ""


def _word(piece: str) -> str:
    return f"`{piece.replace('`', '')}`" if isinstance(piece, Code) else escaped(piece)


def _text(line: Line) -> str:
    return "".join(text for text, _ in line).rstrip()


def escaped(text: str) -> str:
    """The text as Markdown that shows it: no markup, link or mention, at most 300 characters."""
    shown = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
    return _REFERENCES.sub(r"\1<!-- -->", _MARKUP.sub(r"\\\1", shown))
