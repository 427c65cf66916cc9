# SPDX-License-Identifier: Apache-2.0
"""From aligned calls to the ranges of sizes that an engine is built for. Nothing in here needs torch."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from torchspan.inputs.aligned.alignment import Alignment
from torchspan.inputs.aligned.findings import Finding, batch_of_1, calls_text
from torchspan.inputs.inferred.inference import Inference
from torchspan.inputs.observed.leaves import Path, TensorShape, label
from torchspan.inputs.observed.trees import is_missing, leaves
from torchspan.inputs.profiled.profiles import DimensionProfile, InputProfile, SharedDimension, TensorProfile

_Place = tuple[Path, int]
"""A dimension: the path of the tensor, and the axis."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How the limits of a varying dimension follow from its observed sizes.

    Args:
        percentile: The share of the calls, in percent, that the upper limit holds.
        headroom: What is added to the upper limit, as a share of it.
    """

    percentile: float = 100.0
    headroom: float = 0.0

    def __post_init__(self) -> None:
        for name in ("percentile", "headroom"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise TypeError(f"{name} must be a number, not {value!r}")
        if not 0 < self.percentile <= 100:
            raise ValueError(f"percentile must be above 0 and at most 100, not {self.percentile!r}")
        if not 0 <= self.headroom < math.inf:
            raise ValueError(f"headroom must be a share of the largest size, 0 or more, not {self.headroom!r}")

    def high(self, size: int) -> int:
        """The upper limit for this largest size."""
        return math.ceil(round(max(size, 1) * (1 + self.headroom), 6))

    def cut(self, sizes: Mapping[int, int]) -> int:
        """The largest size that counts.

        Args:
            sizes: With the numbers of calls, at least one.
        """
        needed = sum(sizes.values()) * self.percentile / 100
        total = 0
        for size in sorted(sizes):
            total += sizes[size]
            if total >= needed:
                return size
        return max(sizes)


def infer_profile(alignment: Alignment, limits: Limits, has_batch: Callable[[str], bool]) -> InputProfile:
    """The profile of the calls.

    Args:
        has_batch: Whether the first dimension of an argument's tensors is taken to vary.
    """
    return _ProfileInference(alignment, limits, has_batch).profile()


@dataclass(slots=True)
class _Dimension:
    """What is known of one dimension.

    Args:
        low, high: Its limits.
        counts: Calls by size, of the calls that are kept.
    """

    observed: tuple[int, int]
    counts: Counter[int]
    is_batch: bool
    low: int
    high: int
    shared: str | None = None

    @property
    def is_dynamic(self) -> bool:
        return self.low != self.high


class _ProfileInference:
    def __init__(self, alignment: Alignment, limits: Limits, has_batch: Callable[[str], bool]) -> None:
        self._all = alignment
        self._limits = limits
        self._has_batch = has_batch
        inference = Inference(alignment)
        self._arguments = inference.usual_example()
        self._layout = inference.layout([*self._arguments], as_args_kwargs=True)
        self._example = {
            path: leaf
            for name, tree in self._arguments.items()
            for path, leaf in leaves(tree, (name,))
            if isinstance(leaf, TensorShape)
        }
        self._rows = [
            (shape.count, {path: leaf for path, leaf in shape.first.leaves() if isinstance(leaf, TensorShape)})
            for shape in alignment.shapes
        ]
        self._dimensions = {
            (path, axis): self._dimension(path, axis)
            for path, leaf in self._example.items()
            for axis in range(len(leaf.shape))
        }

    def profile(self) -> InputProfile:
        shared = self._shared()
        opt, at_opt = self._opt()
        calls = sum(count for count, _ in self._rows)
        outside = sum(count for count, row in self._rows if not self._is_inside(row))
        findings = (
            *self._of_calls(calls, outside),
            *self._of_opt(at_opt),
            *self._of_dimensions(),
            *self._of_presence(),
        )
        return InputProfile(
            tensors=tuple(self._tensors(opt)),
            shared=tuple(shared),
            calls=calls,
            calls_at_opt=at_opt,
            calls_outside=outside,
            findings=findings,
            arguments=self._arguments,
            layout=self._layout,
            signature=self._all.signature,
        )

    # --- limits ------------------------------------------------------------------------------------------------------
    def _dimension(self, path: Path, axis: int) -> _Dimension:
        rank = len(self._example[path].shape)
        _, lowest, highest = self._all.summaries[path].ranges.by_rank[rank]
        low, high = lowest[axis], highest[axis]
        counts: Counter[int] = Counter()
        for count, row in self._rows:
            if path in row and len(row[path].shape) == rank:
                counts[row[path].shape[axis]] += count
        dimension = _Dimension((low, high), counts, axis == 0 and self._has_batch(str(path[0])), low, high)
        if low != high:
            largest = self._limits.cut(counts) if counts and self._limits.percentile < 100 else high
            dimension.low, dimension.high = max(low, 1), self._limits.high(largest)
        elif dimension.is_batch:
            dimension.low, dimension.high = 1, self._limits.high(max(high, 2))
        return dimension

    def _is_inside(self, row: Mapping[Path, TensorShape]) -> bool:
        """Whether the engine takes the tensors of a call."""
        for path, leaf in self._example.items():
            tensor = row.get(path)
            if tensor is None:
                continue
            if len(tensor.shape) != len(leaf.shape):
                return False
            for axis, size in enumerate(tensor.shape):
                dimension = self._dimensions[path, axis]
                if not dimension.low <= size <= dimension.high:
                    return False
        return True

    # --- shared dimensions -------------------------------------------------------------------------------------------
    def _shared(self) -> list[SharedDimension]:
        """Give one name and one range to the dimensions that had the same size in every call."""
        shared_dimensions: list[SharedDimension] = []
        for places in self._groups():
            members = [self._dimensions[place] for place in places]
            low, high = min(member.low for member in members), max(member.high for member in members)
            if len(members) < 2 or low == high:
                continue
            name = f"d{len(shared_dimensions)}"
            for member in members:
                member.low, member.high, member.shared = low, high, name
            declared = all(member.observed[0] == member.observed[1] for member in members)
            shared_dimensions.append(SharedDimension(name, tuple(places), self._support(places), declared))
        return shared_dimensions

    def _groups(self) -> list[list[_Place]]:
        groups: list[list[_Place]] = []
        places: dict[object, list[_Place]] = {}
        for place, dimension in self._dimensions.items():
            low, high = dimension.observed
            if low != high:
                if not self._all.linked(place, place):  # too few sizes, or calls of which not enough is known
                    continue
                key: object = tuple(self._all.sizes(*place))
            elif dimension.is_batch:
                key = low
            else:
                continue
            group = places.get(key)
            if group is None and low != high:
                group = next((group for group in groups if self._are_linked(group, place)), None)
            if group is None:
                group = []
                groups.append(group)
            places[key] = group
            group.append(place)
        return groups

    def _are_linked(self, group: Sequence[_Place], place: _Place) -> bool:
        return all(self._all.linked(place, member) for member in group)

    def _support(self, places: Sequence[_Place]) -> int:
        """How many sizes two or more of the dimensions had in one call."""
        rows = zip(*(self._all.sizes(*place) for place in places), strict=True)
        return len(
            {sizes_of_row[0] for row in rows if len(sizes_of_row := [size for size in row if size is not None]) > 1}
        )

    # --- opt ---------------------------------------------------------------------------------------------------------
    def _opt(self) -> tuple[dict[_Place, int], int]:
        """The most frequent sizes that an export takes, and the number of calls that had exactly these."""
        candidates: Counter[tuple[int, ...]] = Counter()
        for count, row in self._rows:
            sizes = self._sizes(row)
            if sizes is not None and all(map(self._is_fit, self._dimensions.values(), sizes)):
                candidates[sizes] += count
        if candidates:
            chosen = max(candidates, key=candidates.__getitem__)
        else:
            chosen = tuple(leaf.shape[axis] for leaf in self._example.values() for axis in range(len(leaf.shape)))
        opt = {
            place: _clamped(size, self._dimensions[place]) for place, size in zip(self._dimensions, chosen, strict=True)
        }
        return opt, candidates[tuple(opt.values())]

    def _sizes(self, row: Mapping[Path, TensorShape]) -> tuple[int, ...] | None:
        """The size of every dimension in a call; None where it lacks a tensor."""
        sizes: list[int] = []
        for path, leaf in self._example.items():
            tensor = row.get(path)
            if tensor is None or len(tensor.shape) != len(leaf.shape):
                return None
            sizes += tensor.shape
        return tuple(sizes)

    def _is_fit(self, dimension: _Dimension, size: int) -> bool:
        """Whether an example may have this size."""
        if dimension.observed[0] == dimension.observed[1]:
            return True
        return dimension.low <= size <= dimension.high and (size >= 2 or not dimension.is_dynamic)

    # --- the result --------------------------------------------------------------------------------------------------
    def _tensors(self, opt: Mapping[_Place, int]) -> Iterator[TensorProfile]:
        names: set[str] = set()
        for path, leaf in self._example.items():
            name = _identifier(path, names)
            names.add(name)
            dimensions = []
            for axis in range(len(leaf.shape)):
                dimension = self._dimensions[path, axis]
                calls, shared = sum(dimension.counts.values()), dimension.shared if dimension.is_dynamic else None
                dimensions.append(
                    DimensionProfile(
                        dimension.low,
                        opt[path, axis],
                        dimension.high,
                        dimension.observed,
                        len(dimension.counts),
                        calls,
                        shared,
                    )
                )
            dtypes = self._all.summaries[path].ranges.dtypes
            dtype = max(dtypes, key=lambda dtype: (dtypes[dtype], dtype == leaf.dtype), default=leaf.dtype)
            yield TensorProfile(path, name, dtype, leaf.device, tuple(dimensions))

    # --- findings ----------------------------------------------------------------------------------------------------
    def _of_calls(self, calls: int, outside: int) -> Iterator[Finding]:
        if self._all.beyond_limit:
            yield Finding(
                "beyond_limit",
                "",
                f"Of {calls_text(self._all.beyond_limit)} only the ranges of sizes are known. No dimensions share a name, "
                "because equality in every call is not known, and these calls are in no percentile.",
            )
        if outside:
            yield Finding(
                "outside",
                "",
                f"{outside:,} of {calls_text(calls)} ({outside / calls:.1%}) have a size outside of the ranges. The engine "
                "raises there: run such calls with the model itself.",
            )

    def _of_opt(self, at_opt: int) -> Iterator[Finding]:
        if not at_opt:
            yield Finding(
                "opt",
                "",
                "No call had exactly the opt shapes. No observed call has every tensor, with sizes of at least 2 in the "
                "dimensions that vary, within the ranges: the sizes are composed of several calls.",
            )

    def _of_dimensions(self) -> Iterator[Finding]:
        for (path, axis), dimension in self._dimensions.items():
            low, high = dimension.observed
            if low == 0 and high > 0:
                where = f"in {calls_text(dimension.counts[0])}" if dimension.counts[0] else "in `value_if_missing`"
                yield Finding(
                    "size_0",
                    label(path),
                    f"Dimension {axis} has the size 0 {where}. TensorRT takes no empty tensor: the range "
                    "begins with 1, and such calls must not reach the engine.",
                )
            if dimension.is_batch and low == high == 1:
                yield batch_of_1(path, f"The range is 1 to {dimension.high}: observe larger batches, or give headroom.")

    def _of_presence(self) -> Iterator[Finding]:
        total = sum(shape.count for shape in self._all.shapes)
        for name, tree in self._arguments.items():
            if not any(isinstance(leaf, TensorShape) for _, leaf in leaves(tree, (name,))):
                continue
            missing = sum(shape.count for shape in self._all.shapes if is_missing(shape.first.arguments.get(name)))
            if missing:
                yield Finding(
                    "optional",
                    name,
                    f"It is missing in {missing:,} of {calls_text(total)}. An exported program takes it in every call: export one "
                    f"program with it, and another one after remove_inputs([{name!r}]).",
                )


def _clamped(size: int, dimension: _Dimension) -> int:
    """The size that is nearest to it among those that an example may have."""
    smallest = max(dimension.low, 2) if dimension.is_dynamic else dimension.low
    return min(max(size, smallest), dimension.high)


def _identifier(path: Path, taken: set[str]) -> str:
    """A name for a tensor: letters, digits and underscores, unlike all that are taken."""
    name = re.sub(r"\W", "_", "_".join(map(str, path)), flags=re.ASCII)
    name = f"_{name}" if name[:1].isdigit() else name
    identifier, number = name, 2
    while identifier in taken:
        identifier, number = f"{name}_{number}", number + 1
    return identifier
