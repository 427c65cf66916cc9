# SPDX-License-Identifier: Apache-2.0
"""`InputProfile`: the sizes that an engine is built for. It is data: nothing in here needs torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from torchspan.inputs.aligned.findings import Finding, calls_text
from torchspan.inputs.inferred.inference import Layout
from torchspan.inputs.observed.leaves import Path, label
from torchspan.inputs.observed.signatures import CallSignature
from torchspan.inputs.observed.trees import Tree


@dataclass(frozen=True, slots=True)
class DimensionProfile:
    """One dimension of a tensor.

    Attributes:
        min: The smallest size that the engine is built for.
        opt: The size that the engine is optimized for.
        max: The largest size that the engine is built for.
        observed: The smallest and the largest observed size.
        distinct: The number of different sizes that were observed.
        calls: The number of calls in which they were observed.
        shared: The name that it shares with dimensions that had the same size in every call; None without such dimensions.
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
        """Whether the engine accepts more than one size."""
        return self.min != self.max

    def __str__(self) -> str:
        low, high = self.observed
        if low == high:
            return f"{low} in all {calls_text(self.calls)}"
        return f"{low} to {high} in {calls_text(self.calls)}, {self.distinct:,} sizes"


@dataclass(frozen=True, slots=True)
class TensorProfile:
    """One tensor of the arguments.

    Attributes:
        path: The argument's name, then a key for each container around the tensor.
        name: An identifier that no other tensor of the profile has.
        dtype: The most frequent `torch.dtype`.
        device: The `torch.device` in an observed call.
        dimensions: The sizes of each dimension.
    """

    path: Path
    name: str
    dtype: Any
    device: Any
    dimensions: tuple[DimensionProfile, ...]

    @property
    def min_shape(self) -> tuple[int, ...]:
        """The smallest size of each dimension."""
        return tuple(dimension.min for dimension in self.dimensions)

    @property
    def opt_shape(self) -> tuple[int, ...]:
        """The size of each dimension that the engine is optimized for."""
        return tuple(dimension.opt for dimension in self.dimensions)

    @property
    def max_shape(self) -> tuple[int, ...]:
        """The largest size of each dimension."""
        return tuple(dimension.max for dimension in self.dimensions)

    @property
    def is_dynamic(self) -> bool:
        """Whether the engine accepts more than one shape of this tensor."""
        return any(dimension.is_dynamic for dimension in self.dimensions)

    @property
    def shared_dims(self) -> dict[int, str]:
        """The dimensions that have a shared name, as `torch_tensorrt.Input` takes them."""
        return {
            axis: dimension.shared for axis, dimension in enumerate(self.dimensions) if dimension.shared is not None
        }


@dataclass(frozen=True, slots=True)
class SharedDimension:
    """Dimensions that had the same size in every call, so that an engine may treat them as one.

    Attributes:
        name: The name that they share.
        places: For each dimension the path of its tensor, and its axis.
        distinct: The number of different sizes that they had together. With few sizes, they may be equal by chance.
        declared: Whether `set_batch_dimension_for` named them.
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
    """The sizes that an engine should be built for, inferred from observed calls.

    Attributes:
        tensors: The tensors, in the order of the arguments.
        shared: The dimensions that share a name.
        calls: The number of calls from which the profile was inferred.
        calls_at_opt: The number of calls that had exactly the `opt_shape` of every tensor.
        calls_outside: The number of calls with a size outside of the ranges: those beyond the percentile, and those with
            empty tensors.
        findings: What prevents an engine of these sizes.
        arguments: The structure of the example.
        layout: How the example is passed.
        signature: The parameters of the observed method.
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

    def to_python(self) -> str:
        """Write a program that makes what `InputObserver.to_torch_tensorrt` returns, and compiles `model` with it.

        Returns:
            The program's text.

        Raises:
            RuntimeError: `torch_tensorrt.dynamo.trace` cannot take an argument of this structure or type, or a key of a dictionary
                has no literal.
        """
        from torchspan.inputs.profiled.compiler_inputs import python_text

        return python_text(self)

    def __iter__(self) -> Iterator[TensorProfile]:
        return iter(self.tensors)


def mark_dynamic(profile: InputProfile, tensors: Mapping[Path, Any]) -> int:
    """Mark the dimensions that vary, and return how many. Raises ValueError, and marks nothing then.

    Args:
        tensors: Of one call.
    """
    import torch

    shared = []
    for described in profile:
        tensor = tensors.get(described.path)
        if tensor is None:
            continue
        where = label(described.path)
        if tensor.dim() != len(described.dimensions):
            raise ValueError(
                f"mark_dynamic: {where} has {tensor.dim()} dimensions, but {len(described.dimensions)} in the profile. Mark a call with as many dimensions as the observed ones."
            )
        for axis, dimension in enumerate(described.dimensions):
            size = tensor.shape[axis]
            if not dimension.is_dynamic:
                continue
            if size < 2:
                raise ValueError(
                    f"mark_dynamic: dimension {axis} of {where} has the size {size}, which torch.compile treats as a constant. "
                    "Compile with a call whose size is at least 2 there."
                )
            if not dimension.min <= size <= dimension.max:
                raise ValueError(
                    f"mark_dynamic: dimension {axis} of {where} has the size {size}, but the profile has {dimension.min} to "
                    f"{dimension.max}. Compile with a call within this range, or call infer_profile with headroom."
                )
            shared.append((tensor, axis, dimension))
    for tensor, axis, dimension in shared:
        torch._dynamo.mark_dynamic(tensor, axis, min=dimension.min, max=dimension.max, hint_override=dimension.opt)
    return len(shared)
