# SPDX-License-Identifier: Apache-2.0
"""Two sides compared: what work they share, how long it took, and what else differs."""

from __future__ import annotations

import dataclasses
import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from torchspan.reading.answers.units import times
from torchspan.reading.comparison._device_pairs import DevicePair, device_pairs
from torchspan.reading.comparison._facts import KINDS, Change, Facts, changes
from torchspan.reading.comparison._sentences import lines
from torchspan.reading.comparison._sides import (
    ComparisonError,
    Side,
    Source,
    WorkKey,
    described,
    labels,
    pairs,
    two_sides,
)
from torchspan.reading.comparison._times import PairTimes, TimeRow, judged

FORMAT = "torchspan.comparison/1"
"""The version of the document. A change of a field that its readers may notice has the next number."""
_MOST_WITH_PARTS = 3
"""Pairs whose parts are shown: those that differ most."""


@dataclass(frozen=True)
class Pair:
    """The same compilation on both sides.

    Attributes:
        name: What lines call it: `compile ConvNet`.
        whole: The time of the whole. With several compilations of one kind in a run it is their sum.
        parts: The parts that differ most and the rest; empty for pairs that differ less than others.
        times: All times of the pair; not part of the document.
    """

    name: str
    whole: TimeRow
    parts: tuple[TimeRow, ...]
    times: PairTimes = field(repr=False, compare=False)


@dataclass(frozen=True)
class Comparison:
    """Two sides compared.

    Attributes:
        base: The first side.
        new: The second side.
        pairs: The work of both sides, that which differs most first.
        changes: What else differs, likely causes first.
        device: Engines and graphs whose runs have times on the device on both sides.
    """

    base: Side
    new: Side
    pairs: tuple[Pair, ...]
    changes: tuple[Change, ...]
    device: tuple[DevicePair, ...]

    def document(self) -> dict[str, Any]:
        """All of it as one document of JSON's types.

        Returns:
            The document, with the name and version of its format under `format`. Times are seconds.
        """
        sides = {
            which: {"name": side.name, "runs": [run.name for run in side.runs], "left_out": side.left_out}
            for which, side in (("base", self.base), ("new", self.new))
        }
        compared = [
            {
                "name": pair.name,
                "processor_s": pair.times.processor_s,
                "rows": [dataclasses.asdict(row) for row in (pair.whole, *pair.parts)],
            }
            for pair in self.pairs
        ]
        rest = {name: list(map(dataclasses.asdict, getattr(self, name))) for name in ("device", "changes")}
        return {"format": FORMAT, **sides, "pairs": compared, **rest}

    def __str__(self) -> str:
        return "\n".join("".join(text for text, _ in line) for line in lines(self, 80))


def compare(base: Source, new: Source, *, texts: bool = False) -> Comparison:
    """Compare two recorded programs: where the time differs, and what else has changed.

        from torchspan import comparison

        print(comparison.compare("before.jsonl", "after.jsonl"))

    Args:
        base: The path of the first side: a file, or a folder whose files are runs of one program.
        new: The path of the second side.
        texts: Whether sentences have the whole texts of messages, if a file has them. They may have values of the program.

    Returns:
        The comparison.

    Raises:
        ComparisonError: The sides have no compilation in common, one has no run that can be compared, or runs of several programs.
        OSError: A file cannot be opened or read.
    """
    return of_sides(*two_sides(base, new, texts=texts))


def of_sides(first: Side, second: Side) -> Comparison:
    """Compare two sides that have been read. Raises ComparisonError if they have no compilation in common."""
    common = dict(pairs(first.keys, second.keys))
    if not common:
        programs = "; ".join(f"{side.name} compiled {described(side.keys)}" for side in (first, second))
        raise ComparisonError(
            f"no common compilation: {programs}; a pair has the same model or function, entry and inputs"
        )
    names = labels([*first.keys, *second.keys])
    compared = [(names[key], PairTimes(first.works(key), second.works(other))) for key, other in common.items()]
    differing = [*_changes(common, first, second, names), *_new_and_gone(common, first, second, names)]
    differing.sort(key=lambda change: (KINDS.index(change.kind), not change.is_worse))
    return Comparison(first, second, tuple(_with_parts(compared)), tuple(differing), device_pairs(first, second))


def _with_parts(compared: Iterable[tuple[str, PairTimes]]) -> Iterator[Pair]:
    """The pairs, that which differs most first, with the parts of the first ones, and what can be said of each row."""
    ranked = sorted(compared, key=lambda pair: -abs(pair[1].whole.difference_s))
    parts = [of_pair.shown_parts() if rank < _MOST_WITH_PARTS else [] for rank, (_, of_pair) in enumerate(ranked)]
    rows = iter(judged([*(of_pair.whole for _, of_pair in ranked), *itertools.chain(*parts)]))
    wholes = list(itertools.islice(rows, len(ranked)))
    for (name, of_pair), whole, shown in zip(ranked, wholes, parts, strict=True):
        yield Pair(name, whole, tuple(itertools.islice(rows, len(shown))), of_pair)


def _changes(
    common: Mapping[WorkKey, WorkKey], first: Side, second: Side, names: Mapping[WorkKey, str]
) -> Iterator[Change]:
    """What differs of all work. What differs in the same way of several compilations is said once."""
    works: defaultdict[Change, list[str]] = defaultdict(list)
    for key, other in common.items():
        for change in changes(list(map(Facts.of, first.works(key))), list(map(Facts.of, second.works(other)))):
            works[change].append(names[key])
    for change, concerned in works.items():
        yield dataclasses.replace(change, work="" if len(concerned) == len(common) else ", ".join(concerned))


def _new_and_gone(
    common: Mapping[WorkKey, WorkKey], first: Side, second: Side, names: Mapping[WorkKey, str]
) -> Iterator[Change]:
    """What was compiled on one side alone, or another number of times."""
    partners = {other: key for key, other in common.items()}
    for key in dict.fromkeys([*first.keys, *(partners.get(key, key) for key in second.keys)]):
        other = common.get(key, key)
        before, after = (
            [run.works[own].count if own in run.works else 0 for run in side.runs]
            for side, own in ((first, key), (second, other))
        )
        if not set(before) & set(after):
            yield Change("compilations", names[key], times(before[0]), times(after[0]), is_worse=after[0] > before[0])
