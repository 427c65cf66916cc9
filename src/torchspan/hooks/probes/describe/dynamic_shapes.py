# SPDX-License-Identifier: Apache-2.0
"""What an export was requested to do with the dimensions of its inputs: `torch.export.export(..., dynamic_shapes=)`.

Names of dimensions are texts of the program and are not recorded. A dimension is identified by its position, `inputs[0].shape[1]`:
`inputs[i]` is the argument for parameter `i` of `forward`.
"""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Iterator
from types import FunctionType
from typing import Any

from torchspan.base import reading
from torchspan.base.reading import attribute
from torchspan.hooks.probes._call import Call
from torchspan.hooks.probes.describe.common import LIST_LIMIT, NESTING_LIMIT, VISITS_LIMIT

_UNBOUNDED = "int_oo"
"""PyTorch's own word for no limit (torch/utils/_sympy/numbers.py)."""


def asked(model: Any, shapes: Any) -> list[str] | None:
    """The first `LIST_LIMIT` dimensions that are to be dynamic, each with its range or its hint; None if there is none.

    Args:
        shapes: The specification, as `torch.export.export` takes it.
    """
    wanted = ((where, _wanted(size)) for where, size in itertools.islice(_dimensions(model, shapes), LIST_LIMIT))
    return [f"{where}: {size}" for where, size in wanted if size is not None] or None


def named_dimensions(model: Any, shapes: Any) -> dict[str, str]:
    """Name of a dimension, as in exceptions -> its position."""
    named = ((reading.text(attribute(size, "__name__")), where) for where, size in _dimensions(model, shapes))
    return {name: where for name, where in named if name is not None}


_SOURCE = re.compile(r"L\['(?P<parameter>\w+)'\](?P<inside>(?:\[\d+\])*)\.size\(\)\[(?P<number>\d+)\]")
"""How PyTorch writes the position of a dimension (torch/_dynamo/source.py)."""


def of_source(text: str, call: Call) -> str | None:
    """The position of a dimension that PyTorch calls `L['x'].size()[0]`; None for any other text."""
    match, names = _SOURCE.fullmatch(text), parameters(call.get("mod"))
    if match is None or match["parameter"] not in names:
        return None
    return f"inputs[{names.index(match['parameter'])}]{match['inside']}.shape[{match['number']}]"


def parameters(model: Any) -> list[str]:
    """The names of the parameters of `forward`, in order, without `self`."""
    forward = reading.unwrapped(reading.method(type(model), "forward"))
    if type(forward) is not FunctionType:
        return []
    code = forward.__code__
    return list(code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount])


# --- the specification -----------------------------------------------------------------------------------------------
def _dimensions(model: Any, shapes: Any) -> Iterator[tuple[str, Any]]:
    """Position of a dimension -> what was given for it."""
    indexes = {name: index for index, name in enumerate(parameters(model))}
    visits = itertools.repeat(None, VISITS_LIMIT)
    for position, (name, shape) in enumerate(_numbered(shapes)):
        index = indexes.get(name, position) if type(name) is str else position
        yield from _below(f"inputs[{index}]", shape, NESTING_LIMIT, visits)


def _below(where: str, shape: Any, depth: int, visits: Iterator[None]) -> Iterator[tuple[str, Any]]:
    """The dimensions of a tensor, or of the tensors in a list or dictionary of specifications."""
    for position, ((number, size), _) in enumerate(zip(_numbered(shape), visits, strict=False)):
        if reading.is_a(size, (list, tuple, dict)):
            if depth:
                yield from _below(f"{where}[{position}]", size, depth - 1, visits)
        elif type(number) is int:
            yield f"{where}.shape[{number}]", size


def _numbered(value: Any) -> list[tuple[Any, Any]]:
    """The entries of a dictionary by their keys, or of a list or tuple by their positions."""
    if reading.is_a(value, (list, tuple)):
        return list(enumerate(reading.entries(value) or ()))
    return reading.pairs(value)


def _wanted(size: Any) -> str | None:
    """`[1, 8]` for a named dimension, `auto` for a hint, the size for a number; None for a value that requests nothing."""
    if type(size) is int:
        return str(size)
    if not reading.is_of_library(type(size)):
        return None
    if _is_dimension(size):
        return _range(size)
    hint = reading.text(attribute(attribute(size, "type"), "name"))
    if hint is None:
        return None
    limits = [attribute(size, name) for name in ("min", "max")]
    return hint.lower() if limits == [None, None] else f"{hint.lower()} {_range(size)}"


def _is_dimension(size: Any) -> bool:
    return reading.is_of_library(type(size)) and reading.has(size, "__name__")


def _range(size: Any) -> str:
    """The limits of a dimension. Those of a derived one are computed, which raises if they make no sense."""
    low: Any = None
    high: Any = None
    with contextlib.suppress(Exception):
        low, high = attribute(size, "min"), attribute(size, "max")
    return f"[{low if type(low) is int else 0}, {high if type(high) is int else _UNBOUNDED}]"
