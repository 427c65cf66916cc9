# SPDX-License-Identifier: Apache-2.0
"""PyTorch's operators below a span: the table that the span carries, as rows and as one line."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from torchspan import phase, semconv
from torchspan.answers._attributes import numbers, strings
from torchspan.answers._kinds_of_answer import OperatorTime
from torchspan.answers.units import duration, plural, share, times
from torchspan.traces import Node, Span

_MOST_NAMED = 6
"""Operators that a line names."""
_UNNAMED = "?"
"""What a table has in place of the name of a range of the program."""
_SPAN_NAME = f"{phase.OPERATOR.name} "


@dataclass(frozen=True)
class OperatorRow:
    """The runs of one operator below a span, or below several.

    Attributes:
        name: The operator, with its overload.
        count: How often it ran.
        s: Seconds, with the operators inside it.
        self_s: Seconds, without them.
        max_s: Seconds of the longest run.
    """

    name: str
    count: int
    s: float
    self_s: float
    max_s: float


def is_operator(span: Span) -> bool:
    """Whether the span is one operator."""
    return span.name.startswith(_SPAN_NAME) and span.scope == semconv.SCOPE_NAME


def without_operators(spans: Iterable[Span]) -> Iterator[Span]:
    """All other spans: what operators say in sum is on the spans around them."""
    return (span for span in spans if not is_operator(span))


def operator_rows(spans: Iterable[Span]) -> list[OperatorRow]:
    """The tables of the spans together, the longest first by the time without the operators inside."""
    by_name: defaultdict[str, list[OperatorRow]] = defaultdict(list)
    for span in spans:
        for row in _table(span):
            by_name[row.name].append(row)
    rows = [_sum(name, same) for name, same in by_name.items()]
    return sorted(rows, key=lambda row: row.self_s, reverse=True)


def operator_times(nodes: Iterable[Node]) -> list[OperatorTime]:
    """The tables of all spans, summed up by the kind of span, the longest operator of each first."""
    by_kind: defaultdict[str, list[Span]] = defaultdict(list)
    for node in nodes:
        if semconv.OPERATORS_NAMES in node.span.attributes:
            by_kind[node.span.name].append(node.span)
    return [_time(row, kind) for kind, spans in by_kind.items() for row in operator_rows(spans)]


def _time(row: OperatorRow, kind: str) -> OperatorTime:
    took = f"{duration(row.self_s * 1e9)} without what runs inside it"
    return OperatorTime(
        sentence_pieces=(row.name, f"ran {plural(row.count, 'time')}", "in", f"{kind}:", took),
        name=row.name,
        within=kind,
        count=row.count,
        s=row.s,
        self_s=row.self_s,
        max_s=row.max_s,
    )


def _table(span: Span) -> list[OperatorRow]:
    attributes = span.attributes
    names = strings(attributes, semconv.OPERATORS_NAMES)
    keys = (
        semconv.OPERATORS_COUNTS,
        semconv.OPERATORS_DURATIONS,
        semconv.OPERATORS_SELF,
        semconv.OPERATORS_LONGEST,
    )
    columns = [numbers(attributes, key) for key in keys] if names else []
    if any(len(column) != len(names) for column in columns):
        return []
    names = ["(range of the program)" if name == _UNNAMED else name for name in names]
    return [OperatorRow(name, int(count), *rest) for name, count, *rest in zip(names, *columns, strict=True)]


def _sum(name: str, rows: Sequence[OperatorRow]) -> OperatorRow:
    return OperatorRow(
        name,
        sum(row.count for row in rows),
        sum(row.s for row in rows),
        sum(row.self_s for row in rows),
        max(row.max_s for row in rows),
    )


def operators_line(spans: Sequence[Span]) -> str:
    """The operators that took longest, how often each ran, and its share of the spans' time; empty without a table."""
    rows = operator_rows(spans)
    whole_ns = sum(span.duration_ns for span in spans if semconv.OPERATORS_NAMES in span.attributes)
    named = [f"{row.name} {times(row.count)} {share(row.self_s * 1e9, whole_ns)}" for row in rows[:_MOST_NAMED]]
    more = [f"{plural(len(rows) - _MOST_NAMED, 'more name')}"] if len(rows) > _MOST_NAMED else []
    return f"Operators {', '.join([*named, *more])}" if rows and whole_ns > 0 else ""
