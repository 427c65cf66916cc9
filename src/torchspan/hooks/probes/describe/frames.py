# SPDX-License-Identifier: Apache-2.0
"""Frames of torch.compile: from Dynamo's reports to facts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from inspect import CO_GENERATOR
from types import CodeType, FrameType
from typing import Any

from torchspan.base import reading
from torchspan.base.reading import attribute
from torchspan.hooks.probes._actions import Facts
from torchspan.hooks.probes._call import Call
from torchspan.hooks.probes.describe import declarations, place, recompiles
from torchspan.hooks.probes.describe.common import first_match, without_none
from torchspan.words import semconv
from torchspan.words.redaction import messages
from torchspan.words.redaction.message_table import graph_breaks
from torchspan.words.redaction.messages import LibraryMessage
from torchspan.words.semconv.torch import BreakClass, Declared, FrameOutcome

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
_HINT = re.compile(r"^\s*Hint: (.*)$", re.MULTILINE)

HINTS_LIMIT = 5
"""Maximum number of hints of one graph break."""


def graph_break(call: Call) -> Facts | None:
    """`InstructionTranslatorBase.log_graph_break(self, code_options, reason, exc)`; None for one that was logged before."""
    error, reason = call.get("exc"), reading.text(call.get("reason")) or ""
    if attribute(error, "logged") is True:
        return None
    described = _of_raised(error) or of_reason(reason, _type(reason) or reading.text(attribute(error, "gb_type")))
    where, inside = _places(attribute(error, "real_stack"))
    facts = {**described, **where}
    declared = declarations.of_break(reading.text(attribute(error, "msg")) or reason)
    if declared is not None and inside is not None and inside.is_of_torch:
        # PyTorch's own code asked for it: its explanation, "User-inserted", and its hint are not for the program.
        facts = {semconv.GRAPH_BREAK_TYPE: facts[semconv.GRAPH_BREAK_TYPE], **where}
        facts[semconv.GRAPH_BREAK_CLASS] = BreakClass.OTHER
    elif declared is not None:
        facts.update(declared.facts())
        if declared.api == Declared.DISALLOW_IN_GRAPH:
            facts[semconv.GRAPH_BREAK_CLASS] = BreakClass.REQUESTED
    return {**facts, semconv.GRAPH_BREAK_SKIPS: reason.startswith(_SKIPS)}


def generator(code: Any) -> Facts:
    """The graph break of a generator of the user's own; empty for other code."""
    is_one = type(code) is CodeType and code.co_flags & CO_GENERATOR and code.co_name != "<genexpr>"
    if not is_one or place.users([place.StackPlace(code.co_filename, code.co_firstlineno, code.co_name)]) is None:
        return {}
    return {**of_reason(_GENERATOR), **function(code), semconv.GRAPH_BREAK_SKIPS: True}


_GENERATOR = """Attempt to trace generator
  Explanation: Generators cannot be compiled directly with `torch.compile`.
  Hint: Call a generator from inside of a non-generator Python function and compile that function instead."""
"""As PyTorch says it (torch/_dynamo/convert_frame.py)."""


def _places(stack: Any) -> tuple[Facts, place.StackPlace | None]:
    """The user's line, with that of a library which it calls and in which the graph broke; and the innermost place of all."""
    own, inside = place.of_break(stack)
    facts = {} if own is None else own.facts()
    if inside is not None and inside != own:
        facts[semconv.GRAPH_BREAK_INSIDE] = f"{inside.file}:{inside.line}"
    return facts, inside


def _of_raised(error: Any) -> Facts | None:
    """Class, type, explanation and hints, as PyTorch's code passed them to `torch._dynamo.exc.unimplemented`.

    They are the parameters of that function in the exception's traceback (torch 2.11 to 2.14). The frame before it is the code
    that raised the break, whose constants may leave. Of nested breaks, the first one is described: the others follow from it.
    """
    caller, parameters = _unimplemented(error)
    kind = reading.text(parameters.get("gb_type"))
    if kind is None:
        return None
    hints = map(reading.text, (reading.entries(parameters.get("hints")) or [])[:HINTS_LIMIT])
    return _of_raised(parameters.get("from_exc")) or _facts(
        kind,
        messages.of_text(reading.text(parameters.get("explanation")) or "", caller),
        [messages.of_text(hint, caller) for hint in hints if hint],
    )


def _unimplemented(error: Any) -> tuple[FrameType | None, Mapping[str, Any]]:
    """The frame that called `unimplemented`, and the parameters of that call; empty if the exception does not come from it."""
    caller: FrameType | None = None
    entry = reading.traceback_of(error) if issubclass(type(error), BaseException) else None
    while entry is not None:
        frame = entry.tb_frame
        if frame.f_globals.get("__name__") == _EXC:
            if frame.f_code.co_name == "unimplemented":
                return caller, frame.f_locals
        else:
            caller = frame
        entry = entry.tb_next
    return None, {}


_EXC = "torch._dynamo.exc"


def of_reason(reason: str, kind: str | None = None) -> Facts:
    """Class, type, explanation and hints, from the text of a graph break.

    Args:
        kind: The type, if it is not the first line of the reason.
    """
    explained = _EXPLANATION.search(reason)
    return _facts(
        kind or reason.lstrip().partition("\n")[0],
        None if explained is None else messages.of_text(explained[1]),
        [messages.of_text(hint) for hint in _HINT.findall(reason)[:HINTS_LIMIT]],
    )


def _facts(kind: str, explanation: LibraryMessage | None, hints: list[LibraryMessage]) -> Facts:
    # Any other text may be the program's, which must not decide about the class.
    is_known = kind in graph_breaks()[0]
    return without_none(
        {
            semconv.GRAPH_BREAK_CLASS: class_of(kind) if is_known else BreakClass.OTHER,
            semconv.GRAPH_BREAK_TYPE: kind,
            semconv.GRAPH_BREAK_REASON: explanation,
            semconv.GRAPH_BREAK_HINTS: hints or None,
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


def model(receiver: type | None) -> Facts:
    """The class of the module whose method Dynamo compiles; empty for another function.

    Args:
        receiver: The class of the first argument.
    """
    if receiver is None or not reading.is_a(receiver, type) or not reading.is_module(receiver):
        return {}
    return {semconv.MODEL_CLASS: reading.class_name(receiver)}


def summary(metrics: Measured, code: Any, receiver: type | None) -> Facts:
    """The facts in what Dynamo has measured about a frame of `code`: sizes, and the failure. receiver: the class of its first argument."""
    return without_none(
        {
            semconv.GUARDS_COUNT: reading.whole_number(metrics.get("guard_count")),
            semconv.GRAPH_OPERATORS: reading.whole_number(metrics.get("graph_op_count")),
            semconv.COMPILE_FAILURE_REASON: _reason(metrics.get("fail_reason")),
            semconv.COMPILE_FAILURE_FILE: reading.text(metrics.get("fail_user_frame_filename")),
            semconv.COMPILE_FAILURE_LINE: reading.whole_number(metrics.get("fail_user_frame_lineno")),
            **recompiles.recompile(metrics, code, is_of_module=bool(model(receiver))),
            **recompiles.limit(metrics),
        }
    )


def limit_reason(error: BaseException | None) -> str | None:
    """Dynamo's message if a recompile limit was reached, which it has not measured then. None for another failure."""
    text = reading.text(attribute(error, "msg"))
    return text if text is not None and text.startswith(_LIMIT) else None


def _reason(text: Any) -> LibraryMessage | None:
    phrase = reading.text(text)
    return None if phrase is None else messages.of_text(phrase)


Measured = Mapping[str, Any]
"""What Dynamo has measured of a frame, by the names of `CompilationMetrics` (torch/_dynamo/utils.py)."""

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

    metrics: Measured | None
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
            has_code = self.metrics is None or reading.whole_number(self.metrics.get("guard_count")) is not None
            return FrameOutcome.COMPILED if has_code else FrameOutcome.SKIPPED  # a function without a tensor operator
        if self.is_whole:
            return FrameOutcome.FAILED
        if reading.class_name(type(self.error)) in _GAVE_UP:
            reason = self._measured_text("fail_reason") or ""
            return FrameOutcome.LIMIT if reason.lstrip().startswith(_LIMIT) else FrameOutcome.SKIPPED
        is_suppressed = self.suppresses_errors and issubclass(type(self.error), Exception)
        return FrameOutcome.FALLEN_BACK if is_suppressed else FrameOutcome.FAILED

    def _measured_text(self, name: str) -> str | None:
        return None if self.metrics is None else reading.text(self.metrics.get(name))

    def facts(self) -> Facts:
        """The outcome, and the class of the failure."""
        failure = self.swallowed if self.error is None else semconv.class_name(type(self.error))
        facts = without_none({semconv.FRAME_OUTCOME: self.outcome, semconv.COMPILE_FAILURE_TYPE: failure})
        where = None if self.error is None else place.of_error(self.error)
        if where is not None:
            facts |= {semconv.COMPILE_FAILURE_FILE: where.file, semconv.COMPILE_FAILURE_LINE: where.line}
        return facts

    def left_to_python(self) -> Facts | None:
        """The graph break for which the whole frame runs eagerly, as Dynamo sums it up. None if that has another cause."""
        reason = self._measured_text("fail_reason")
        if self.metrics is None or self.outcome != FrameOutcome.SKIPPED or reason is None:
            return None
        where: Facts = {
            semconv.CODE_FILE: self._measured_text("fail_user_frame_filename"),
            semconv.CODE_LINE: reading.whole_number(self.metrics.get("fail_user_frame_lineno")),
        }
        if where[semconv.CODE_FILE] is None or attribute(self.error, "real_stack") is not None:
            where, _ = _places(attribute(self.error, "real_stack"))
        return {**of_reason(reason), **without_none(where), semconv.GRAPH_BREAK_SKIPS: True}
