# SPDX-License-Identifier: Apache-2.0
"""PyTorch's operators: the tables that the spans around them carry, and their own spans, which no answer counts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from torchspan.reading.answers._attributes import numbers, strings
from torchspan.reading.answers._kinds_of_answer import OperatorTime
from torchspan.reading.answers.lines import cells, shorten
from torchspan.reading.answers.units import duration, share, times
from torchspan.reading.traces import Node, Span
from torchspan.words import phase, semconv

_BEGIN = f"{phase.OPERATOR.name} "
_COLUMNS = (
    semconv.OPERATORS_COUNTS,
    semconv.OPERATORS_DURATIONS,
    semconv.OPERATORS_SELF,
    semconv.OPERATORS_LONGEST,
)
_MOST = 40
"""Operators of one root that answers name, as many as the table of one span."""
_WORDS = {"?": "(range of the program)"}
"""What is said in place of a name that is not recorded."""


class OperatorRow(NamedTuple):
    """One operator: its name, how often it ran, seconds in all, without operators inside it, and of the longest run."""

    name: str
    runs: int = 0
    s: float = 0.0
    self_s: float = 0.0
    longest_s: float = 0.0


def is_operator(span: Span) -> bool:
    """Whether it is the span of an operator. Views draw it; it is in no tree that answers and waterfalls are made of."""
    return span.name.startswith(_BEGIN) and span.scope == semconv.SCOPE_NAME


def operator_rows(spans: Iterable[Span]) -> list[OperatorRow]:
    """The tables of all the spans as one, longest first by the time of their own.

    A table whose lists differ in length, or that a stand-in timed, is left out.
    """
    rows: dict[str, OperatorRow] = {}
    for span in spans:
        names = strings(span.attributes, semconv.OPERATORS_NAMES)
        columns = [numbers(span.attributes, key) for key in _COLUMNS] if names else []
        if any(len(column) != len(names) for column in columns) or span.attributes.get(semconv.STAND_IN) is True:
            continue
        for text, count, s, self_s, longest_s in zip(names, *columns, strict=True):
            name = _WORDS.get(text, text)
            row = rows.get(name, OperatorRow(name))
            longest = max(row.longest_s, longest_s)
            rows[name] = OperatorRow(name, row.runs + int(count), row.s + s, row.self_s + self_s, longest)
    return sorted(rows.values(), key=lambda row: -row.self_s)


def has_operators(span: Span) -> bool:
    """Whether the span carries a table that `operator_rows` reads."""
    return bool(operator_rows([span]))


def operators_text(spans: Sequence[Span], room: int, whole_ns: int) -> str:
    """The tables of the spans in at most `room` columns, with shares of `whole_ns`; empty without a table."""
    texts = [f"{row.name} {times(row.runs)} {share(row.self_s * 1e9, whole_ns)}" for row in operator_rows(spans)]
    for end in range(len(texts), 0, -1):
        more = f", {len(texts) - end} more" if end < len(texts) else ""
        text = ", ".join(texts[:end]) + more
        if cells(text) <= room:
            return text
    return shorten(texts[0], room - cells(more)) + more if texts else ""


def operator_times(nodes: Iterable[Node]) -> list[OperatorTime]:
    """The operators of each root, summed over its runs, in the order of the first runs."""
    roots: defaultdict[str, list[Span]] = defaultdict(list)
    for node in nodes:
        if semconv.OPERATORS_NAMES in node.span.attributes:
            roots[node.span.name].append(node.span)
    return [
        _answer(root, row, sum(span.duration_ns for span in spans))
        for root, spans in roots.items()
        for row in operator_rows(spans)[:_MOST]
    ]


def _answer(root: str, row: OperatorRow, whole_ns: int) -> OperatorTime:
    self_ns = row.self_s * 1e9
    return OperatorTime(
        sentence_pieces=(row.name, times(row.runs), f"in {root}:", duration(self_ns), share(self_ns, whole_ns)),
        root=root,
        name=row.name,
        count=row.runs,
        s=row.s,
        self_s=row.self_s,
        longest_s=row.longest_s,
    )
