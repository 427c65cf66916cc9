# SPDX-License-Identifier: Apache-2.0
"""Sizes of arguments that a recompiled version of a function leaves open, where it also fits what an earlier version was compiled for.

Marking these sizes before the first call makes one version of the two. That holds only if both differ in nothing else that Dynamo guards,
and if the earlier sizes meet each condition that the newer version has for them. Both are read from Dynamo's own records (torch 2.14);
nothing is evaluated but PyTorch's arithmetic of sizes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from torchspan.base import reading
from torchspan.base.reading import attribute
from torchspan.words import semconv

MOST_SIZES = 8
"""From more sizes on, nothing is said."""
_SHAPE = re.compile(r"check_tensor\((?P<name>.*), Tensor, Dispatch.*(?P<lists>size=\[(?P<size>.*)\], stride=\[.*\])\)")
_ARGUMENT = re.compile(r"L\['(\w+)'\]")

_Sizes = dict[tuple[str, int], str]
"""The size of each axis of each tensor, as its guard has it: a number, or `None` where it is open."""


def facts(variables: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments and axes; empty where nothing can be known.

    Args:
        variables: Those of Dynamo's `_compile`, which has compiled another version.
    """
    graph = attribute(variables.get("output"), "shape_env")
    backend = attribute(variables.get("compiler_fn"), "_torchdynamo_orig_backend")
    new = _guards(attribute(variables.get("guarded_code"), "guarded_code"))
    if graph is None or new is None:
        return {}
    for entry in reading.entries(variables.get("cache_entries")) or ():
        old = _guards(entry) if attribute(entry, "backend") is backend else None
        differing = _differing(old, new) if old is not None else {}
        found = [(_ARGUMENT.fullmatch(name), axis) for name, axis in differing]
        arguments = [match[1] for match, _ in found if match is not None]
        if 0 < len(found) <= MOST_SIZES and len(arguments) == len(found) and _fits(graph, differing):
            return {semconv.OPEN_SIZES_ARGUMENTS: arguments, semconv.OPEN_SIZES_AXES: [axis for _, axis in found]}
    return {}


def _guards(version: Any) -> tuple[_Sizes, list[str]] | None:
    """The sizes that a version was compiled for, and its other guards; None if they are not known."""
    parts = reading.entries(attribute(attribute(version, "guard_manager"), "code_parts"))
    if parts is None:
        return None
    sizes: _Sizes = {}
    others = []
    for part in parts:
        match = _SHAPE.fullmatch(part)
        if match is not None:
            sizes.update({(match["name"], axis): size for axis, size in enumerate(match["size"].split(", "))})
        others.append(part if match is None else part.replace(match["lists"], ""))
    return sizes, others


def _differing(old: tuple[_Sizes, list[str]], new: tuple[_Sizes, list[str]]) -> dict[tuple[str, int], int]:
    """The earlier sizes of what is open now; empty if the versions differ in anything else."""
    if old[1] != new[1] or old[0].keys() != new[0].keys():
        return {}
    differing = {place: old[0][place] for place, size in new[0].items() if old[0][place] != size}
    if any(new[0][place] != "None" for place in differing):
        return {}
    return {place: int(size) for place, size in differing.items() if size.isdecimal()}


def _fits(graph: Any, sizes: Mapping[tuple[str, int], int]) -> bool:
    """Whether these sizes meet what the version that was compiled last asks of them."""
    if not reading.is_of_library(type(graph)):
        return False
    places = {f"{name}.size()[{axis}]": size for (name, axis), size in sizes.items()}
    earlier = {}
    for symbol, sources in graph.var_to_sources.items():
        named = [places[source.name] for source in sources if source.name in places]
        if len(named) == 1:
            earlier[symbol] = named[0]
    if len(earlier) != len(sizes) or any(size not in graph.var_to_range[symbol] for symbol, size in earlier.items()):
        return False
    conditions = [guard.expr for guard in graph.guards if guard.expr.free_symbols & earlier.keys()]
    return all(bool(condition.xreplace(earlier) == True) for condition in conditions)  # noqa: E712  (an expression of sympy)
