# SPDX-License-Identifier: Apache-2.0
"""Why an export failed, as far as its exception says.

PyTorch's messages are templates with the program's names and values in them. What is taken out of them is the kind of
violation, and which dimension of which input it is about.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import FunctionType
from typing import Any

from torchspan import semconv
from torchspan._base import reading
from torchspan._base.raised import text_of
from torchspan._base.reading import attribute
from torchspan._base.scratch import Scratch
from torchspan.probes._call import Call
from torchspan.probes.describe import place
from torchspan.probes.describe._values import LIST_LIMIT, known, operator_name

Facts = dict[str, Any]

_SEARCHED = 20_000
"""Characters of a message that are searched."""

_DIMENSION = r"(?P<{0}>\w+)(?: = L\[\S+\])?"
_VIOLATIONS = (
    # torch/fx/experimental/symbolic_shapes.py, since 2.1
    (
        re.compile(rf"You marked {_DIMENSION.format('one')} as dynamic but your code specialized it to be a constant"),
        "specialized to a constant",
    ),
    (
        re.compile(rf"Not all values of {_DIMENSION.format('one')} .*was inferred to be a constant"),
        "specialized to a constant",
    ),
    (
        re.compile(rf"Not all values of {_DIMENSION.format('one')} .*satisfy the generated guard"),
        "not all values of its range are valid",
    ),
    (
        re.compile(rf"The values of {_DIMENSION.format('one')} and {_DIMENSION.format('other')} must always be equal"),
        "always equal to",
    ),
)
_MADE = re.compile(r'Sym\([^"\n]*\)" = (?P<operator>torch\.ops\.[\w.]+)\(')
"""In the graph that comes with the exception: an operator whose result is a number that depends on data."""


def export(call: Call, error: BaseException, _scratch: Scratch) -> Facts:
    """`torch.export.export(mod, args, ..., dynamic_shapes=)` that raised; of other exceptions than torch's the place alone."""
    stack = reading.instance_dict(error).get("real_stack")  # of Dynamo, which runs no frame of the model
    found = place.of_traceback(reading.traceback_of(error)) or place.of_summaries(stack)
    facts: Facts = {} if found is None else found.facts()
    if reading.is_of_library(type(error)):
        facts[semconv.EXPORT_FAILED_OPERATOR] = _operator(error)
        facts[semconv.VIOLATED_CONSTRAINTS] = _violated(text_of(error)[:_SEARCHED], call)[:LIST_LIMIT] or None
    return known(facts)


def _operator(error: BaseException) -> str | None:
    """The operator that the exception is about: one without a meta kernel, or whose result depends on data."""
    function = attribute(error, "func")  # UnsupportedOperatorException and the like (_subclasses/fake_tensor.py)
    if reading.has(function, "_overloadname"):
        return operator_name(function)
    graph = attribute(error, "partial_fx_graph")  # GuardOnDataDependentSymNode
    made = list(_MADE.finditer(graph[-_SEARCHED:])) if type(graph) is str else []
    return made[-1]["operator"] if made else None


def _violated(message: str, call: Call) -> list[str]:
    if "Constraints violated" not in message:
        return []
    names = dict(_dimensions(call))
    found = {}
    for pattern, kind in _VIOLATIONS:
        for each in pattern.finditer(message):
            words = [names.get(name, "?") for name in each.groups()]
            text = f"{words[0]}: {' '.join([kind, *words[1:]])}"
            found[text] = each.start()
    return sorted(found, key=lambda text: found[text])


def _dimensions(call: Call) -> Iterator[tuple[str, str]]:
    """Name of a dynamic dimension -> where it is, `inputs[0].shape[1]`."""
    shapes = call.get("dynamic_shapes")
    parameters = _parameters(call.get("mod"))
    for position, (name, shape) in enumerate(_numbered(shapes)):
        index = parameters.get(name, position) if type(name) is str else position
        for number, size in _numbered(shape):
            dimension = reading.text(attribute(size, "__name__"))
            if dimension is not None and type(number) is int:
                yield dimension, f"inputs[{index}].shape[{number}]"


def _numbered(value: Any) -> list[tuple[Any, Any]]:
    """The entries of a dictionary by their keys, or of a list or tuple by their positions."""
    if reading.is_a(value, (list, tuple)):
        return list(enumerate(reading.entries(value) or ()))
    return reading.pairs(value)


def _parameters(model: Any) -> dict[str, int]:
    forward = reading.unwrapped(reading.method(type(model), "forward"))
    if type(forward) is not FunctionType:
        return {}
    code = forward.__code__
    names = code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]
    return {name: index for index, name in enumerate(names)}
