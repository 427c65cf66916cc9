# SPDX-License-Identifier: Apache-2.0
"""From objects of the observed libraries to attribute values, without disturbing them.

Symbolic sizes are turned into text and never into numbers: asking a SymInt for its value adds a guard to the
graph being compiled.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from torchspan import semconv

LIST_LIMIT = 20
"""Longest list that becomes an attribute."""


def dimensions(shape: Iterable[Any]) -> list[str]:
    """Each dimension as text; `str` of a symbolic size shows its expression and guards nothing."""
    return [str(dimension) for dimension in shape]


def shape_text(value: Any) -> str:
    """`[1, 16]` for a tensor or a static Input, `[1..4..8, 16]` (min, opt, max) for a dynamic one."""
    shape = getattr(value, "shape", None)
    if shape is None:
        return type(value).__name__
    if isinstance(shape, Mapping):
        ranges = zip(*(dimensions(shape[key]) for key in ("min_shape", "opt_shape", "max_shape")), strict=False)
        return f"[{', '.join(low if low == high else f'{low}..{opt}..{high}' for low, opt, high in ranges)}]"
    return f"[{', '.join(dimensions(shape))}]"


_DTYPES = {
    "f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "f8": "float8_e4m3fn",
    "i64": "int64", "i32": "int32", "i8": "int8", "u8": "uint8", "b": "bool",
}  # fmt: skip
"""PyTorch's names of the data types that Torch-TensorRT's own enumeration abbreviates."""


def dtype_text(value: Any) -> str:
    """`float32` for `torch.float32` as for Torch-TensorRT's `dtype.f32`."""
    dtype = getattr(value, "dtype", None)
    if dtype is None:
        return type(value).__name__
    name = getattr(dtype, "name", None) or str(dtype).removeprefix("torch.")
    return _DTYPES.get(name, str(name))


_TENSORRT_DTYPES = {"float": "float32", "half": "float16", "bf16": "bfloat16", "fp8": "float8_e4m3fn"}


def tensorrt_dtype(dtype: Any) -> str:
    """`float32` for `tensorrt.DataType.FLOAT`: PyTorch's name where there is one."""
    name = str(dtype.name).lower()
    return _TENSORRT_DTYPES.get(name, name)


def leaves(value: Any) -> Iterator[Any]:
    """The leaves of nested lists, tuples and dicts, in order."""
    if isinstance(value, Mapping):
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        if value is not None:
            yield value
        return
    for each in value:
        yield from leaves(each)


def inputs(*groups: Any) -> tuple[list[str], list[str]]:
    """Shapes and data types of the first `LIST_LIMIT` leaves of `groups`."""
    found = [leaf for group in groups for leaf in leaves(group)][:LIST_LIMIT]
    return [shape_text(leaf) for leaf in found], [dtype_text(leaf) for leaf in found]


def node_count(value: Any) -> int | None:
    """Nodes of a GraphModule or ExportedProgram; None for anything else."""
    graph = getattr(value, "graph", None)
    nodes = getattr(graph, "nodes", None)
    return None if nodes is None else len(nodes)


def calls(graph_module: Any) -> Iterator[Any]:
    """The `call_function` nodes of a graph."""
    return (node for node in graph_module.graph.nodes if node.op == "call_function")


def operator_name(target: Any) -> str:
    """`torch.ops.aten.add.Tensor` for an overload, `_operator.getitem` for a Python function.

    The names under which Torch-TensorRT reports operators and takes them in `torch_executed_ops`.
    """
    if hasattr(target, "_overloadname"):
        return f"torch.ops.{target}"
    module, name = getattr(target, "__module__", None), getattr(target, "__name__", None)
    if module and name:
        return f"{module}.{name}"
    return str(target)


def model_class(model: Any) -> str | None:
    """Class of a module; of an exported program or traced graph, the class of the module it was made from."""
    if hasattr(model, "graph"):
        for node in model.graph.nodes:
            stack = node.meta.get("nn_module_stack")
            if stack:
                path, origin = next(iter(stack.values()))
                if path:  # Dynamo's graphs know the modules inside the model, not the model
                    return None
                name = origin if isinstance(origin, str) else f"{origin.__module__}.{origin.__qualname__}"
                return name.rpartition(".")[2]
        return None
    return type(model).__qualname__


def stand_in(thing: Any) -> dict[str, Any]:
    """`torchspan.stand_in` where `thing` is, or belongs to, the stand-in for a GPU of `torchspan.testing`."""
    marked = getattr(thing, "__torchspan_stand_in__", False) is True
    return {semconv.STAND_IN: True} if marked else {}


def known(facts: Mapping[str, Any]) -> dict[str, Any]:
    """`facts` without those that are None: what is unknown has no attribute."""
    return {key: value for key, value in facts.items() if value is not None}
