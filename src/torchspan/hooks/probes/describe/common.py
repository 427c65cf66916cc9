# SPDX-License-Identifier: Apache-2.0
"""From objects of the observed libraries to attribute values, without disturbing them.

Symbolic sizes are turned into text and never into numbers: asking a SymInt for its value adds a guard to the
graph being compiled. Of objects of the program no code runs: see `torchspan.base.reading`.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import re
import sys
from array import array
from collections.abc import Iterable, Iterator, Mapping
from mmap import mmap
from typing import Any

from torchspan.base import reading
from torchspan.base.reading import attribute, is_a
from torchspan.words import semconv

# --- the id of an engine --------------------------------------------------------------------------------------------
BLOCKS, BLOCK_BYTES = 64, 1024
"""The number and size of the blocks that are read of an engine, including its first and last bytes. A smaller engine is read whole."""


def engine_id(serialized: Any) -> str | None:
    """16 hexadecimal digits for a serialized engine; None for an object without bytes, or with bytes in several pieces.

    Engines have gigabytes and their ids are computed often. So the id is a digest of the length and of blocks at even distances,
    read through the buffer protocol without a copy. The time does not depend on the size. Equal ids mean equal lengths and
    blocks. Two different builds differ in their plan's first blocks or nearly everywhere. A refit of a few weights may fall
    between the blocks.

    Args:
        serialized: Bytes, TensorRT's IHostMemory, or another contiguous buffer of Python's or of a library's. (Since
            Python 3.12 a class may define `__buffer__`.)
    """
    if not reading.exactly(serialized, *_BUFFERS) and not reading.is_of_library(type(serialized)):
        return None
    try:
        with memoryview(serialized) as whole, whole.cast("B") as view:
            return _digest(view) if view.nbytes else None
    except (TypeError, ValueError, BufferError):
        return None


_BUFFERS = (bytes, bytearray, memoryview, array, mmap)


def _digest(view: memoryview) -> str:
    size = view.nbytes
    digest = hashlib.blake2b(size.to_bytes(8, "little"), digest_size=8)
    if size <= BLOCKS * BLOCK_BYTES:
        digest.update(view)
    else:
        for index in range(BLOCKS):
            start = index * (size - BLOCK_BYTES) // (BLOCKS - 1)
            digest.update(view[start : start + BLOCK_BYTES])
    return digest.hexdigest()


# ------------------------------------------------------------------------------------------------------------------
LIST_LIMIT = 20
"""Entries of the longest list that becomes an attribute."""

NESTING_LIMIT = 20
"""Depth to which nested containers are read."""

VISITS_LIMIT = 1_000
"""Entries of nested containers that are read."""

UNKNOWN = "?"
"""A size or data type that cannot be read without running the program's code."""


# --- tensors ---------------------------------------------------------------------------------------------------------
def shape_of(value: Any) -> Any:
    """The shape of a tensor by PyTorch's own function, or the `shape` of another object; None without one."""
    return _of_tensor(value, "shape") if _is_tensor(value) else attribute(value, "shape")


def dtype_of(value: Any) -> Any:
    """The data type, read as in `shape_of`."""
    return _of_tensor(value, "dtype") if _is_tensor(value) else attribute(value, "dtype")


def _is_tensor(value: Any) -> bool:
    return is_a(value, reading.loaded("torch", "Tensor"))


def _of_tensor(value: Any, name: str) -> Any:
    """Read what PyTorch itself stores, past `__torch_function__` and modes, which may be the program's.

    A subclass that defines `__torch_dispatch__` is not read, because PyTorch may call it for its sizes.
    """
    kind, torch = type(value), sys.modules["torch"]
    if kind is not torch.Tensor:
        defined_in = reading.definer(kind, "__torch_dispatch__")
        if defined_in is not None and reading.module_of(defined_in).partition(".")[0] != "torch":
            return None
    with torch._C.DisableTorchFunction():
        return getattr(torch.Tensor, name).__get__(value, kind)


# --- shapes and data types -------------------------------------------------------------------------------------------
def dimensions(shape: Any) -> list[str] | None:
    """Each dimension as text. A symbolic size shows its expression and adds no guard. None for what is not a shape."""
    entries = reading.entries(shape) if is_a(shape, (tuple, list)) else None
    if entries is None and reading.is_of_library(type(shape)):  # TensorRT has its own class for sizes
        with contextlib.suppress(TypeError):
            entries = list(shape)
    return None if entries is None else [_dimension(size) for size in entries]


def _dimension(size: Any) -> str:
    if type(size) is int:
        return str(size)
    return str(size) if reading.is_of_library(type(size)) else UNKNOWN


def shape_list(shape: Any) -> str | None:
    """`[1, 16]`; None for what is not a shape."""
    sizes = dimensions(shape)
    return None if sizes is None else f"[{', '.join(sizes)}]"


def shape_text(value: Any) -> str:
    """`[1, 16]` for a tensor or a static Input, `[1..4..8, 16]` (min, opt, max) for a dynamic one."""
    shape = shape_of(value)
    if is_a(shape, dict):
        ranges_by_axis = dict(reading.pairs(shape))
        bounds = [dimensions(ranges_by_axis.get(key)) or [] for key in ("min_shape", "opt_shape", "max_shape")]
        ranges = zip(*bounds, strict=False)
        return f"[{', '.join(low if low == high else f'{low}..{opt}..{high}' for low, opt, high in ranges)}]"
    sizes = shape_list(shape)
    return reading.class_name(type(value)).rpartition(".")[2] if sizes is None else sizes


_DTYPES = {
    "f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "f8": "float8_e4m3fn",
    "i64": "int64", "i32": "int32", "i8": "int8", "u8": "uint8", "b": "bool",
}  # fmt: skip
"""PyTorch's names of the data types that Torch-TensorRT's own enumeration abbreviates."""


def dtype_text(value: Any) -> str:
    """`float32` for `torch.float32` as for Torch-TensorRT's `dtype.f32`."""
    dtype = dtype_of(value)
    name = None if dtype is None else dtype_name(dtype)
    if name is None:
        return reading.class_name(type(value)).rpartition(".")[2] if dtype is None else UNKNOWN
    return _DTYPES.get(name, name)


def dtype_name(dtype: Any) -> str | None:
    """The name of a data type of a library, or of one whose name is a text; None for anything else."""
    name = reading.text(dtype) or reading.text(attribute(dtype, "name"))
    if name is None and reading.is_of_library(type(dtype)):
        name = str(dtype)
    return None if name is None else name.removeprefix("torch.")


_TENSORRT_DTYPES = {"float": "float32", "half": "float16", "bf16": "bfloat16", "fp8": "float8_e4m3fn"}


def tensorrt_dtype(dtype: Any) -> str:
    """`float32` for `tensorrt.DataType.FLOAT`: PyTorch's name where there is one."""
    name = (reading.text(attribute(dtype, "name")) or UNKNOWN).lower()
    return _TENSORRT_DTYPES.get(name, name)


def leaves(value: Any) -> Iterator[Any]:
    """The leaves of nested lists, tuples and dicts, in order; of the first `VISITS_LIMIT` entries."""
    return _leaves([value], NESTING_LIMIT, itertools.repeat(None, VISITS_LIMIT))


def _leaves(pending: list[Any], depth: int, visits: Iterator[None]) -> Iterator[Any]:
    for group, _ in zip(pending, visits, strict=False):
        inner = reading.entries(group) if is_a(group, (list, tuple, dict)) else None
        if inner is not None and depth:
            yield from _leaves(inner, depth - 1, visits)
        elif inner is None and group is not None:
            yield group


def inputs(*groups: Any) -> tuple[list[str], list[str]]:
    """Shapes and data types of the first `LIST_LIMIT` leaves of `groups`."""
    flattened = list(itertools.islice((leaf for group in groups for leaf in leaves(group)), LIST_LIMIT))
    return [shape_text(leaf) for leaf in flattened], [dtype_text(leaf) for leaf in flattened]


# --- graphs ----------------------------------------------------------------------------------------------------------
def graph_of(value: Any) -> Any:
    """The graph of a traced module or of an exported program; None without one."""
    if reading.is_of_library(type(value)):
        return attribute(value, "graph")
    attributes = reading.instance_dict(value)
    if "_graph_module" in attributes:  # of a program whose class is derived from PyTorch's
        return graph_of(attributes["_graph_module"])
    graph = attributes.get("_graph", attributes.get("graph"))  # `graph` of a module is a property over `_graph`
    return graph if graph is None or reading.only_stores(type(graph)) else None


def nodes_of(value: Any) -> Any:
    """The nodes of the graph of `value`, in order; None without a graph."""
    return attribute(graph_of(value), "nodes")


def node_count(value: Any) -> int | None:
    """Nodes of a GraphModule or ExportedProgram; None for anything else."""
    nodes = nodes_of(value)
    if nodes is None:
        return None
    return len(nodes) if reading.is_of_library(type(nodes)) or reading.exactly(nodes, list, tuple) else None


def calls(graph_module: Any) -> Iterator[Any]:
    """The `call_function` nodes of a graph."""
    return (node for node in nodes(graph_module) if node.op == "call_function")


def nodes(graph_module: Any) -> Iterator[Any]:
    """The nodes of a graph that are PyTorch's, so that what they store may be read."""
    nodes = nodes_of(graph_module)
    if nodes is None or not (reading.is_of_library(type(nodes)) or reading.exactly(nodes, list, tuple)):
        return iter(())
    return filter(is_node, nodes)


def is_node(value: Any) -> bool:
    """Whether it is a node of a graph, whose attributes can be read without running code."""
    if not reading.only_stores(type(value)):
        return False
    return type(getattr(value, "op", None)) is str and type(getattr(value, "name", None)) is str


def meta(node: Any, key: str) -> Any:
    """What a pass has stored about a node."""
    metadata = attribute(node, "meta")
    return metadata.get(key) if type(metadata) is dict else None


def children(module: Any) -> list[tuple[str, Any]]:
    """Names and modules directly inside a module."""
    pairs = reading.pairs(attribute(module, "_modules"))
    return [(name, child) for name, child in pairs if type(name) is str and child is not None]


def operator_name(target: Any) -> str:
    """`torch.ops.aten.add.Tensor` for an overload, `_operator.getitem` for a Python function.

    The names under which Torch-TensorRT reports operators and takes them in `torch_executed_ops`.
    """
    overload = reading.text(attribute(target, "_overloadname"))
    if overload is not None:
        qualified = (
            reading.text(attribute(target, "_name")) or UNKNOWN
        )  # `aten::add.Tensor`, `aten::add` for the default
        return f"torch.ops.{qualified.partition('.')[0].replace('::', '.')}.{overload}"
    if type(target) is str:
        return target
    module, name = reading.text(attribute(target, "__module__")), reading.text(attribute(target, "__name__"))
    if module and name:
        return f"{module}.{name}"
    kind = type(target)
    return str(target) if reading.is_of_library(kind) else f"{reading.module_of(kind)}.{reading.class_name(kind)}"


def model_class(model: Any) -> str | None:
    """Class of a module; of an exported program or traced graph, the class of the module it was made from."""
    if graph_of(model) is None:
        return reading.class_name(type(model))
    for node in nodes(model):
        stack = meta(node, "nn_module_stack")
        entry = next(iter(reading.entries(stack) or ()), None) if is_a(stack, dict) else None
        if type(entry) is tuple and len(entry) == 2 and type(entry[0]) is str:
            path, origin = entry
            if path != "":  # Dynamo's graphs know the modules inside the model, not the model
                return None
            name = reading.text(origin)
            if name is None and is_a(origin, type):
                name = reading.class_name(origin)
            return None if name is None else name.rpartition(".")[2]
    return None


def handle_of(engine: Any) -> Any:
    """TensorRT's own object: `cuda_engine` of a `TRTEngine`, `engine` of the older runtime's module."""
    return attribute(engine, "cuda_engine" if reading.has(engine, "cuda_engine") else "engine")


def stand_in(thing: Any) -> dict[str, Any]:
    """`torchspan.stand_in` where `thing` is, or belongs to, the stand-in for a GPU of `torchspan.testing`."""
    return {semconv.STAND_IN: True} if attribute(thing, "__torchspan_stand_in__") is True else {}


def without_none(facts: Mapping[str, Any]) -> dict[str, Any]:
    """`facts` without those that are None: an unknown value has no attribute.

    The wrappers leave these out of what the functions of a probe describe.
    """
    return {key: value for key, value in facts.items() if value is not None}


def first_match(classes: Iterable[tuple[str, str]], text: str, otherwise: str) -> str:
    """The class of the first expression that the text matches at its beginning.

    Args:
        classes: Expression and class.
    """
    return next((name for form, name in classes if re.match(form, text)), otherwise)
