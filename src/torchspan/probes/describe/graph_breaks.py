# SPDX-License-Identifier: Apache-2.0
"""Graph breaks: from Dynamo's reports to facts."""

from __future__ import annotations

import re
from typing import NamedTuple

from torchspan import semconv
from torchspan._base import reading
from torchspan._base.reading import attribute
from torchspan.probes._actions import Facts
from torchspan.probes._call import Call
from torchspan.probes.describe import declarations, place
from torchspan.probes.describe._values import first_match, known
from torchspan.semconv.torch import BreakClass, Declared

_SKIPS = "Failed to handle graph break gracefully"
"""The beginning of a reason that leaves the whole frame to Python (torch/_dynamo/symbolic_convert.py)."""

_CLASSES = (
    (r"Call to `torch\._dynamo\.(?:graph_break|skip_frame|step_unsupported)\(\)`", BreakClass.REQUESTED),
    (r".*torch\.(?:compiler|_dynamo)\.disable\b", BreakClass.DISABLED),
    (r"Data.dependent branching|generic_jump", BreakClass.DATA_DEPENDENT_BRANCH),
    (
        r"Data.dependent|Dynamic (?:shape|slicing)|Unsupported Tensor\.item\(\)|.*unbacked",
        BreakClass.DATA_DEPENDENT_VALUE,
    ),
    (r"Observed exception|.*\bexception\b", BreakClass.EXCEPTION),
    (r".*context ?manager|.*contextlib", BreakClass.CONTEXT_MANAGER),
    (r".*marked as skipped|.*\bskipped function", BreakClass.SKIPPED_FUNCTION),
    (r".*\bbuiltin\b", BreakClass.BUILTIN),
    (r".*\bnn\.Module\b", BreakClass.MODULE),
    (r".*\b(?:Tensor|tensor|op|operator|fake)\b", BreakClass.OPERATOR),
)
"""The first expression that a type of graph break matches at its beginning gives its class."""

_EXPLANATION = re.compile(r"^\s*Explanation: (.*)$", re.MULTILINE)
_PROGRAMS_WORDS = re.compile(r"(?<=Message: ).*|(?<=\(reason: ).*(?=\))")
"""The program's reason for a break that it requested."""


class GraphBreak(NamedTuple):
    """A graph break, by its facts. Its class is one of them."""

    facts: Facts


def graph_break(call: Call) -> GraphBreak | None:
    """`InstructionTranslatorBase.log_graph_break(self, code_options, reason, exc)`; None for one that was logged before."""
    error, reason = call.get("exc"), reading.text(call.get("reason")) or ""
    if attribute(error, "logged") is True:
        return None
    raised_at = place.of_summaries(attribute(error, "real_stack"))
    kind = _type(reason) or reading.text(attribute(error, "gb_type"))
    facts = {**of_reason(reason, kind), **({} if raised_at is None else raised_at.facts())}
    declared = declarations.of_break(reading.text(attribute(error, "msg")) or reason)
    if declared is not None:
        facts.update(declared.facts())
        if declared.api == Declared.DISALLOW_IN_GRAPH:
            facts[semconv.GRAPH_BREAK_CLASS] = BreakClass.REQUESTED
    return GraphBreak({**facts, semconv.GRAPH_BREAK_SKIPS: reason.startswith(_SKIPS)})


def of_reason(reason: str, kind: str | None = None) -> Facts:
    """Class, type and explanation. kind: the type, if it is not the first line of the reason."""
    kind = kind or reason.lstrip().partition("\n")[0]
    explained = _EXPLANATION.search(reason)
    return known(
        {
            semconv.GRAPH_BREAK_CLASS: class_of(kind),
            semconv.GRAPH_BREAK_TYPE: kind,
            semconv.GRAPH_BREAK_REASON: None if explained is None else _PROGRAMS_WORDS.sub("?", explained[1]),
        }
    )


def class_of(kind: str) -> str:
    """The class of a type of graph break (torch/_dynamo/graph_break_registry.json)."""
    return first_match(_CLASSES, kind, BreakClass.OTHER)


def _type(reason: str) -> str | None:
    """The type of the break itself, if the reason begins with what Dynamo was doing: a paragraph that ends in a colon."""
    first, _, rest = reason.partition("\n\n")
    if not rest or not first.rstrip().endswith((":", "f(x, y):")):
        return None
    return rest.lstrip().partition("\n")[0]
