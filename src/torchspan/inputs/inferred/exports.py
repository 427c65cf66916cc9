# SPDX-License-Identifier: Apache-2.0
"""An export with the ranges of a profile, and what the exported program made of each dimension."""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import FrameType
from typing import Any

from torchspan._base import source_places
from torchspan._base.forks import renewed
from torchspan._base.patching import Patches
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
    specializations = Specializations()
    with specializations:
        program = torch_export(model, args, kwargs, dynamic_shapes=dynamic_shapes, strict=strict)
    taken = _taken(program, profile)
    findings = (*_of_program(program, taken, specializations), *profile.findings)
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


def _of_program(program: Any, taken: Iterable[_Taken | None], places: Specializations) -> Iterator[Finding]:
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
                place = None if isinstance(size, int) else places.place(size.node.shape_env, size.node._expr)
                at = "" if place is None else f" at {place}"
                yield Finding(
                    "specialized",
                    where,
                    f"{observed} became the constant {low}{at}. The code compares or computes with the size there: change "
                    "it, or call the program with this size alone.",
                )
            elif (low is not None and low > max(dimension.min, 2)) or (high is not None and high < dimension.max):
                yield Finding(
                    "narrowed",
                    where,
                    f"{observed} ranges from {low} to {high} in the program. It depends on the size of another dimension there, or "
                    "the code compares it.",
                )


# --- Where a dimension became a constant ----------------------------------------------------------------------------
# A program says that a size is a constant. The place is known at the moment when PyTorch decides so, in
# `ShapeEnv._set_replacement`, which is replaced for as long as an export runs.
class Specializations:
    """A context manager that keeps the places of one thread."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self._places: dict[tuple[int, str], str] = {}
        self._seen: dict[int, Any] = {}  # keeps each ShapeEnv alive, so that no other one gets its id

    def __enter__(self) -> None:
        _WATCH.add(self)

    def __exit__(self, *_error: object) -> None:
        _WATCH.remove(self)

    def place(self, shape_env: Any, symbol: Any) -> str | None:
        """Where a symbol of a `ShapeEnv` became a constant, as `app.py, line 12, in forward`; None where it is not known."""
        return self._places.get((id(shape_env), str(symbol)))

    def note(self, shape_env: Any, symbol: Any, frame: FrameType | None) -> None:
        """A symbol becomes a constant in this frame."""
        if threading.get_ident() != self._thread:
            return
        key = id(shape_env), str(symbol)
        if key in self._places:
            return
        with contextlib.suppress(Exception):  # the export continues without the place
            place = _place(frame)
            if place is not None:
                self._seen[id(shape_env)] = shape_env
                self._places[key] = place


class _Watch:
    """The exports that are running. `ShapeEnv._set_replacement` is replaced while there are any."""

    def __init__(self) -> None:
        self._lock = renewed(self, "_lock", threading.Lock)
        self._patches: Patches | None = None
        self.running: tuple[Specializations, ...] = ()

    def add(self, specializations: Specializations) -> None:
        from torch.fx.experimental.symbolic_shapes import ShapeEnv

        with self._lock:
            self.running = (*self.running, specializations)
            if self._patches is None and "_set_replacement" in vars(ShapeEnv):
                self._patches = Patches("torch")
                self._patches.replace_attribute(ShapeEnv, "_set_replacement", _noticing)

    def remove(self, specializations: Specializations) -> None:
        with self._lock:
            self.running = tuple(other for other in self.running if other is not specializations)
            if not self.running and self._patches is not None:
                self._patches.undo()
                self._patches = None


_WATCH = _Watch()


def _noticing(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def set_replacement(shape_env: Any, symbol: Any, target: Any, *args: Any, **kwargs: Any) -> Any:
        if getattr(target, "is_number", False):
            for running in _WATCH.running:
                running.note(shape_env, symbol, sys._getframe(1))
        return original(shape_env, symbol, target, *args, **kwargs)

    return set_replacement


def _place(frame: FrameType | None) -> str | None:
    """The innermost place that is in the program's code; None where there is none."""
    from torch._guards import TracingContext

    traced = TracingContext.extract_stack()  # where Dynamo is: it runs no frame of the program
    if traced:
        return _text(traced[-1].filename, traced[-1].lineno, traced[-1].name)
    while frame is not None:
        if frame.f_code.co_filename[:1] != "<" and _is_of_program(frame.f_globals.get("__name__")):
            return _text(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
        frame = frame.f_back
    return None


def _is_of_program(module: object) -> bool:
    return type(module) is str and module.partition(".")[0] not in _LIBRARIES


def _text(file: str, line: int | None, function: str) -> str:
    return f"{source_places.reduced(file)}, line {line}, in {function}"


_LIBRARIES = frozenset({"contextlib", "functools", "sympy", "torch", "torchspan"})
