# SPDX-License-Identifier: Apache-2.0
"""The first screen: a row for everything that was compiled, with what happened and the change to make."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from torchspan.reading.answers._cache_answer import together as cache_together
from torchspan.reading.answers._compiled import Compiled
from torchspan.reading.answers._device_times import gpu_times, layer_times
from torchspan.reading.answers._fallback_answer import together, without_effect
from torchspan.reading.answers._kinds_of_answer import Answer, CacheResult, Failure, Fallback
from torchspan.reading.answers._operator_rows import has_operators, operators_text
from torchspan.reading.answers._stages import LARGEST, covered_ns
from torchspan.reading.answers._wording import listed, words
from torchspan.reading.answers.lines import Line, Paragraph, Style, broken, cells, flowed, pad, shorten
from torchspan.reading.answers.units import duration, plural, times

MOST_ROWS = 10
_OPERATORS_ROOM = 120
"""Columns for the operators of a row: two lines."""
_MOST_FINDINGS = 8
"""Of a row; the others are counted."""
_NUMBER, _TIMES, _TIME, _NARROWEST = 3, 6, 10, 24
_TITLE, _TITLE_OF_OTHERS = "what was compiled", "what was recorded"
_CACHES = {"aotautograd": "AOTAutograd's", "inductor": "Inductor's"}
_NOTABLE = 0.1
"""The share of the time of all rows from which on a row says where its time went."""
Styled = tuple[tuple[Paragraph, ...], Style]
"""The paragraphs of one finding."""


def table(rows: Sequence[tuple[int, Compiled]], width: int, *, whole: bool = False) -> Iterator[Line]:
    """The lines of numbered rows: the first `MOST_ROWS` with what happened, the rest summed.

    Args:
        whole: Every row, with everything that happened.
    """
    shown = rows if whole else rows[:MOST_ROWS]
    if not shown:
        return
    rest = Rest.of(rows[len(shown) :])
    columns = _Columns.of(shown, width, rest)
    yield [
        (f"{columns.indent}{pad(heading(rows), columns.name)}{'times':>{columns.times}}{'time':>{_TIME}}", Style.DIM)
    ]
    whole_ns = sum(row.ns for _, row in rows)
    for number, row in shown:
        yield from _row(number, row, columns, width)
        for paragraphs, style in said_of(row, number, whole_ns, whole=whole):
            for text in (text for paragraph in paragraphs for text in flowed(paragraph, width - columns.number)):
                yield [(columns.indent, Style.PLAIN), (text, style)]
    if rest is not None:
        end = columns.end(rest.times, rest.time)
        yield [(f"{columns.indent}{pad(shorten(rest.summary, columns.name), columns.name)}{end}", Style.PLAIN)]


@dataclass(frozen=True)
class Rest:
    """What the table says of the rows after the first `MOST_ROWS`, in words: which there are, how often and how long."""

    summary: str
    times: str
    time: str

    @classmethod
    def of(cls, rows: Sequence[tuple[int, Compiled]]) -> Rest | None:
        """That of rows with their numbers; None without a row."""
        if not rows:
            return None
        summary = f"… {len(rows)} more, {rows[0][0]} to {rows[-1][0]}"
        return cls(summary, times(sum(row.count for _, row in rows)), duration(sum(row.ns for _, row in rows)))


def heading(rows: Sequence[tuple[int, Compiled]]) -> str:
    """What the column of the names is called."""
    return _TITLE if any(row.is_compilation for _, row in rows) else _TITLE_OF_OTHERS


def said_of(row: Compiled, number: int, whole_ns: int, *, whole: bool) -> Iterator[Styled]:
    """What the table says below a row: the findings, the worst first, the slowest engine, times on the device, operators and the
    longest stages.

    Args:
        number: The row's number.
        whole_ns: The time of all rows, in nanoseconds.
        whole: Whether all findings are said. Otherwise those after the first few are counted.
    """
    yield from _first(row, number, None if whole else _MOST_FINDINGS)
    said = (*without_effect(row.every), *_slowest_engine(row), *_on_device(row), *_operators(row))
    yield (*said, *_longest_stages(row, whole_ns)), Style.PLAIN


@dataclass(frozen=True)
class _Columns:
    """How wide the columns are: those of the number, the name and how often."""

    number: int
    name: int
    times: int

    @classmethod
    def of(cls, rows: Sequence[tuple[int, Compiled]], width: int, rest: Rest | None) -> _Columns:
        """The columns of rows, and of the line of further rows: outcomes have room where that is possible."""
        summary, in_rest = ("", "") if rest is None else (rest.summary, rest.times)
        number = max(_NUMBER, *(len(str(number)) + 1 for number, _ in rows))
        often = max(_TIMES, cells(in_rest) + 1, *(cells(times(row.count)) + 1 for _, row in rows))
        fixed = number + often + _TIME
        short = [cells(row.outcome) for _, row in rows if cells(row.outcome) <= width - fixed - 2 - _NARROWEST]
        room = width - fixed - 2 - max(short, default=0)  # longer outcomes have lines of their own
        wanted = max(len(_TITLE), cells(summary), *(cells(_name(row)) for _, row in rows))
        return cls(number, min(wanted, max(room, min(_NARROWEST, width - fixed))), often)

    @property
    def indent(self) -> str:
        return " " * self.number

    def end(self, often: str, time: str) -> str:
        """How often and how long; the longest lower bounds need the space of `≥ ` and a column of the other number."""
        shown = f" {time:>{_TIME - 1}}" if cells(time) < _TIME else f" {time.replace('≥ ', '≥')}"
        return f"{often:>{self.times + _TIME - cells(shown)}}{shown}"


def _name(row: Compiled) -> str:
    return f"{row.name}  {row.place}" if row.place else row.name


def _row(number: int, row: Compiled, columns: _Columns, width: int) -> Iterator[Line]:
    style = Style.ERROR if row.has_errors else Style.STRONG
    name = pad(shorten(_name(row), columns.name), columns.name)
    end = columns.end(times(row.count), row.time)
    begin, indent = pad(f"{number}", columns.number), columns.indent
    if cells(f"{begin}{name}{end}  {row.outcome}") <= width:
        yield [(begin, Style.DIM), (name, style), (f"{end}  {row.outcome}".rstrip(), Style.PLAIN)]
    else:
        yield [(begin, Style.DIM), (name, style), (end, Style.PLAIN)]
        yield from ([(f"{indent}{piece}", Style.PLAIN)] for piece in broken(row.outcome, width - columns.number))


def _first(row: Compiled, number: int, most: int | None) -> Iterator[Styled]:
    """The first `most` findings; the others are counted."""
    findings = list(_counted(_said(row.findings, row.name)))
    if most is None or len(findings) <= most:
        yield from findings
        return
    yield from findings[: most - 1]
    more = plural(len(findings) - most + 1, "further finding")
    yield (words(f"{more}; show FILE {number} has all"),), Style.PLAIN


def _counted(findings: Iterable[Styled]) -> Iterator[Styled]:
    """The findings, equal ones once with how often they occur."""
    for ((first, *details), style), count in Counter(findings).items():
        yield ((*first, times(count)) if count > 1 else first, *details), style


def _without_name(paragraph: Paragraph, name: str) -> Paragraph:
    """The paragraph without `in` and the name of the row, unless it goes on to say which line of it."""
    for index in range(1, len(paragraph) - 1):
        says_line = paragraph[index + 2 : index + 3] == ("from",)
        if paragraph[index] == "in" and paragraph[index + 1] in {name, f"{name}:"} and not says_line:
            colon = ":" if paragraph[index + 1].endswith(":") else ""
            return (*paragraph[: index - 1], f"{paragraph[index - 1]}{colon}", *paragraph[index + 2 :])
    return paragraph


def _said(findings: Sequence[Answer], name: str) -> Iterator[Styled]:
    """What the findings of a row with this name say, operators that fell back for one reason together."""
    reasons: dict[Paragraph, list[Fallback]] = {}
    caches: dict[str, list[CacheResult]] = {}
    for finding in findings:
        if isinstance(finding, Fallback):
            reasons.setdefault(_reason(finding), []).append(finding)
        elif isinstance(finding, CacheResult):
            caches.setdefault(finding.cache, []).append(finding)
    for finding in findings:
        if isinstance(finding, Fallback):
            same = reasons.pop(_reason(finding), None)
            if same is not None:
                yield (("in", "PyTorch:", *together(same)), *finding.details), Style.FALLBACK
        elif isinstance(finding, Failure) and not finding.is_caught:
            yield tuple(filter(None, (finding.sentence_pieces, *finding.details, finding.remedy_pieces))), Style.ERROR
        elif not isinstance(finding, CacheResult):
            yield (_without_name(finding.paragraph, name), *finding.details), Style.FALLBACK
    for cache, results in caches.items():
        yield ((*words(f"{_CACHES.get(cache, cache)} cache:"), *cache_together(results)),), Style.PLAIN


def _reason(finding: Fallback) -> Paragraph:
    """Why it fell back, in words."""
    return finding.sentence_pieces[1:] if finding.operator else finding.sentence_pieces


def _slowest_engine(row: Compiled) -> Iterator[Paragraph]:
    if len(row.engines) > 1:
        slowest = row.engines[0].sentence.removeprefix(f"{row.name} · ")
        yield words(f"slowest of {len(row.engines)} engines: {slowest}")


def _on_device(row: Compiled) -> Iterator[Paragraph]:
    """The engines and graphs that took most of the device's time, and the slowest layer of those that TensorRT timed."""
    times = gpu_times(row.every)
    yield from (runs.sentence_pieces for runs in times[:LARGEST])
    if len(times) > LARGEST:
        yield words(f"{len(times) - LARGEST} more with times on the device")
    slowest = max(layer_times(row.every), key=lambda layer: layer.s, default=None)
    if slowest is not None:
        yield ("slowest", "layer:", *slowest.sentence_pieces)


def _operators(row: Compiled) -> Iterator[Paragraph]:
    nodes = [node for node in row.every if has_operators(node.span)]
    text = operators_text([node.span for node in nodes], _OPERATORS_ROOM, covered_ns(nodes))
    if text:
        yield ("operators:", *words(text))


def _longest_stages(row: Compiled, whole_ns: int) -> Iterator[Paragraph]:
    """The stages that took longest.

    Nothing for a row that took little of the time, and for one whose own line says it.
    """
    if len(row.every) < len(row.nodes) + 1 or row.ns < _NOTABLE * whole_ns:
        return
    work = [stage for stage in row.stages if not stage.in_workers][:LARGEST]
    in_workers = [stage for stage in row.stages if stage.in_workers][:1]
    said = [f"{stage.name} {duration(stage.s * 1e9)}" for stage in work]
    said += [f"in workers {stage.name} {duration(stage.s * 1e9)}" for stage in in_workers]
    if said:
        yield ("time:", *listed(said))
