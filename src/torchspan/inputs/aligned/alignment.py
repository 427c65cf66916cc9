# SPDX-License-Identifier: Apache-2.0
"""All calls side by side: one structure that has every argument of every call, and the sizes of each tensor in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torchspan.inputs.observed.leaves import Absent, Constant, Leaf, Opaque, Path, TensorShape
from torchspan.inputs.observed.observations import ModuleCall, ObservedShape, Ranges, Snapshot
from torchspan.inputs.observed.signatures import CallSignature
from torchspan.inputs.observed.trees import Tree, completed, is_missing, leaves, replaced_leaves, tensor_count
from torchspan.inputs.written.portable import PLAIN, is_withheld


class NothingObservedError(RuntimeError):
    """No call has been recorded from which something could be inferred."""


@dataclass(slots=True)
class LeafSummary:
    """What one leaf was in all calls.

    Args:
        ranges: Sizes and types of tensors.
        devices: Of tensors.
        constants: Distinct values with counts.
        kinds: Classes of constants.
        opaque: Classes of objects with the reason.
        calls: In how many it was anything but None.
    """

    ranges: Ranges = field(default_factory=Ranges)
    devices: Counter[Any] = field(default_factory=Counter)
    constants: Counter[Hashable] = field(default_factory=Counter)
    opaque: dict[type, str] = field(default_factory=dict)
    calls: int = 0

    def add(self, leaf: Leaf, shape: ObservedShape, path: Path) -> None:
        """Add the calls of one shape."""
        self.calls += shape.count
        if isinstance(leaf, TensorShape):
            self.ranges.add(leaf, shape.count)
            self.devices[leaf.device] += shape.count
        elif isinstance(leaf, Constant):
            self.constants.update(shape.constants.get(path, {}))
        elif isinstance(leaf, Opaque):
            self.opaque[leaf.kind] = leaf.reason

    def varying(self, rank: int) -> tuple[int, ...]:
        """The dimensions of tensors of this rank that had more than one size."""
        by_axis = self.ranges.by_rank.get(rank)
        if by_axis is None:
            return ()
        _, low, high = by_axis
        return tuple(axis for axis in range(rank) if low[axis] != high[axis])


class Alignment:
    """What the calls of a snapshot have in common.

    Args:
        absent_values: What the user gave for arguments that a call does not have.

    Attributes:
        names: The arguments that any call had, in the order of the signature.
        templates: The fullest structure of each argument.
        summaries: Each leaf in all calls.
        beyond_limit: How many calls there were of which only ranges are kept.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        signature: CallSignature,
        absent_values: Mapping[str, Tree],
        removed: frozenset[str],
    ) -> None:
        if not snapshot.shapes:
            raise NothingObservedError(
                "No call was observed. Call the model inside `with observer(model):`, and call the object that was given to "
                "the observer: a call of a model inside a region that torch.compile compiles is not seen."
            )
        self.signature = signature
        self.by_keyword = snapshot.by_keyword - removed
        self.beyond_limit = snapshot.counts.beyond_limit
        self._columns: dict[tuple[Path, int], list[int | None]] = {}
        self.shapes = _without(snapshot.shapes, removed) if removed else snapshot.shapes
        self._tensors = [
            {path: leaf for path, leaf in shape.first.leaves() if isinstance(leaf, TensorShape)}
            for shape in self.shapes
        ]
        self._absent_values = {name: tree for name, tree in absent_values.items() if name not in removed}
        names = {name for shape in self.shapes for name in shape.first.arguments}
        self.names = signature.in_order(names | set(self._absent_values))
        self.templates = {name: self._template(name) for name in self.names}
        self.summaries = self._summaries(snapshot.ranges, removed)

    def template_leaves(self) -> list[tuple[Path, Leaf]]:
        return [leaf for name, tree in self.templates.items() for leaf in leaves(tree, (name,))]

    def usual(self) -> ObservedShape:
        """The shape from which an example is made.

        It has the most tensors; among those, the fewest sizes of 0 and 1 in dimensions that vary, which `torch.export` takes
        for constants; among those, the most calls; among those it came first.
        """
        return max(
            self.shapes,
            key=lambda candidate: (
                sum(tensor_count(tree) for tree in candidate.first.arguments.values()),
                -self.small_sizes(candidate.first),
                candidate.count,
                -candidate.first.number,
            ),
        )

    def small_sizes(self, call: ModuleCall) -> int:
        """How many varying dimensions have the size 0 or 1 in a call."""
        return sum(
            leaf.shape[axis] < 2
            for path, leaf in call.leaves()
            if isinstance(leaf, TensorShape)
            for axis in self.summaries[path].varying(len(leaf.shape))
        )

    def donor(self, name: str, call: ModuleCall) -> Tree:
        """A structure for an argument that a call does not have: that of the call which agrees most with it.

        A size that always equalled one of another tensor follows the tensor of the call.
        """
        template = self.templates[name]
        have = {path: leaf for path, leaf in call.leaves() if isinstance(leaf, TensorShape)}

        def agreement(shape: ObservedShape) -> tuple[int, int, int, int]:
            same = sum(have.get(path) == leaf for path, leaf in shape.first.leaves() if path in have)
            return same, -self.small_sizes(shape.first), shape.count, -shape.first.number

        wanted = tensor_count(template)
        able = [shape for shape in self.shapes if _tensor_count(shape, name) == wanted]
        chosen = max(able, key=agreement).first.arguments[name] if wanted and able else template
        return replaced_leaves(chosen, (name,), lambda path, leaf: self._following(path, leaf, have))

    def _following(self, path: Path, leaf: Leaf, have: Mapping[Path, TensorShape]) -> Leaf:
        """A leaf with the sizes that the tensors of a call imply."""
        if not isinstance(leaf, TensorShape):
            return leaf
        sizes = list(leaf.shape)
        summary = self.summaries.get(path)
        for axis in summary.varying(len(sizes)) if summary is not None else ():
            tensors = (
                size
                for other, leaf in have.items()
                for other_axis, size in enumerate(leaf.shape)
                if self.linked((path, axis), (other, other_axis))
            )
            sizes[axis] = next(tensors, sizes[axis])
        return TensorShape(tuple(sizes), leaf.dtype, leaf.device)

    def linked(self, one: tuple[Path, int], other: tuple[Path, int]) -> bool:
        """Whether two dimensions had the same size in every call that has both, and had more than one size there.

        False where some calls were not kept: they may have differed.
        """
        if self.beyond_limit:
            return False
        both = [pair for pair in zip(self.sizes(*one), self.sizes(*other), strict=True) if None not in pair]
        return len(set(both)) > 1 and all(first == second for first, second in both)

    def is_sum(self, total: tuple[Path, int], part: tuple[Path, int], others: Iterable[tuple[Path, int]]) -> bool:
        """Whether a dimension was the sum of another one and one of `others`, a missing one counted as 0, in every call.

        The total has more than one size there. False where some calls were not kept.
        """
        if self.beyond_limit:
            return False
        for other in others:
            rows = zip(self.sizes(*total), self.sizes(*part), self.sizes(*other), strict=True)
            complete = [(whole, one, rest or 0) for whole, one, rest in rows if whole is not None and one is not None]
            if len({whole for whole, _, _ in complete}) > 1 and all(
                whole == one + rest for whole, one, rest in complete
            ):
                return True
        return False

    def sizes(self, path: Path, axis: int) -> list[int | None]:
        """The size of a dimension in each of `shapes`; None where there is no such tensor."""
        column = self._columns.get((path, axis))
        if column is None:
            tensors = (leaves_of.get(path) for leaves_of in self._tensors)
            column = [None if tensor is None or axis >= len(tensor.shape) else tensor.shape[axis] for tensor in tensors]
            self._columns[path, axis] = column
        return column

    def ranks(self, path: Path) -> list[int | None]:
        """The number of dimensions of a tensor in each of `shapes`; None where there is no such tensor."""
        tensors = (leaves_of.get(path) for leaves_of in self._tensors)
        return [None if tensor is None else len(tensor.shape) for tensor in tensors]

    def default_only(self, name: str) -> bool:
        """Whether an argument was its default value in every call, or None where that is the default."""
        if name not in self.signature.defaults:
            return False
        default = self.signature.defaults[name]
        trees = [shape.first.arguments[name] for shape in self.shapes if name in shape.first.arguments]
        if isinstance(self.templates[name], Absent):
            return default is None
        is_plain = type(default) in PLAIN or is_withheld(default)
        if not is_plain or not all(isinstance(tree, Constant) for tree in trees):
            return False
        values = self.summaries[(name,)].constants
        return set(values) == {Constant(default).distinct}

    def _template(self, name: str) -> Tree:
        """The fullest structure of an argument: that with the most tensors, completed by the others."""
        trees = [shape.first.arguments[name] for shape in self.shapes if name in shape.first.arguments]
        trees += [self._absent_values[name]] if name in self._absent_values else []
        counts = {id(shape.first.arguments.get(name)): shape.count for shape in self.shapes}
        trees.sort(key=lambda tree: (is_missing(tree), -tensor_count(tree), -counts.get(id(tree), 0)))
        template = trees[0]
        for tree in trees[1:]:
            template = completed(template, tree)
        return template

    def _summaries(self, ranges: Mapping[Path, Ranges], removed: frozenset[str]) -> dict[Path, LeafSummary]:
        summaries: dict[Path, LeafSummary] = {}
        for shape in self.shapes:
            for path, leaf in shape.first.leaves():
                summary = summaries.setdefault(path, LeafSummary())
                if isinstance(leaf, (TensorShape, Constant, Opaque)):
                    summary.add(leaf, shape, path)
        for path, wider in ranges.items():
            if path[0] not in removed:
                _merge(summaries.setdefault(path, LeafSummary()), wider)
        for name, tree in self._absent_values.items():
            if any(is_missing(shape.first.arguments.get(name)) for shape in self.shapes):
                for path, leaf in leaves(tree, (name,)):
                    if isinstance(leaf, TensorShape):
                        summaries.setdefault(path, LeafSummary()).ranges.add(leaf, 0)
        return summaries


def _tensor_count(shape: ObservedShape, name: str) -> int:
    tree = shape.first.arguments.get(name)
    return 0 if tree is None else tensor_count(tree)


def _without(shapes: list[ObservedShape], removed: frozenset[str]) -> list[ObservedShape]:
    """The shapes of the calls without these arguments: some are the same now."""
    first_of: dict[Hashable, ObservedShape] = {}
    for shape in shapes:
        call = shape.first.without(removed)
        merged = first_of.setdefault(call.key(), ObservedShape(call))
        merged.count += shape.count
        for path, values in shape.constants.items():
            if path[0] not in removed:
                merged.constants.setdefault(path, Counter()).update(values)
    return list(first_of.values())


def _merge(summary: LeafSummary, wider: Ranges) -> None:
    """Add the ranges of calls that were not kept."""
    for rank, (count, low, high) in wider.by_rank.items():
        summary.ranges.widen(rank, count, low, high)
        summary.calls += count
    summary.ranges.dtypes.update(wider.dtypes)
