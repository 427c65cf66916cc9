# SPDX-License-Identifier: Apache-2.0
"""Why an export failed, as far as its exception says.

PyTorch's messages are templates with the program's names and values in them. What is taken out of them is the kind of
violation, and which dimension of which input it is about.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Any

from torchspan import semconv
from torchspan._base.raised import text_of
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
    stack = vars(error).get("real_stack")  # of Dynamo, which runs no frame of the model
    found = place.of_traceback(error.__traceback__) or place.of_summaries(stack or ())
    facts: Facts = {} if found is None else found.facts()
    if type(error).__module__.partition(".")[0] == "torch":
        facts[semconv.EXPORT_FAILED_OPERATOR] = _operator(error)
        facts[semconv.VIOLATED_CONSTRAINTS] = _violated(text_of(error)[:_SEARCHED], call)[:LIST_LIMIT] or None
    return known(facts)


def _operator(error: BaseException) -> str | None:
    """The operator that the exception is about: one without a meta kernel, or whose result depends on data."""
    function = getattr(error, "func", None)  # UnsupportedOperatorException and the like (_subclasses/fake_tensor.py)
    if hasattr(function, "_overloadname"):
        return operator_name(function)
    graph = getattr(error, "partial_fx_graph", None)  # GuardOnDataDependentSymNode
    made = list(_MADE.finditer(graph[-_SEARCHED:])) if isinstance(graph, str) else []
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
    if isinstance(shapes, Mapping):
        each = ((parameters.get(name, index), shape) for index, (name, shape) in enumerate(shapes.items()))
    elif isinstance(shapes, (list, tuple)):
        each = enumerate(shapes)  # type: ignore[assignment]
    else:
        return
    for index, shape in each:
        sizes = shape.items() if isinstance(shape, Mapping) else enumerate(shape) if _is_list(shape) else ()
        for number, size in sizes:
            name = getattr(size, "__name__", None)
            if isinstance(name, str):
                yield name, f"inputs[{index}].shape[{number}]"


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple))


def _parameters(model: Any) -> dict[str, int]:
    try:
        names = inspect.signature(model.forward).parameters
    except (AttributeError, TypeError, ValueError):
        return {}
    return {name: index for index, name in enumerate(names)}
