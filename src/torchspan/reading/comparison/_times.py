# SPDX-License-Identifier: Apache-2.0
"""The time of a compilation on both sides: the whole and its parts, each with what can be said of the difference."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from torchspan.reading.answers import _labels
from torchspan.reading.answers._attributes import number, strings
from torchspan.reading.answers._compiled import Compiled
from torchspan.reading.answers.units import plural
from torchspan.reading.comparison._exact_test import FEWEST, LEVEL, after_holm, p_value, ratio_interval
from torchspan.reading.traces import Node, Span, at_or_below, length_ns, own_intervals
from torchspan.words import phase, semconv

Path = tuple[str, ...]
"""The stages around a part, outermost first, without the work itself; empty for what is in no stage."""

_CONVERSIONS = frozenset(row.name for row in phase.CONVERSIONS)
_DEEPEST = 64
"""Stages of a path. What lies deeper belongs to the last one."""


def time_parts(tops: Iterable[Node]) -> dict[Path, int]:
    """Nanoseconds of each part of some work: the time in which its spans ran and nothing inside them did.

    They add up to the time of the work, unless several ran at the same time. What the stand-in for a GPU did is left out.

    Args:
        tops: The outermost spans of the work.

    Returns:
        The parts by the stages around them: equal stages in one place are one part, engines distinguished by `engine_key`.
    """
    every: list[Node] = []
    paths: dict[int, Path] = {}
    for top in tops:
        paths[id(top)] = ()
        for node in top.below():
            every.append(node)
            if node is not top:
                around = paths[id(node.parent)]
                paths[id(node)] = around if len(around) == _DEEPEST else (*around, _stage(node.span))
    parts: defaultdict[Path, int] = defaultdict(int)
    left_out = at_or_below(every, lambda node: node.is_stand_in)
    own = own_intervals(every)
    for node in every:
        own_ns = length_ns(own[id(node)])
        if own_ns and id(node) not in left_out:
            _add_steps(parts, paths[id(node)], node.span, own_ns)
    return dict(parts)


def engine_key(span: Span) -> str:
    """`2 ops [1, 3, 16, 16]`: what an engine is, whatever its name; empty for other spans."""
    if span.name not in _CONVERSIONS:
        return ""
    operators = number(span.attributes, semconv.ENGINE_OPERATORS)
    shapes = ", ".join(strings(span.attributes, semconv.INPUT_SHAPES))
    return " ".join(filter(None, ["" if operators is None else plural(int(operators), "op"), shapes]))


def _stage(span: Span) -> str:
    return " ".join(filter(None, [_labels.short(span), engine_key(span)]))


def _add_steps(parts: defaultdict[Path, int], path: Path, span: Span, own_ns: int) -> None:
    """Add the own time of a span: its steps, the converters that it names, and the rest."""
    steps, rest_ns = _labels.split(span, own_ns)
    for step in steps:
        inside = (*path, step.name)
        parts[inside] += step.ns
    parts[path] += rest_ns


# --- both sides -----------------------------------------------------------------------------------------------------
_MOST_PARTS = 12
_REST, _NOTHING_S = 0.05, 0.001
"""How much of the difference the parts that are not shown may make, and the seconds that never matter."""


@dataclass(frozen=True)
class TimeRow:
    """The times of the whole, or of one part of it.

    Attributes:
        path: The stages around the part, outermost first; empty for the whole.
        base_s: Seconds of the median run of the first side, by the time of the whole; the lower of two.
        new_s: Seconds of the median run of the second side.
        base_runs_s: Seconds of each run of the first side.
        new_runs_s: Seconds of each run of the second side.
        p: The probability that chance alone makes such a difference, after Holm's correction over the rows that are judged;
            None with fewer than 4 runs a side, of the rest, and of rows that the runs are too few to judge.
        ratio: The 95 % interval of new to base; None with fewer than 4 runs a side.
    """

    path: Path
    base_s: float
    new_s: float
    base_runs_s: tuple[float, ...]
    new_runs_s: tuple[float, ...]
    p: float | None = None
    ratio: tuple[float, float] | None = None

    @property
    def difference_s(self) -> float:
        """How much longer the second side took, in seconds."""
        return self.new_s - self.base_s

    @property
    def is_different(self) -> bool:
        """Whether the difference is more than chance makes."""
        return self.p is not None and self.p < LEVEL


class PairTimes:
    """The times of one compilation on both sides.

    Args:
        base: The compilation in each run of the first side that has it.
        new: That of the second side.
    """

    def __init__(self, base: Sequence[Compiled], new: Sequence[Compiled]) -> None:
        self._base, self._new = ([time_parts(work.nodes) for work in side] for side in (base, new))
        wholes = [[work.ns / 1e9 for work in side] for side in (base, new)]
        self._base_median, self._new_median = (times.index(statistics.median_low(times)) for times in wholes)
        paths = dict.fromkeys(path for run in (*self._base, *self._new) for path in run)
        self._paths = list(paths)
        self.whole = tested(self._row((), *wholes))
        medians = base[self._base_median], new[self._new_median]
        self.processor_s = [sum(_processor_s(work)) for work in medians]

    def row(self, name: Path, paths: Collection[Path]) -> TimeRow:
        """The row of some parts together, without p and ratio.

        Args:
            name: The path of the row.
            paths: The parts.
        """
        base, new = (
            [sum(run.get(path, 0) for path in paths) / 1e9 for run in side] for side in (self._base, self._new)
        )
        return self._row(name, base, new)

    def _row(self, name: Path, base: Sequence[float], new: Sequence[float]) -> TimeRow:
        return TimeRow(name, base[self._base_median], new[self._new_median], tuple(base), tuple(new))

    def shown_parts(self) -> list[TimeRow]:
        """The parts that differ most between the two median runs, and the rest, which makes at most 5 % of the difference.

        They add up to the difference of the whole, unless several ran at the same time. What only one of the runs has is one part with everything inside it. No part is
        shown if none differs by a millisecond.
        """
        parts = self._compared_parts()
        rows = sorted((self.row(*part) for part in parts.items()), key=lambda row: -abs(row.difference_s))
        left_s = sum(row.difference_s for row in rows)
        shown: list[TimeRow] = []
        for row in rows[:_MOST_PARTS]:
            is_enough = abs(left_s) <= max(_REST * abs(self.whole.difference_s), _NOTHING_S)
            if abs(row.difference_s) < _NOTHING_S or (is_enough and shown):
                break
            shown.append(row)
            left_s -= row.difference_s
        rest = [path for row in rows[len(shown) :] for path in parts[row.path]]
        of_rest = [self.row(("rest",), rest)] if shown and rest else []
        return [*map(tested, shown), *of_rest]

    def _compared_parts(self) -> dict[Path, list[Path]]:
        """The paths of all runs by the part that they are compared as."""
        before, after = (
            {path[:length] for path in median for length in range(len(path) + 1)}
            for median in (self._base[self._base_median], self._new[self._new_median])
        )
        parts: defaultdict[Path, list[Path]] = defaultdict(list)
        for path in self._paths:
            around = (path[:length] for length in range(len(path) + 1))
            parts[next((part for part in around if (part in before) != (part in after)), path)].append(path)
        return parts

    def stage_row(self, stage: str) -> TimeRow | None:
        """The row of a stage with everything inside it; None if there is none of this name."""
        paths = [path for path in self._paths if any(part.split(" ")[0] == stage or part == stage for part in path)]
        return tested(self.row((stage,), paths)) if paths else None

    def stages(self) -> list[str]:
        """The names of the outermost stages."""
        return list(dict.fromkeys(path[0].split(" ")[0] for path in self._paths if path))


def tested(row: TimeRow) -> TimeRow:
    """The row with p and ratio, if there are enough runs."""
    if min(len(row.base_runs_s), len(row.new_runs_s)) < FEWEST:
        return row
    positive = ([max(s, 1e-9) for s in side] for side in (row.base_runs_s, row.new_runs_s))
    return dataclasses.replace(row, p=p_value(row.base_runs_s, row.new_runs_s), ratio=ratio_interval(*positive))


def _processor_s(work: Compiled) -> Iterator[float]:
    return filter(None, (number(node.span.attributes, semconv.CPU_PROCESS_TIME) for node in work.nodes))


def judged(rows: Sequence[TimeRow]) -> list[TimeRow]:
    """The rows with their p after Holm's correction.

    Only as many of the first rows are judged as could all be different: one row with 4 runs a side, 6 with 5 and 23 with 6.
    """
    p_values = [row.p for row in rows if row.p is not None]
    runs = min((min(len(row.base_runs_s), len(row.new_runs_s)) for row in rows if row.p is not None), default=0)
    most = max(int(LEVEL * math.comb(2 * runs, runs) / 2), 1)
    after = iter(after_holm(p_values[:most]))
    return [dataclasses.replace(row, p=None if row.p is None else next(after, None)) for row in rows]
