# SPDX-License-Identifier: Apache-2.0
"""`InputProfile`: the sizes that an engine is built for. It is data: nothing in here needs torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from torchspan.inputs.findings import Finding, calls_text
from torchspan.inputs.inference import Layout
from torchspan.inputs.leaves import Path, label
from torchspan.inputs.signatures import CallSignature
from torchspan.inputs.trees import Tree


@dataclass(frozen=True, slots=True)
class DimensionProfile:
    """One dimension of a tensor.

    min, opt, max: what the engine is built for. observed: the smallest and the largest observed size. distinct: how many
    sizes were observed. calls: in how many calls. shared: the name that it shares with the dimensions that had its size in
    every call; None where it has none.
    """

    min: int
    opt: int
    max: int
    observed: tuple[int, int]
    distinct: int
    calls: int
    shared: str | None = None

    @property
    def is_dynamic(self) -> bool:
        """Whether the engine takes more than one size."""
        return self.min != self.max

    def __str__(self) -> str:
        low, high = self.observed
        if low == high:
            return f"{low} in all {calls_text(self.calls)}"
        return f"{low} to {high} in {calls_text(self.calls)}, {self.distinct:,} sizes"


@dataclass(frozen=True, slots=True)
class TensorProfile:
    """One tensor of the arguments.

    path: the argument's name, then a key for each container around the tensor. name: an identifier that no other tensor
    of the profile has. dtype: the most frequent `torch.dtype`. device: of an observed call, as `torch.device`.
    """

    path: Path
    name: str
    dtype: Any
    device: Any
    dimensions: tuple[DimensionProfile, ...]

    @property
    def min_shape(self) -> tuple[int, ...]:
        return tuple(each.min for each in self.dimensions)

    @property
    def opt_shape(self) -> tuple[int, ...]:
        return tuple(each.opt for each in self.dimensions)

    @property
    def max_shape(self) -> tuple[int, ...]:
        return tuple(each.max for each in self.dimensions)

    @property
    def is_dynamic(self) -> bool:
        """Whether the engine takes more than one shape of it."""
        return any(each.is_dynamic for each in self.dimensions)

    @property
    def shared_dims(self) -> dict[int, str]:
        """The dimensions that have a shared name, as `torch_tensorrt.Input` takes them."""
        return {axis: each.shared for axis, each in enumerate(self.dimensions) if each.shared is not None}


@dataclass(frozen=True, slots=True)
class SharedDimension:
    """Dimensions that had the same size in every call, so that the engine may take them for one.

    places: the path of the tensor and the axis of each. distinct: how many sizes they had together; with few, the equality
    may be one by chance. declared: the user called them the batch.
    """

    name: str
    places: tuple[tuple[Path, int], ...]
    distinct: int
    declared: bool = False

    def __str__(self) -> str:
        where = ", ".join(f"{label(path)}[{axis}]" for path, axis in self.places)
        if self.declared:
            return f"{where}: the batch"
        return f"{where}: equal in every call, {self.distinct:,} sizes"


@dataclass(frozen=True, slots=True)
class InputProfile:
    """What an engine should be built for, as observed calls say.

    tensors: in the order of the arguments. shared: dimensions with one name. calls: how many calls it was inferred from.
    calls_at_opt: how many of them had exactly the `opt_shape` of every tensor. calls_outside: how many have a size outside
    of the ranges: with a percentile below 100, or of empty tensors. findings: what there is to know of it. arguments, layout,
    signature: the structure of the example, and how it is passed.
    """

    tensors: tuple[TensorProfile, ...]
    shared: tuple[SharedDimension, ...]
    calls: int
    calls_at_opt: int
    calls_outside: int
    findings: tuple[Finding, ...]
    arguments: Mapping[str, Tree]
    layout: Layout
    signature: CallSignature

    @property
    def share_outside(self) -> float:
        """The share of the calls that have a size outside of the ranges, from 0 to 1."""
        return self.calls_outside / self.calls

    @property
    def is_dynamic(self) -> bool:
        """Whether any dimension varies."""
        return any(each.is_dynamic for each in self.tensors)

    def tensor(self, path: Path) -> TensorProfile:
        """The tensor at a path. Raises KeyError."""
        for each in self.tensors:
            if each.path == path:
                return each
        raise KeyError(path)

    def to_python(self) -> str:
        """A program text that makes what `InputObserver.to_torch_tensorrt` returns, and compiles `model` with it.

        Raises:
            RuntimeError: `torch_tensorrt.dynamo.trace` cannot take an argument of this structure or type, or a key of a dictionary
                has no literal.
        """
        from torchspan.inputs.compiler_inputs import python_text

        return python_text(self)

    def __iter__(self) -> Iterator[TensorProfile]:
        return iter(self.tensors)
