# SPDX-License-Identifier: Apache-2.0
"""From a module to an exported program, and its decomposition: the request and the result."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

from torchspan import semconv
from torchspan._base import reading
from torchspan._base.reading import attribute
from torchspan._base.scratch import Scratch
from torchspan.probes._call import Call
from torchspan.probes.describe import compilation, dynamic_shapes
from torchspan.probes.describe.common import (
    LIST_LIMIT,
    UNKNOWN,
    calls,
    inputs,
    leaves,
    model_class,
    node_count,
    operator_name,
    without_none,
)

Facts = dict[str, Any]


# --- the request -----------------------------------------------------------------------------------------------------
def trace(call: Call) -> Facts:
    """`torch_tensorrt.dynamo.trace(mod, inputs, ...)`, which is non-strict by default (its documentation)."""
    positional, keywords = (call.get("inputs"), call.get("arg_inputs")), call.get("kwarg_inputs")
    shapes, dtypes = inputs(*positional, keywords)
    return without_none(
        {
            semconv.MODEL_CLASS: model_class(call.get("mod")),
            semconv.STRICT: reading.switch(call.kwargs.get("strict", False)),
            semconv.INPUT_NAMES: _names(
                call.get("mod"), positional[0] if positional[1] is None else positional[1], keywords
            ),
            semconv.INPUT_SHAPES: shapes,
            semconv.INPUT_DTYPES: dtypes,
        }
    )


def export(call: Call) -> Facts:
    """`torch.export.export(mod, args, kwargs, dynamic_shapes, strict=)`, and the function that it calls."""
    positional, keywords = call.get("args"), call.get("kwargs")
    shapes, dtypes = inputs(positional, keywords)
    return without_none(
        {
            semconv.MODEL_CLASS: model_class(call.get("mod")),
            semconv.STRICT: reading.switch(call.get("strict")),
            semconv.INPUT_NAMES: _names(call.get("mod"), positional, keywords),
            semconv.INPUT_SHAPES: shapes,
            semconv.INPUT_DTYPES: dtypes,
            semconv.DYNAMIC_SHAPES: dynamic_shapes.asked(call),
        }
    )


def draft(call: Call) -> Facts:
    """`torch.export.draft_export`, which has the parameters of `export`."""
    return {**export(call), semconv.EXPORT_DRAFT: True}


def decompose(call: Call) -> Facts:
    """`ExportedProgram.run_decompositions(self, decomp_table)`."""
    table = call.get("decomp_table")
    return without_none(
        {**compilation.graph_in(call), semconv.DECOMPOSITIONS_COUNT: len(table) if type(table) is dict else None}
    )


def _names(model: Any, positional: Any, keywords: Any) -> list[str] | None:
    """The parameter of `forward` for each tensor of the arguments, in the order of `inputs`; None if none is known.

    A text that the program passes as a name (a key, `Input.name`) is recorded only if it is the name of a parameter.
    """
    parameters = dynamic_shapes.parameters(model)
    by_position = itertools.zip_longest(reading.entries(positional) or (), parameters, fillvalue=UNKNOWN)
    count = len(reading.entries(positional) or ())
    named = [(name, value) for value, name in itertools.islice(by_position, count)]
    shapes = [
        own if own in parameters else name if name in parameters else UNKNOWN
        for name, value in (*named, *reading.pairs(keywords))
        for own in (reading.text(attribute(leaf, "name")) for leaf in leaves(value))
    ]
    return shapes[:LIST_LIMIT] if any(shape != UNKNOWN for shape in shapes) else None


# --- the result ------------------------------------------------------------------------------------------------------
def exported(_call: Call, result: Any, _scratch: Scratch) -> Facts:
    """Size of an exported program, and its dynamic dimensions."""
    if not reading.is_of_library(type(result)):
        return without_none({semconv.NODES_COUNT: node_count(result)})
    ranges = [
        f"{symbol}: [{bounds.lower}, {bounds.upper}]"
        for symbol, bounds in reading.pairs(result.range_constraints)[:LIST_LIMIT]
    ]
    return without_none({semconv.NODES_COUNT: node_count(result), semconv.RANGE_CONSTRAINTS: ranges or None})


def drafted(call: Call, result: Any, scratch: Scratch) -> Facts:
    """The result of a draft, and how often each kind of problem is in its report (torch/export/_draft_export.py)."""
    report = attribute(result, "_report")
    kinds = Counter(
        reading.text(attribute(attribute(problem, "failure_type"), "name")) or UNKNOWN
        for problem in reading.entries(attribute(report, "failures")) or ()
    )
    facts = exported(call, result, scratch)
    if kinds:
        facts[semconv.EXPORT_ISSUE_CLASSES] = [kind.lower() for kind in kinds]
        facts[semconv.EXPORT_ISSUE_COUNTS] = list(kinds.values())
    return facts


def resolved(call: Call, result: Any, scratch: Scratch) -> Facts:
    """`_process_export_inputs(mod, args, kwargs, dynamic_shapes)`: the fourth part of its result is what `dynamic_shapes` means."""
    meant = (reading.entries(result) or ())[3:4]
    if not meant or not reading.is_of_library(type(call.get("dynamic_shapes"))):
        return {}
    asked = call.get("mod"), meant[0]
    scratch[dynamic_shapes.NAMED] = dynamic_shapes.named_dimensions(*asked)
    return without_none({semconv.DYNAMIC_SHAPES: dynamic_shapes.listed(*asked)})


def decomposed(call: Call, result: Any, scratch: Scratch) -> Facts:
    """Size of the new program, and the operators of the old one that the new one does not have."""
    left = {id(node.target) for node in calls(result)}
    gone: dict[int, tuple[Any, int]] = {}
    for node in calls(call.get("self")):
        if id(node.target) not in left:
            target, count = gone.get(id(node.target), (node.target, 0))
            gone[id(node.target)] = target, count + 1
    counts = sorted(
        ((operator_name(target), count) for target, count in gone.values()), key=lambda row: (-row[1], row[0])
    )
    facts = compilation.graph_out(call, result, scratch)
    if counts:
        facts[semconv.DECOMPOSED_NAMES] = [name for name, _ in counts[:LIST_LIMIT]]
        facts[semconv.DECOMPOSED_COUNTS] = [count for _, count in counts[:LIST_LIMIT]]
    return facts
