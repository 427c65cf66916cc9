# SPDX-License-Identifier: Apache-2.0
"""Frames of torch.compile: from Dynamo's reports to facts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import CodeType
from typing import Any, NamedTuple

from torchspan import semconv
from torchspan._base import reading
from torchspan._base.reading import attribute
from torchspan.probes._actions import Facts
from torchspan.probes._call import Call
from torchspan.probes.describe import declarations, place, recompiles
from torchspan.probes.describe.common import first_match, without_none
from torchspan.semconv.torch import BreakClass, Declared, FrameOutcome

# --- graph breaks ---------------------------------------------------------------------------------------------------
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
    """Class, type and explanation.

    Args:
        kind: The type, if it is not the first line of the reason.
    """
    kind = kind or reason.lstrip().partition("\n")[0]
    explained = _EXPLANATION.search(reason)
    return without_none(
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


# ------------------------------------------------------------------------------------------------------------------
def function(code: Any, receiver: type | None = None) -> Facts:
    """The function whose code Dynamo compiles. For a resumed frame, Dynamo's name for the rest of it.

    A method that a decorator has replaced by its own function is called as in its class: `Net.forward`, not `wrapper`.

    Args:
        receiver: The class of the first argument.
    """
    if type(code) is not CodeType:
        return {}
    bound = None if receiver is None else reading.method_of(receiver, code)
    is_decorated = bound is not None and bound.rpartition(".")[2] != code.co_name
    return {
        semconv.CODE_FUNCTION: bound if is_decorated else code.co_name,
        semconv.CODE_FILE: code.co_filename,
        semconv.CODE_LINE: code.co_firstlineno,
    }


def summary(metrics: Any, code: Any) -> Facts:
    """The facts in `CompilationMetrics` about a frame of `code`: sizes, and the failure."""
    return without_none(
        {
            semconv.GUARDS_COUNT: _number(metrics, "guard_count"),
            semconv.GRAPH_OPERATORS: _number(metrics, "graph_op_count"),
            semconv.COMPILE_FAILURE_REASON: first_line(attribute(metrics, "fail_reason")),
            semconv.COMPILE_FAILURE_FILE: reading.text(attribute(metrics, "fail_user_frame_filename")),
            semconv.COMPILE_FAILURE_LINE: _number(metrics, "fail_user_frame_lineno"),
            **recompiles.recompile(metrics, code),
            **recompiles.limit(metrics),
        }
    )


def cache_outcome(report: Mapping[str, Any]) -> str | None:
    """`hit`, `miss` or `bypass`, which a cache adds to the end of the phase that queried it."""
    return reading.text(report.get("cache_state"))


def limit_reason(error: BaseException | None) -> str | None:
    """Dynamo's message if a recompile limit was reached, which it has not measured then. None for another failure."""
    text = reading.text(attribute(error, "msg"))
    return text if text is not None and text.startswith(_LIMIT) else None


def first_line(text: Any) -> str | None:
    """The first line of a text; None for a value that is not a text."""
    phrase = reading.text(text)
    return None if phrase is None else phrase.lstrip().partition("\n")[0]


def _number(metrics: Any, name: str) -> int | None:
    return reading.whole_number(attribute(metrics, name))


_GAVE_UP = frozenset({"Unsupported", "SkipFrame"})
"""Classes of torch._dynamo.exc with which Dynamo leaves a frame to Python."""
_LIMIT = "Dynamo recompile limit exceeded"


@dataclass(frozen=True, kw_only=True, slots=True)
class Ending:
    """How the compilation of a frame ends.

    Args:
        metrics: What Dynamo has measured; None if that is not known.
        error: The exception of the compilation.
        swallowed: Class of a failure that the backend caught, if it is known.
        is_whole: Whether a graph break is an error.
        suppresses_errors: Whether Dynamo runs eagerly what it fails to compile.
    """

    metrics: Any
    error: BaseException | None
    swallowed: str | None
    is_whole: bool
    suppresses_errors: bool

    @property
    def outcome(self) -> str:
        """The value of `torch.compile.outcome`."""
        if self.error is None:
            if self.swallowed is not None:
                return FrameOutcome.FALLEN_BACK
            has_code = self.metrics is None or _number(self.metrics, "guard_count") is not None
            return FrameOutcome.COMPILED if has_code else FrameOutcome.SKIPPED  # a function without a tensor operator
        if self.is_whole:
            return FrameOutcome.FAILED
        if reading.class_name(type(self.error)) in _GAVE_UP:
            reason = first_line(attribute(self.metrics, "fail_reason")) or ""
            return FrameOutcome.LIMIT if reason.startswith(_LIMIT) else FrameOutcome.SKIPPED
        is_suppressed = self.suppresses_errors and issubclass(type(self.error), Exception)
        return FrameOutcome.FALLEN_BACK if is_suppressed else FrameOutcome.FAILED

    @property
    def reaches_the_program(self) -> bool:
        """Whether the call of the compiled function raises."""
        return self.outcome == FrameOutcome.FAILED

    def facts(self) -> Facts:
        """The outcome, and the class of the failure."""
        failure = self.swallowed if self.error is None else semconv.class_name(type(self.error))
        return without_none({semconv.FRAME_OUTCOME: self.outcome, semconv.COMPILE_FAILURE_TYPE: failure})

    def left_to_python(self) -> GraphBreak | None:
        """The graph break for which the whole frame runs eagerly, as Dynamo sums it up. None if that has another cause."""
        reason = reading.text(attribute(self.metrics, "fail_reason"))
        if self.outcome != FrameOutcome.SKIPPED or reason is None:
            return None
        place: dict[str, Any] = {
            semconv.CODE_FILE: reading.text(attribute(self.metrics, "fail_user_frame_filename")),
            semconv.CODE_LINE: _number(self.metrics, "fail_user_frame_lineno"),
        }
        return GraphBreak({**of_reason(reason), **without_none(place), semconv.GRAPH_BREAK_SKIPS: True})
