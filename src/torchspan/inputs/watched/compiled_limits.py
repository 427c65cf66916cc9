# SPDX-License-Identifier: Apache-2.0
"""What the engines in a compiled module were built for, by the arguments of the module.

Where an argument goes into an engine directly, the engine's own profile counts, as TensorRT has it: so it is for a module that was
compiled in this process and for one that was loaded. Elsewhere, and where the runtime shows no profile (that in C++), it is the
range that the exported program has for the dimension, which the compilation makes profiles from.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from torchspan.base.reading import is_a
from torchspan.inputs.observed.leaves import Constant, Leaf, Path, TensorShape
from torchspan.inputs.observed.signatures import CallSignature
from torchspan.inputs.observed.trees import Reader, leaves
from torchspan.inputs.watched.engine_limits import EngineLimits, Shapes, SizeRange

_Ranges = tuple[SizeRange, ...]

_RUN = "execute_engine"
"""The operator that runs an engine, in graphs that were saved and loaded (torch_tensorrt/dynamo/_exporter.py)."""

_ONE_OR_MORE = 2
"""How torch.export writes a smallest size of 1, for which Torch-TensorRT builds profiles from 1 on (dynamo/utils.py)."""


def limits_of(module: Any, signature: CallSignature) -> EngineLimits | None:
    """What the module's engines were built for; None where it is not a graph, or nothing of its arguments is known.

    It reads the graph and asks TensorRT for profiles. It compiles nothing and allocates nothing on the device.

    Args:
        signature: By which the calls of the module are known.
    """
    fx: Any = sys.modules.get("torch.fx")
    if fx is None or not is_a(module, fx.GraphModule):
        return None
    inputs = _inputs(module, signature)
    engines = [_bound(engine) for engine in _engines(module) if engine is not None]
    ranges: dict[Path, _Ranges] = {}
    for node, path in inputs.items():
        own = [ranges_of[node] for ranges_of in engines if node in ranges_of]
        narrowest = _narrowest(own) if own and not _is_complex(node) else _of_program(node)
        if narrowest is not None:
            ranges[path] = narrowest
    return EngineLimits(ranges) if ranges else None


# --- arguments -------------------------------------------------------------------------------------------------------
def shapes_of(signature: CallSignature, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Shapes:
    """The shapes of the tensors of one call. Raises UnfitCallError, SymbolicCallError and TooManyLeavesError."""
    arguments = _leaves(signature, args, kwargs)
    return {path: leaf.shape for path, leaf in arguments if isinstance(leaf, TensorShape)}


def _leaves(signature: CallSignature, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Iterator[tuple[Path, Leaf]]:
    reader = Reader()
    for name, value in signature.bind(args, kwargs).arguments.items():
        yield from leaves(reader.read(value, (name,)), (name,))


def _inputs(module: Any, signature: CallSignature) -> dict[Any, Path]:
    """The graph's placeholders, each with the path of the argument that it stands for."""
    nodes = [node for node in module.graph.nodes if node.op == "placeholder"]
    numbers: list[int] = list(range(len(nodes)))
    spec = getattr(getattr(module.graph._codegen, "pytree_info", None), "in_spec", None)
    args, kwargs = (numbers, {}) if spec is None else sys.modules["torch.utils._pytree"].tree_unflatten(numbers, spec)
    arguments = _leaves(signature, tuple(args), kwargs)
    return {nodes[leaf.value]: path for path, leaf in arguments if isinstance(leaf, Constant)}


# --- engines ---------------------------------------------------------------------------------------------------------
def _engines(module: Any) -> Iterator[tuple[Any, Sequence[str], Sequence[Any]] | None]:
    """Of each engine that the graph runs TensorRT's own object, the names of its inputs, and the nodes that it gets for them."""
    for node in module.graph.nodes:
        if node.op == "call_module":
            yield _of_runner(module.get_submodule(node.target), node.args)
        elif node.op == "call_function" and _RUN in str(node.target):
            inputs, engine = node.args
            yield _of_runner(_attribute(module, engine), inputs)


def _attribute(module: Any, node: Any) -> Any:
    """What a node of the graph reads of the module: `engine`, or `part.engine`."""
    holder = module
    for name in str(getattr(node, "target", "")).split("."):
        holder = getattr(holder, name, None)
    return holder


def _of_runner(runner: Any, inputs: Sequence[Any]) -> tuple[Any, Sequence[str], Sequence[Any]] | None:
    """`runner` is the object that runs an engine, by the names of all versions: a module, or an engine of the runtime."""
    engine = getattr(runner, "engine", runner)
    names = _first(engine, "in_binding_names") or _first(runner, "input_binding_names", "input_names")
    handle = _first(engine, "cuda_engine") or engine
    return (handle, names, inputs) if names and hasattr(handle, "get_tensor_profile_shape") else None


def _first(holder: Any, *names: str) -> Any:
    return next((member for name in names if (member := getattr(holder, name, None)) is not None), None)


def _bound(engine: tuple[Any, Sequence[str], Sequence[Any]]) -> dict[Any, _Ranges]:
    """Node -> its ranges in the profile of the engine, the first one, with which the runtime runs it."""
    handle, names, inputs = engine
    return {
        node: tuple(
            SizeRange(int(low), int(opt), int(high))
            for low, opt, high in zip(*map(tuple, handle.get_tensor_profile_shape(name, 0)), strict=True)
        )
        for name, node in zip(names, inputs, strict=False)
        if not handle.is_shape_inference_io(name)  # its values have limits, not its shape
    }


def _narrowest(alternatives: Sequence[_Ranges]) -> _Ranges:
    """Of an argument that several engines get: what all of them take."""
    first, *others = alternatives
    for other in others:
        first = tuple(_both(a, b) for a, b in zip(first, other, strict=False))
    return first


def _both(a: SizeRange, b: SizeRange) -> SizeRange:
    highs = [range_of_axis.high for range_of_axis in (a, b) if range_of_axis.high is not None]
    return SizeRange(max(a.low, b.low), a.opt, min(highs, default=None))


# --- the exported program --------------------------------------------------------------------------------------------
def _of_program(node: Any) -> _Ranges | None:
    """The ranges of the tensor that a placeholder stands for; None where it is not a tensor."""
    shape = getattr(node.meta.get("val"), "shape", None)
    return None if shape is None else tuple(_range(size) for size in shape)


def _is_complex(node: Any) -> bool:
    """Whether an engine gets the tensor in another shape: a pair of real numbers for each complex one."""
    return bool(getattr(getattr(node.meta.get("val"), "dtype", None), "is_complex", False))


def _range(size: Any) -> SizeRange:
    if type(size) is int:
        return SizeRange(size, size, size)
    symbol = size.node
    bounds = symbol.shape_env.bound_sympy(symbol.expr)
    low, high = _limit(bounds.lower) or 0, _limit(bounds.upper)
    return SizeRange(1 if low == _ONE_OR_MORE else low, _limit(symbol.hint), high)


def _limit(number: Any) -> int | None:
    """A bound as Python's number; None for infinity, and for none."""
    if number is None or not getattr(number, "is_finite", True):
        return None
    try:
        return int(number)
    except (TypeError, OverflowError, ValueError):
        return None
