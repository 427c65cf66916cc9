# SPDX-License-Identifier: Apache-2.0
"""Frames of torch.compile: from Dynamo's reports to facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import CodeType
from typing import Any

from torchspan import semconv
from torchspan._base import reading
from torchspan._base.reading import attribute
from torchspan.probes._actions import Facts
from torchspan.probes.describe import graph_breaks, recompiles
from torchspan.probes.describe._values import known
from torchspan.probes.describe.graph_breaks import GraphBreak
from torchspan.semconv.torch import FrameOutcome

RESTARTS_LIMIT = 20
"""Reasons of restarts that are listed."""


def function(code: Any, receiver: type | None = None) -> Facts:
    """The function whose code Dynamo compiles. For a resumed frame, Dynamo's name for the rest of it.

    A method that a decorator has replaced by its own function is called as in its class: `Net.forward`, not `wrapper`.

    receiver: the class of the first argument.
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
    """The facts in `CompilationMetrics` about a frame of `code`: sizes, restarts, and the failure."""
    return known(
        {
            semconv.GUARDS_COUNT: _number(metrics, "guard_count"),
            semconv.GRAPH_OPERATORS: _number(metrics, "graph_op_count"),
            semconv.GRAPH_NODES: _number(metrics, "graph_node_count"),
            semconv.GRAPH_INPUTS: _number(metrics, "graph_input_count"),
            semconv.COMPILE_ENTRIES: _number(metrics, "cache_size"),
            semconv.RESTART_REASONS: _restarts(metrics) or None,
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
    found = reading.text(text)
    return None if found is None else found.lstrip().partition("\n")[0]


def _number(metrics: Any, name: str) -> int | None:
    return reading.whole_number(attribute(metrics, name))


def _restarts(metrics: Any) -> list[str]:
    """In alphabetical order: Dynamo keeps them as a set."""
    given = reading.entries(attribute(metrics, "restart_reasons")) or []
    return sorted(filter(None, map(first_line, given)))[:RESTARTS_LIMIT]


_GAVE_UP = frozenset({"Unsupported", "SkipFrame"})
"""Classes of torch._dynamo.exc with which Dynamo leaves a frame to Python."""
_LIMIT = "Dynamo recompile limit exceeded"


@dataclass(frozen=True, kw_only=True, slots=True)
class Ending:
    """How the compilation of a frame ends.

    metrics: what Dynamo has measured; None if that is not known. error: the exception of the compilation. swallowed: class of a
    failure that the backend caught, if it is known. is_whole: whether a graph break is an error. suppresses_errors: whether
    Dynamo runs eagerly what it fails to compile.
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
        return known({semconv.FRAME_OUTCOME: self.outcome, semconv.COMPILE_FAILURE_TYPE: failure})

    def left_to_python(self) -> GraphBreak | None:
        """The graph break for which the whole frame runs eagerly, as Dynamo sums it up. None if that has another cause."""
        reason = reading.text(attribute(self.metrics, "fail_reason"))
        if self.outcome != FrameOutcome.SKIPPED or reason is None:
            return None
        place: dict[str, Any] = {
            semconv.CODE_FILE: reading.text(attribute(self.metrics, "fail_user_frame_filename")),
            semconv.CODE_LINE: _number(self.metrics, "fail_user_frame_lineno"),
        }
        return GraphBreak({**graph_breaks.of_reason(reason), **known(place), semconv.GRAPH_BREAK_SKIPS: True})
