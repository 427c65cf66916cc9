# SPDX-License-Identifier: Apache-2.0
"""Why an export failed, as far as its exception shows.

PyTorch's messages are templates with the program's names and values in them. Only the kind of violation is read from them, and
which dimension of which input it concerns.
"""

from __future__ import annotations

import re
from typing import Any

from torchspan.base import reading
from torchspan.base.reading import attribute
from torchspan.base.scratch import Scratch
from torchspan.hooks.probes._call import Call
from torchspan.hooks.probes.describe import place
from torchspan.hooks.probes.describe.common import LIST_LIMIT, operator_name
from torchspan.hooks.probes.describe.dynamic_shapes import named_dimensions, of_source
from torchspan.words import semconv
from torchspan.words.redaction.messages import text_of
from torchspan.words.semconv import ExportFailure

Facts = dict[str, Any]

_SEARCHED = 20_000
"""Characters of a message that are searched."""

_DIMENSION = r"(?P<{0}>\w+|L\[\S+\])(?: = L\[\S+\])?"
"""A dimension by its name, or by where it is in the arguments."""
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
    (
        re.compile(
            rf"The values of {_DIMENSION.format('one')} must always be related to "
            rf"the values of {_DIMENSION.format('other')} by"
        ),
        "always related to",
    ),
)
_MADE = re.compile(r'Sym\([^"\n]*\)" = (?P<operator>torch\.ops\.[\w.]+)\(')
"""In the exception's graph: an operator whose result is a number that depends on data."""


def export(call: Call, error: BaseException, _scratch: Scratch) -> Facts:
    """`torch.export.export(mod, args, ..., dynamic_shapes=)` that raised. For exceptions that are not torch's, only class and place."""
    stack = reading.instance_dict(error).get("real_stack")  # of Dynamo, which runs no frame of the model
    origin = place.of_traceback(reading.traceback_of(error)) or place.of_summaries(stack)
    facts: Facts = {} if origin is None else origin.facts()
    cause = f"{semconv.class_name(type(error))}{ExportFailure.RAISED}"
    if reading.is_of_library(type(error)):
        operator, violated = _operator(error), _violated(text_of(error)[:_SEARCHED], call)[:LIST_LIMIT]
        facts[semconv.EXPORT_FAILED_OPERATOR] = operator
        facts[semconv.VIOLATED_CONSTRAINTS] = violated or None
        cause = _violation(violated) or _about_operator(error, operator) or _refusal(error) or cause
    where = "" if origin is None else f", at {origin.file}:{origin.line} in {origin.function}"
    return {**facts, semconv.EXPORT_FAILED_REASON: cause + where}


def _violation(violated: list[str]) -> str | None:
    if not violated:
        return None
    return f"{ExportFailure.VIOLATED}{violated[0]}{ExportFailure.MORE if len(violated) > 1 else ''}"


def _about_operator(error: BaseException, operator: str | None) -> str | None:
    kind = reading.class_name(type(error))
    if kind == "GuardOnDataDependentSymNode":
        return ExportFailure.CONDITION if operator is None else f"{ExportFailure.CONDITION_ON}{operator}"
    if operator is None:
        return None
    depends = _DEPENDS.get(kind)
    return f"{ExportFailure.NO_KERNEL}{operator}" if depends is None else f"{depends}{operator}{ExportFailure.DEPENDS}"


_DEPENDS = {
    "DataDependentOutputException": ExportFailure.RESULT_OF,
    "DynamicOutputShapeException": ExportFailure.SHAPE_OF,
}
"""Exceptions about an operator that has a kernel (torch/_subclasses/fake_tensor.py)."""


def _refusal(error: BaseException) -> str | None:
    """The reason why PyTorch refuses the program, or what Dynamo reports that it cannot trace (torch/_dynamo/exc.py)."""
    refused = reading.text(attribute(attribute(error, "error_type"), "name"))
    if refused is not None:  # in torch 2.11 such an exception has a `gb_type` as well
        return f"{ExportFailure.REFUSED}{refused.lower()}"
    not_traced = reading.text(attribute(error, "gb_type"))
    return f"{ExportFailure.NOT_TRACED}{not_traced}" if not_traced else None


def _operator(error: BaseException) -> str | None:
    """The operator that the exception concerns: one without a meta kernel, or whose result depends on data."""
    function = attribute(error, "func")  # UnsupportedOperatorException and similar (_subclasses/fake_tensor.py)
    if reading.has(function, "_overloadname"):
        return operator_name(function)
    graph = attribute(error, "partial_fx_graph")  # GuardOnDataDependentSymNode
    mentions = list(_MADE.finditer(graph[-_SEARCHED:])) if type(graph) is str else []
    return mentions[-1]["operator"] if mentions else None


def _violated(message: str, call: Call) -> list[str]:
    if "Constraints violated" not in message:
        return []
    names = named_dimensions(call.get("mod"), call.get("dynamic_shapes"))
    facts = {}
    for pattern, kind in _VIOLATIONS:
        for match in pattern.finditer(message):
            words = [names.get(name) or of_source(name, call) or "?" for name in match.groups()]
            text = f"{words[0]}: {' '.join([kind, *words[1:]])}"
            facts[text] = match.start()
    return sorted(facts, key=lambda text: facts[text])
