# SPDX-License-Identifier: Apache-2.0
"""Which validators refused a node, and which arguments the node has.

Validators return true or false and give no reason. They may be the program's, so none is run a second time. Recorded are their
names and the arguments of the node.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator
from types import FunctionType
from typing import Any, NamedTuple

from torchspan.base import reading
from torchspan.base.reading import attribute
from torchspan.base.scratch import Key, Scratch
from torchspan.hooks.probes.describe.common import (
    LIST_LIMIT,
    dtype_name,
    dtype_of,
    leaves,
    meta,
    operator_name,
    shape_of,
)
from torchspan.words import semconv

Facts = dict[str, Any]

KEYS = (semconv.REFUSED_OPERATORS, semconv.REFUSED_VALIDATORS, semconv.REFUSED_ARGUMENTS)
"""The attributes that say what validators refused."""

NO_DYNAMIC_SHAPES = "supports_dynamic_shapes=False"
"""Represents a converter that was registered only for static shapes, if the node has dynamic ones."""

_NAMES_LIMIT = 4
"""Validators that are named for an operator."""

_IDENTIFIER = re.compile(r"[\w.]{1,256}")


class Refusal(NamedTuple):
    """How a node was refused.

    Attributes:
        validators: The names of the validators.
        arguments: The arguments of the node, each with its data type if it has one.
    """

    validators: str
    arguments: str


REFUSALS: Key[dict[str, Refusal]] = Key("refusals")
"""Scratch key: operator -> how its first node was refused."""


def note(scratch: Scratch, node: Any, candidates: Iterable[Any], *, assume_dynamic: bool) -> None:
    """Record a node that none of the candidates (`ConverterSupport`) accepts: only the first node of its operator."""
    refusals = scratch.setdefault(REFUSALS, {})
    name = operator_name(attribute(node, "target"))
    if name in refusals or len(refusals) >= LIST_LIMIT:
        return
    is_dynamic = not assume_dynamic and any(_is_dynamic(neighbor) for neighbor in (node, *inputs_of(node)))
    named = dict.fromkeys(
        validator for candidate in candidates for validator in _refusing(candidate, is_dynamic=is_dynamic)
    )
    refusals[name] = Refusal(", ".join(list(named)[:_NAMES_LIMIT]), ", ".join(_arguments(node)))


def facts(scratch: Scratch, operators: Iterable[str]) -> Facts:
    """The attributes for those of the operators that were refused."""
    wanted = set(operators)
    refusals = [(name, refused) for name, refused in scratch.get(REFUSALS, {}).items() if name in wanted]
    if not refusals:
        return {}
    return {
        semconv.REFUSED_OPERATORS: [name for name, _ in refusals],
        semconv.REFUSED_VALIDATORS: [refused.validators for _, refused in refusals],
        semconv.REFUSED_ARGUMENTS: [refused.arguments for _, refused in refusals],
    }


def _refusing(candidate: Any, *, is_dynamic: bool) -> Iterator[str]:
    if is_dynamic and not reading.switch(attribute(candidate, "supports_dynamic_shapes")):
        yield NO_DYNAMIC_SHAPES
    else:
        yield from _names(attribute(candidate, "capability_validator"))


def _names(validator: Any) -> Iterator[str]:
    """`module.function`. For a function made by another, the maker; for a lambda, the functions that it calls."""
    if reading.is_a(validator, functools.partial):
        validator = attribute(validator, "func")
    module, name = (
        reading.text(attribute(validator, attribute_name)) or "" for attribute_name in ("__module__", "__qualname__")
    )
    name = name.partition(".<locals>")[0]
    if name == "<lambda>" and type(validator) is FunctionType:
        variables = validator.__globals__
        called = (called_name for called_name in validator.__code__.co_names if callable(variables.get(called_name)))
        yield from (f"{module}.{name}" for name in called)
    elif _IDENTIFIER.fullmatch(f"{module}.{name}"):
        yield f"{module}.{name}"


def _arguments(node: Any) -> Iterator[str]:
    """`self: float32`, `dim`: names from the operator's schema, with the data type of a tensor and nothing of other values."""
    schema = reading.entries(attribute(attribute(attribute(node, "target"), "_schema"), "arguments")) or []
    names = [reading.text(attribute(argument, "name")) for argument in schema]
    for index, value in enumerate(reading.entries(attribute(node, "args")) or ()):
        yield _argument((names[index] if index < len(names) else None) or f"argument {index}", value)
    for name, value in reading.pairs(attribute(node, "kwargs")):
        yield _argument(reading.text(name) or "?", value)


def _argument(name: str, value: Any) -> str:
    values = [leaf for node in leaves(value) for leaf in leaves(meta(node, "val"))]
    dtypes = dict.fromkeys(dtype_name(dtype_of(value)) for value in values)
    kinds = [
        *(dtype for dtype in dtypes if dtype is not None),
        *(["dynamic"] if any(_has_symbols(value) for value in values) else []),
    ]
    return f"{name}: {' '.join(kinds)}" if kinds else name


def _is_dynamic(node: Any) -> bool:
    return any(_has_symbols(leaf) for leaf in leaves(meta(node, "val")))


def _has_symbols(value: Any) -> bool:
    """Whether a size is symbolic, by its type: asking it for its value would add a guard."""
    if reading.class_name(type(value)) in {"SymInt", "SymFloat", "SymBool"}:
        return True
    return any(type(size) is not int for size in reading.entries(shape_of(value)) or ())


def inputs_of(node: Any) -> list[Any]:
    """The nodes whose results a node takes."""
    return [
        neighbor
        for neighbor in reading.entries(attribute(node, "all_input_nodes")) or ()
        if reading.only_stores(type(neighbor))
    ]
