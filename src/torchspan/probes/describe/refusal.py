# SPDX-License-Identifier: Apache-2.0
"""Which validators refused a node, and with which arguments it came.

Validators answer yes or no and give no reason. They may be the program's, so none is run a second time: what is said is
their names and what they were asked about.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from torchspan import semconv
from torchspan._base.scratch import Key, Scratch
from torchspan.probes.describe._values import LIST_LIMIT, leaves, operator_name

Facts = dict[str, Any]

KEYS = (semconv.REFUSED_OPERATORS, semconv.REFUSED_VALIDATORS, semconv.REFUSED_ARGUMENTS)
"""The attributes that say what validators refused."""

NO_DYNAMIC_SHAPES = "supports_dynamic_shapes=False"
"""Stands for a converter that was registered for static shapes alone, where the node has dynamic ones."""

_NAMES_LIMIT = 4
"""Validators that are named for an operator."""

_IDENTIFIER = re.compile(r"[\w.]{1,256}")


class Refusal(NamedTuple):
    """validators: by name. arguments: those of the node, each with its data type if it has one."""

    validators: str
    arguments: str


REFUSALS: Key[dict[str, Refusal]] = Key("refusals")
"""Scratch key: operator -> how its first node was refused."""


def note(scratch: Scratch, node: Any, candidates: Iterable[Any], *, assume_dynamic: bool) -> None:
    """Take note of a node that none of the candidates (`ConverterSupport`) takes, the first of its operator alone."""
    refusals = scratch.setdefault(REFUSALS, {})
    name = operator_name(node.target)
    if name in refusals or len(refusals) >= LIST_LIMIT:
        return
    is_dynamic = not assume_dynamic and any(_is_dynamic(each) for each in (node, *node.all_input_nodes))
    named = dict.fromkeys(each for candidate in candidates for each in _refusing(candidate, is_dynamic=is_dynamic))
    refusals[name] = Refusal(", ".join(list(named)[:_NAMES_LIMIT]), ", ".join(_arguments(node)))


def facts(scratch: Scratch, operators: Iterable[str]) -> Facts:
    """The attributes for those of the operators that were refused."""
    wanted = set(operators)
    found = [(name, each) for name, each in scratch.get(REFUSALS, {}).items() if name in wanted]
    if not found:
        return {}
    return {
        semconv.REFUSED_OPERATORS: [name for name, _ in found],
        semconv.REFUSED_VALIDATORS: [each.validators for _, each in found],
        semconv.REFUSED_ARGUMENTS: [each.arguments for _, each in found],
    }


def _refusing(candidate: Any, *, is_dynamic: bool) -> Iterator[str]:
    if is_dynamic and not getattr(candidate, "supports_dynamic_shapes", False):
        yield NO_DYNAMIC_SHAPES
    else:
        yield from _names(getattr(candidate, "capability_validator", None))


def _names(validator: Any) -> Iterator[str]:
    """`module.function`; of a function made by another, the maker; of a lambda, the functions that it calls."""
    if isinstance(validator, functools.partial):
        validator = validator.func
    module, name = getattr(validator, "__module__", ""), getattr(validator, "__qualname__", "")
    name = name.partition(".<locals>")[0]
    if name == "<lambda>":
        variables = validator.__globals__
        called = (each for each in validator.__code__.co_names if callable(variables.get(each)))
        yield from (f"{module}.{each}" for each in called)
    elif _IDENTIFIER.fullmatch(f"{module}.{name}"):
        yield f"{module}.{name}"


def _arguments(node: Any) -> Iterator[str]:
    """`self: float32`, `dim`: names from the operator's schema; of a tensor its data type, of other values nothing."""
    schema = getattr(getattr(node.target, "_schema", None), "arguments", ())
    for index, value in enumerate(node.args):
        yield _argument(schema[index].name if index < len(schema) else f"argument {index}", value)
    for name, value in node.kwargs.items():
        yield _argument(name, value)


def _argument(name: str, value: Any) -> str:
    nodes = (each for each in leaves(value) if hasattr(each, "meta"))
    values = [each for node in nodes for each in leaves(node.meta.get("val"))]
    dtypes = dict.fromkeys(str(each.dtype).removeprefix("torch.") for each in values if hasattr(each, "dtype"))
    kinds = [*dtypes, *(["dynamic"] if any(_has_symbols(each) for each in values) else [])]
    return f"{name}: {' '.join(kinds)}" if kinds else name


def _is_dynamic(node: Any) -> bool:
    return any(_has_symbols(each) for each in leaves(node.meta.get("val")))


def _has_symbols(value: Any) -> bool:
    """Whether a size is symbolic, by its type: asking it for its value would add a guard."""
    return type(value).__name__ in {"SymInt", "SymFloat", "SymBool"} or any(
        type(size) is not int for size in getattr(value, "shape", ())
    )
