# SPDX-License-Identifier: Apache-2.0
"""The first screen: a row for everything that was compiled, with what happened and the change to make."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from torchspan.answers._answer import listed, words
from torchspan.answers._cache_answer import together as cache_together
from torchspan.answers._compiled import Compiled
from torchspan.answers._fallback_answer import together
from torchspan.answers._findings import CacheResult, Failure, Fallback, Finding
from torchspan.answers._stages import NOTABLE, NOTABLE_NS
from torchspan.answers.lines import Line, Paragraph, Style, broken, cells, flowed, pad, shorten
from torchspan.answers.units import duration, plural, times

MOST_ROWS = 10
_MOST_PARAGRAPHS = 6
"""Of a row; the others are counted."""
_TIMES, _TIME, _NARROWEST = 6, 10, 24
_INDENT = "   "
_TITLE, _TITLE_OF_OTHERS = "what was compiled", "what was recorded"
_LARGEST = 3
"""Stages that a row names."""


def table(rows: Sequence[tuple[int, Compiled]], width: int, *, whole: bool = False) -> Iterator[Line]:
    """The lines of numbered rows: the first `MOST_ROWS` with what happened, the rest summed.

    Args:
        whole: Every row, with everything that happened.
    """
    shown = rows if whole or len(rows) <= MOST_ROWS else rows[:MOST_ROWS]
    if not shown:
        return
    columns = _columns([row for _, row in shown], width)
    heading = _TITLE if any(row.is_compilation for _, row in rows) else _TITLE_OF_OTHERS
    yield [(f"{_INDENT}{pad(heading, columns)}{'times':>{_TIMES}}{'time':>{_TIME}}", Style.DIM)]
    for number, row in shown:
        yield from _row(number, row, columns, width, whole=whole)
    rest = rows[len(shown) :]
    if rest:
        ns = sum(row.ns for _, row in rest)
        text = f"… {len(rest)} more, {rest[0][0]} to {rest[-1][0]}"
        count = times(sum(row.count for _, row in rest))
        yield [(f"{_INDENT}{pad(text, columns)}{count:>{_TIMES}}{duration(ns):>{_TIME}}", Style.PLAIN)]


def _columns(rows: Sequence[Compiled], width: int) -> int:
    """Columns of the names, so that the outcomes have room where that is possible."""
    fixed = len(_INDENT) + _TIMES + _TIME
    room = width - fixed - 2 - max(cells(row.outcome) for row in rows)
    return min(max(len(_TITLE), *(cells(_name(row)) for row in rows)), max(room, min(_NARROWEST, width - fixed)))


def _name(row: Compiled) -> str:
    return f"{row.name}  {row.place}" if row.place else row.name


def _row(number: int, row: Compiled, columns: int, width: int, *, whole: bool) -> Iterator[Line]:
    style = Style.ERROR if row.has_errors else Style.STRONG
    name = shorten(_name(row), columns)
    line = f"{times(row.count):>{_TIMES}}{row.time:>{_TIME}}"
    begin = pad(f"{number}", len(_INDENT))
    if cells(f"{begin}{pad(name, columns)}{line}  {row.outcome}") <= width:
        yield [(begin, Style.DIM), (pad(name, columns), style), (f"{line}  {row.outcome}".rstrip(), Style.PLAIN)]
    else:
        yield [(begin, Style.DIM), (pad(name, columns), style), (line, Style.PLAIN)]
        yield from ([(f"{_INDENT}{piece}", Style.PLAIN)] for piece in broken(row.outcome, width - len(_INDENT)))
    paragraphs = list(_counted(_paragraphs(row.findings)))
    if not whole and len(paragraphs) > _MOST_PARAGRAPHS:
        more = plural(len(paragraphs) - _MOST_PARAGRAPHS + 1, "further finding")
        paragraphs[_MOST_PARAGRAPHS - 1 :] = [(words(f"{more}; show FILE {number} has all"), Style.PLAIN)]
    paragraphs += [(paragraph, Style.PLAIN) for paragraph in (*_slowest_engine(row), *_longest_stages(row))]
    for paragraph, style in paragraphs:
        for text in flowed(_without_name(paragraph, row.name), width - len(_INDENT)):
            yield [(_INDENT, Style.PLAIN), (text, style)]


def _counted(paragraphs: Iterable[tuple[Paragraph, Style]]) -> Iterator[tuple[Paragraph, Style]]:
    """The paragraphs, equal ones once with how often they occur."""
    counts = Counter(paragraphs)
    for (paragraph, style), count in counts.items():
        yield (*paragraph, times(count)) if count > 1 else paragraph, style


def _without_name(paragraph: Paragraph, name: str) -> Paragraph:
    """The paragraph without `in` and the name of the row."""
    for index in range(1, len(paragraph) - 1):
        if paragraph[index] == "in" and paragraph[index + 1] in {name, f"{name}:"}:
            colon = ":" if paragraph[index + 1].endswith(":") else ""
            return (*paragraph[: index - 1], f"{paragraph[index - 1]}{colon}", *paragraph[index + 2 :])
    return paragraph


def _paragraphs(findings: Sequence[Finding]) -> Iterator[tuple[Paragraph, Style]]:
    """What a row says, operators that fell back for one reason together."""
    reasons: dict[str, list[Fallback]] = {}
    caches: dict[str, list[CacheResult]] = {}
    for finding in findings:
        if isinstance(finding, Fallback):
            reasons.setdefault(finding.reason, []).append(finding)
        elif isinstance(finding, CacheResult) and finding.outcome != "disabled":
            caches.setdefault(finding.cache, []).append(finding)
    for finding in findings:
        if isinstance(finding, Fallback):
            same = reasons.pop(finding.reason, None)
            if same is not None:
                yield ("in", "PyTorch:", *together(same)), Style.FALLBACK
        elif not isinstance(finding, CacheResult):
            is_error = isinstance(finding, Failure) and not finding.is_caught
            yield finding.paragraph, Style.ERROR if is_error else Style.FALLBACK
    for cache, results in caches.items():
        yield (*words(f"{cache} cache:"), *cache_together(results)), Style.PLAIN


def _slowest_engine(row: Compiled) -> Iterator[Paragraph]:
    if len(row.engines) > 1:
        slowest = row.engines[0].sentence.removeprefix(f"{row.name} · ")
        yield words(f"slowest of {len(row.engines)} engines: {slowest}")


def _longest_stages(row: Compiled) -> Iterator[Paragraph]:
    """The stages that took longest, and what would make the first of those shorter for which that is known."""
    if len(row.every) < len(row.nodes) + 1:
        return  # the row itself says it
    work = [stage for stage in row.stages if not stage.in_workers][:_LARGEST]
    in_workers = [stage for stage in row.stages if stage.in_workers][:1]
    said = [f"{stage.name} {duration(stage.s * 1e9)}" for stage in work]
    said += [f"in workers {stage.name} {duration(stage.s * 1e9)}" for stage in in_workers]
    if said:
        yield ("time:", *listed(said))
    for stage in [*work, *in_workers]:
        if stage.remedy_pieces and stage.s * 1e9 >= max(NOTABLE * row.ns, NOTABLE_NS):
            yield (f"{stage.name}:", *stage.remedy_pieces)
            return
