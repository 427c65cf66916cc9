# SPDX-License-Identifier: Apache-2.0
"""What was observed: the distinct shapes of calls with their counts, in bounded memory, from any thread."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from torchspan.base.forks import renewed
from torchspan.inputs.observed.leaves import Constant, Leaf, Path, TensorShape
from torchspan.inputs.observed.trees import Tree, leaves, shape_key

SHAPES_LIMIT = 1_024
"""Distinct shapes of calls that are kept. Of other calls only the ranges of sizes are."""

PATHS_LIMIT = 4_096
"""Paths of leaves whose ranges are kept for calls beyond `SHAPES_LIMIT`."""

VALUES_LIMIT = 32
"""Distinct values of one constant that are counted."""


@dataclass(slots=True)
class ModuleCall:
    """One call, without its tensors.

    Args:
        arguments: By name.
        by_keyword: The names of those that came by keyword.
        number: The how-manieth call that returned.
    """

    arguments: dict[str, Tree]
    by_keyword: frozenset[str]
    number: int = -1

    def without(self, removed: frozenset[str]) -> ModuleCall:
        """The call without these arguments."""
        if not removed:
            return self
        arguments = {name: tree for name, tree in self.arguments.items() if name not in removed}
        return replace(self, arguments=arguments, by_keyword=self.by_keyword - removed)

    def key(self) -> Hashable:
        """Equal for calls of one shape."""
        return frozenset(part for name, tree in self.arguments.items() for part in shape_key(tree, (name,)))

    def leaves(self) -> list[tuple[Path, Leaf]]:
        """Its leaves, in the order of the arguments."""
        return [leaf for name, tree in self.arguments.items() for leaf in leaves(tree, (name,))]


@dataclass(slots=True)
class ObservedShape:
    """Calls with the same shapes, types and structure.

    Args:
        first: One of them.
        count: How many.
        constants: The values of their constants, by path, with counts.
    """

    first: ModuleCall
    count: int = 0
    constants: dict[Path, Counter[Hashable]] = field(default_factory=dict)


@dataclass(slots=True)
class Ranges:
    """Sizes of one tensor in calls that are not kept: by number of dimensions, the count and the bounds of each size."""

    by_rank: dict[int, tuple[int, list[int], list[int]]] = field(default_factory=dict)
    dtypes: Counter[Any] = field(default_factory=Counter)

    def add(self, leaf: TensorShape, count: int = 1) -> None:
        """Add one tensor, of so many calls."""
        self.dtypes[leaf.dtype] += count
        self.widen(len(leaf.shape), count, leaf.shape, leaf.shape)

    def widen(self, rank: int, count: int, low: Sequence[int], high: Sequence[int]) -> None:
        """Add tensors with this many dimensions, whose sizes are in these bounds."""
        entry_counts, lowest, highest = self.by_rank.get(rank, (0, list(low), list(high)))
        lowest, highest = [*map(min, lowest, low)], [*map(max, highest, high)]
        self.by_rank[rank] = (entry_counts + count, lowest, highest)

    def copy(self) -> Ranges:
        """The ranges as they are now."""
        by_rank = {rank: (count, [*low], [*high]) for rank, (count, low, high) in self.by_rank.items()}
        return Ranges(by_rank, Counter(self.dtypes))


@dataclass(slots=True)
class CallCounts:
    """How many calls were seen, by what happened to them."""

    completed: int = 0
    failed: int = 0
    unfit: int = 0
    symbolic: int = 0
    too_large: int = 0
    errors: int = 0
    beyond_limit: int = 0
    """Completed calls of which only ranges are kept."""


class ObservedCalls:
    """Everything that one observer has seen. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = renewed(threading.RLock())
        self._shapes: dict[Hashable, ObservedShape] = {}
        self._ranges: dict[Path, Ranges] = {}
        self._by_keyword: set[str] = set()
        self._counts = CallCounts()

    def skipped(self, kind: str) -> None:
        """Count a call that is not recorded: a name of a field of `Counts`."""
        with self._lock:
            setattr(self._counts, kind, getattr(self._counts, kind) + 1)

    def ended(self, call: ModuleCall) -> None:
        """Record a call that returned."""
        key = call.key()
        with self._lock:
            call.number = self._counts.completed
            self._counts.completed += 1
            self._by_keyword |= call.by_keyword
            shape = self._shapes.get(key)
            if shape is None and len(self._shapes) < SHAPES_LIMIT:
                shape = self._shapes[key] = ObservedShape(call)
            if shape is None:
                self._widen(call)
            else:
                shape.count += 1
                _count_constants(shape, call)

    def _widen(self, call: ModuleCall) -> None:
        self._counts.beyond_limit += 1
        for path, leaf in call.leaves():
            if isinstance(leaf, TensorShape) and (path in self._ranges or len(self._ranges) < PATHS_LIMIT):
                self._ranges.setdefault(path, Ranges()).add(leaf)

    def snapshot(self) -> Snapshot:
        """What has been observed until now; it does not change."""
        with self._lock:
            return Snapshot(
                shapes=[
                    ObservedShape(
                        shape.first, shape.count, {path: Counter(values) for path, values in shape.constants.items()}
                    )
                    for shape in self._shapes.values()
                ],
                ranges={path: ranges.copy() for path, ranges in self._ranges.items()},
                by_keyword=frozenset(self._by_keyword),
                counts=CallCounts(**{name: getattr(self._counts, name) for name in CallCounts.__slots__}),
            )

    @property
    def completed(self) -> int:
        """How many recorded calls returned."""
        return self._counts.completed

    @property
    def errors(self) -> int:
        """How many calls were not recorded because torchspan failed."""
        return self._counts.errors


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What `ObservedCalls` had at one moment."""

    shapes: list[ObservedShape]
    ranges: dict[Path, Ranges]
    by_keyword: frozenset[str]
    counts: CallCounts


def _count_constants(shape: ObservedShape, call: ModuleCall) -> None:
    for path, leaf in call.leaves():
        if isinstance(leaf, Constant):
            values = shape.constants.setdefault(path, Counter())
            distinct = leaf.distinct
            if distinct in values or len(values) < VALUES_LIMIT:
                values[distinct] += 1
