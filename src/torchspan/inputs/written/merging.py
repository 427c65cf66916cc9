# SPDX-License-Identifier: Apache-2.0
"""The calls that several processes observed, as if one had observed them all.

Counts, ranges and shapes add up exactly, in whatever order. Where one part has no values, the whole has none.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import replace

from torchspan.inputs.observed.leaves import Path
from torchspan.inputs.observed.observations import CallCounts, ObservedShape, Ranges, Snapshot
from torchspan.inputs.written.documents import parameters, shape_text
from torchspan.inputs.written.hidden_values import without_values
from torchspan.inputs.written.portable import Portable, named


def merged(portables: Sequence[Portable]) -> Portable:
    """All of them as one, by names.

    given: at least one. Raises ValueError where they are of several methods, or the method has several signatures.
    """
    parts = _alike(portables)
    first = parts[0]
    for part in parts[1:]:
        if part.name != first.name:
            raise ValueError(
                f"Calls of {first.name} and of {part.name} cannot be merged: they are calls of two methods. Merge the calls of each method separately."
            )
        if _signature(part) != _signature(first):
            raise ValueError(
                f"Calls of {first.name} cannot be merged: the method has different parameters, or different default values, in some of "
                "them. Observe it in one version of the program."
            )
    snapshots = [part.snapshot for part in parts]
    return replace(
        first,
        snapshot=Snapshot(
            shapes=_shapes(first, snapshots),
            calls=[],
            failed=[],
            ranges=_ranges(snapshots),
            by_keyword=frozenset().union(*(snapshot.by_keyword for snapshot in snapshots)),
            counts=CallCounts(
                **{name: sum(getattr(snapshot.counts, name) for snapshot in snapshots) for name in CallCounts.__slots__}
            ),
        ),
        absent={name: tree for part in reversed(parts) for name, tree in part.absent.items()},
        removed=frozenset().union(*(part.removed for part in parts)),
    )


def grouped(portables: Sequence[Portable]) -> list[Portable]:
    """Those of one method with one signature merged, in the order in which they come."""
    if not all(portable.has_values for portable in portables):
        portables = [without_values(portable) for portable in portables]
    groups: dict[str, list[Portable]] = {}
    for portable in portables:
        groups.setdefault(_signature(portable), []).append(portable)
    return [merged(group) for group in groups.values()]


def _signature(portable: Portable) -> str:
    """The method and its parameters, as a text."""
    return json.dumps([portable.name, parameters(named(portable).signature, portable.has_values)])


def _alike(portables: Sequence[Portable]) -> list[Portable]:
    """All named, and all with values or all without."""
    if not all(portable.has_values for portable in portables):
        portables = [without_values(portable) for portable in portables]
    return [named(portable) for portable in portables]


def _shapes(of: Portable, snapshots: Sequence[Snapshot]) -> list[ObservedShape]:
    shapes: dict[Hashable, ObservedShape] = {}
    order: dict[Hashable, tuple[int, str]] = {}
    for shape in (shape for snapshot in snapshots for shape in snapshot.shapes):
        key = shape.first.key()
        place = shape.first.number, shape_text(of, replace(shape, count=0, constants={}))
        earlier = shapes.get(key)
        if earlier is None:
            shapes[key], order[key] = _copy(shape), place
            continue
        earlier.count += shape.count
        for path, values in shape.constants.items():
            earlier.constants.setdefault(path, Counter()).update(values)
        if place < order[key]:
            earlier.first, order[key] = shape.first, place
    return [shapes[key] for key in sorted(shapes, key=lambda key: order[key])]


def _copy(shape: ObservedShape) -> ObservedShape:
    return ObservedShape(shape.first, shape.count, {path: Counter(values) for path, values in shape.constants.items()})


def _ranges(snapshots: Sequence[Snapshot]) -> dict[Path, Ranges]:
    ranges_by_path: dict[Path, Ranges] = {}
    for snapshot in snapshots:
        for path, ranges in snapshot.ranges.items():
            total = ranges_by_path.setdefault(path, Ranges())
            total.dtypes.update(ranges.dtypes)
            for rank, (count, low, high) in ranges.by_rank.items():
                total.widen(rank, count, low, high)
    return ranges_by_path
