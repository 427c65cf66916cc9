# SPDX-License-Identifier: Apache-2.0
"""An export with the ranges of a profile, and what the exported program made of each dimension."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from torchspan.inputs.aligned.findings import Finding
from torchspan.inputs.inferred.inference import made, passed, specified
from torchspan.inputs.inferred.specializations import Specializations
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

    dimensions = {(each.path, axis): known for each in profile for axis, known in enumerate(each.dimensions)}
    tensors = {each.path: TensorShape(each.opt_shape, each.dtype, each.device) for each in profile}

    def example_of(path: Path, leaf: Leaf) -> Leaf:
        return tensors[path] if isinstance(leaf, TensorShape) else leaf

    def hints_of(path: Path, leaf: Leaf) -> Mapping[int, Any] | None:
        if not isinstance(leaf, TensorShape):
            return None
        found = {axis: dimensions[path, axis] for axis in range(len(leaf.shape))}
        return {axis: Dim.AUTO(min=each.min, max=each.max) for axis, each in found.items() if each.is_dynamic}

    trees = {name: replaced_leaves(tree, (name,), example_of) for name, tree in profile.arguments.items()}
    args, kwargs = passed(made(trees, {}), profile.layout, profile.signature)
    dynamic_shapes = specified(trees, profile.layout, profile.signature, hints_of)
    specializations = Specializations()
    with specializations:
        program = torch_export(model, args, kwargs, dynamic_shapes=dynamic_shapes, strict=strict)
    taken = _taken(program, profile)
    findings = (*_of_program(program, taken, specializations), *profile.findings)
    inputs = tuple(None if each is None else _narrowed(program, each) for each in taken)
    return ExportedModel(program, profile, inputs, findings)


# --- what the program made of it -------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class _Taken:
    """A tensor that the program takes. sizes: in the program, each a number or a `torch.SymInt`."""

    tensor: TensorProfile
    sizes: tuple[Any, ...]


def _taken(program: Any, profile: InputProfile) -> list[_Taken | None]:
    """What the program takes, in its order; None where it is not a tensor."""
    from torch.export.graph_signature import InputKind

    tensors = {each.path: each for each in profile}
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
    known = program.range_constraints.get(expression)
    if known is None:  # made up of several symbols
        return None, None
    return tuple(int(each) if each.is_finite else None for each in (known.lower, known.upper))  # type: ignore[return-value]


def _narrowed(program: Any, taken: _Taken) -> TensorProfile:
    """The tensor with the ranges that the program and the profile have in common."""
    dimensions = []
    for known, size in zip(taken.tensor.dimensions, taken.sizes, strict=True):
        low, high = _range(program, size)
        low = known.min if low is None or low == 2 else max(low, known.min)  # 2: PyTorch's way to say 1
        high = known.max if high is None else min(high, known.max)
        dimensions.append(replace(known, min=low, opt=min(max(known.opt, low), high), max=high, shared=None))
    return replace(taken.tensor, dimensions=tuple(dimensions))


def _of_program(program: Any, taken: Iterable[_Taken | None], places: Specializations) -> Iterator[Finding]:
    """Each dimension that the program takes in fewer sizes than the profile has."""
    for each in taken:
        if each is None:
            continue
        where = label(each.tensor.path)
        for axis, (known, size) in enumerate(zip(each.tensor.dimensions, each.sizes, strict=True)):
            if not known.is_dynamic:
                continue
            low, high = _range(program, size)
            observed = f"Dimension {axis}, from {known.min} to {known.max} in the profile,"
            if low is not None and low == high:
                place = None if isinstance(size, int) else places.place(size.node.shape_env, size.node._expr)
                at = "" if place is None else f" at {place}"
                yield Finding(
                    "specialized",
                    where,
                    f"{observed} became the constant {low}{at}. The code compares or computes with the size there: change "
                    "it, or call the program with this size alone.",
                )
            elif (low is not None and low > max(known.min, 2)) or (high is not None and high < known.max):
                yield Finding(
                    "narrowed",
                    where,
                    f"{observed} ranges from {low} to {high} in the program. It depends on the size of another dimension there, or "
                    "the code compares it.",
                )
