# SPDX-License-Identifier: Apache-2.0
"""An export with the ranges of a profile, and what the exported program made of each dimension."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from torchspan.inputs.aligned.findings import Finding
from torchspan.inputs.inferred.inference import made, passed, specified
from torchspan.inputs.observed.leaves import Leaf, Path, TensorShape, label
from torchspan.inputs.observed.trees import leaves, replaced_leaves
from torchspan.inputs.profiled.compiler_inputs import made_input
from torchspan.inputs.profiled.profiles import InputProfile, TensorProfile


@dataclass(frozen=True, slots=True)
class ExportedModel:
    """A model that was exported with the ranges of observed calls.

    Attributes:
        program: The `torch.export.ExportedProgram`.
        profile: The ranges with which it was exported.
        inputs: The inputs of the program, in its order, with the ranges that the program and the profile have in common; None
            for an input that is not a tensor.
        findings: The dimensions that the program takes in fewer sizes than the profile has, and the findings of the profile.
    """

    program: Any
    profile: InputProfile
    inputs: tuple[TensorProfile | None, ...]
    findings: tuple[Finding, ...]

    def to_torch_tensorrt(self) -> dict[str, Any]:
        """Arguments for `torch_tensorrt.dynamo.compile(exported.program, ...)`.

        Without them, Torch-TensorRT takes the ranges of single dimensions from the program, and turns a lower limit of 2 into 1.
        Creating a `torch_tensorrt.Input` allocates a tensor of its `opt_shape` in the memory of the CPU.

        Returns:
            A dictionary with `arg_inputs`: a `torch_tensorrt.Input` for each tensor that the program takes, in its order,
            whatever containers the tensors are in, and None for everything else.

        Raises:
            ImportError: Torch-TensorRT is not installed.
        """
        return {"arg_inputs": [None if input_ is None else made_input(input_) for input_ in self.inputs]}


def export(model: Any, profile: InputProfile, *, strict: bool) -> ExportedModel:
    """Export with bounded `Dim.AUTO` for each dimension that varies, from an example of the opt shapes."""
    from torch.export import Dim
    from torch.export import export as torch_export

    dimensions = {
        (tensor.path, axis): dimension for tensor in profile for axis, dimension in enumerate(tensor.dimensions)
    }
    tensors = {tensor.path: TensorShape(tensor.opt_shape, tensor.dtype, tensor.device) for tensor in profile}

    def example_of(path: Path, leaf: Leaf) -> Leaf:
        return tensors[path] if isinstance(leaf, TensorShape) else leaf

    def hints_of(path: Path, leaf: Leaf) -> Mapping[int, Any] | None:
        if not isinstance(leaf, TensorShape):
            return None
        by_axis = {axis: dimensions[path, axis] for axis in range(len(leaf.shape))}
        return {
            axis: Dim.AUTO(min=dimension.min, max=dimension.max)
            for axis, dimension in by_axis.items()
            if dimension.is_dynamic
        }

    trees = {name: replaced_leaves(tree, (name,), example_of) for name, tree in profile.arguments.items()}
    args, kwargs = passed(made(trees, {}), profile.layout, profile.signature)
    dynamic_shapes = specified(trees, profile.layout, profile.signature, hints_of)
    program = torch_export(model, args, kwargs, dynamic_shapes=dynamic_shapes, strict=strict)
    taken = _taken(program, profile)
    findings = (*_of_program(program, taken), *profile.findings)
    inputs = tuple(None if taken_input is None else _narrowed(program, taken_input) for taken_input in taken)
    return ExportedModel(program, profile, inputs, findings)


# --- what the program made of it -------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class _Taken:
    """A tensor that the program takes.

    Args:
        sizes: In the program, each a number or a `torch.SymInt`.
    """

    tensor: TensorProfile
    sizes: tuple[Any, ...]


def _taken(program: Any, profile: InputProfile) -> list[_Taken | None]:
    """What the program takes, in its order; None where it is not a tensor."""
    from torch.export.graph_signature import InputKind

    tensors = {tensor.path: tensor for tensor in profile}
    nodes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    names = [spec.arg.name for spec in program.graph_signature.input_specs if spec.kind is InputKind.USER_INPUT]
    layout = profile.layout
    order = (*layout.by_position, *(() if layout.rest is None else (layout.rest,)), *layout.keywords)
    paths = [path for name in order for path, _ in leaves(profile.arguments[name], (name,))]
    return [
        _Taken(tensors[path], tuple(nodes[name].meta["val"].shape)) if path in tensors else None
        for name, path in zip(names, paths, strict=True)
    ]


def _range(program: Any, size: Any) -> tuple[int | None, int | None]:
    """The smallest and the largest size that a program takes; None where it says nothing of that."""
    if isinstance(size, int):
        return size, size
    expression = size.node.expr
    if expression.is_number:
        return int(expression), int(expression)
    bounds = program.range_constraints.get(expression)
    if bounds is None:  # made up of several symbols
        return None, None
    return tuple(int(bound) if bound.is_finite else None for bound in (bounds.lower, bounds.upper))  # type: ignore[return-value]


def _narrowed(program: Any, taken: _Taken) -> TensorProfile:
    """The tensor with the ranges that the program and the profile have in common."""
    dimensions = []
    for dimension, size in zip(taken.tensor.dimensions, taken.sizes, strict=True):
        low, high = _range(program, size)
        low = dimension.min if low is None or low == 2 else max(low, dimension.min)  # 2: PyTorch's way to say 1
        high = dimension.max if high is None else min(high, dimension.max)
        dimensions.append(replace(dimension, min=low, opt=min(max(dimension.opt, low), high), max=high, shared=None))
    return replace(taken.tensor, dimensions=tuple(dimensions))


def _of_program(program: Any, taken: Iterable[_Taken | None]) -> Iterator[Finding]:
    """Each dimension that the program takes in fewer sizes than the profile has."""
    for taken_input in taken:
        if taken_input is None:
            continue
        where = label(taken_input.tensor.path)
        for axis, (dimension, size) in enumerate(zip(taken_input.tensor.dimensions, taken_input.sizes, strict=True)):
            if not dimension.is_dynamic:
                continue
            low, high = _range(program, size)
            observed = f"Dimension {axis}, from {dimension.min} to {dimension.max} in the profile,"
            if low is not None and low == high:
                yield Finding(
                    "specialized",
                    where,
                    f"{observed} became the constant {low}. The code compares or computes with the size: change it, or call "
                    "the program with this size alone. With TORCH_LOGS=dynamic, PyTorch logs the place.",
                )
            elif (low is not None and low > max(dimension.min, 2)) or (high is not None and high < dimension.max):
                yield Finding(
                    "narrowed",
                    where,
                    f"{observed} ranges from {low} to {high} in the program. It depends on the size of another dimension there, or "
                    "the code compares it.",
                )
