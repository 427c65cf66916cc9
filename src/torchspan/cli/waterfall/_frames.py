# SPDX-License-Identifier: Apache-2.0
"""What the line of a frame of torch.compile says."""

from __future__ import annotations

import re

from torchspan import phase, semconv
from torchspan.cli.waterfall._code_places import source_line
from torchspan.semconv.torch import BreakClass, FrameOutcome
from torchspan.traces import Attributes, Span

_RESUMED = re.compile(r"torch_dynamo_resume_in_(.+)_at_(\d+)")
"""What Dynamo calls the rest of a function after a graph break (torch/_dynamo/resume_execution.py)."""

_ENDINGS = {
    FrameOutcome.SKIPPED: "runs eagerly",
    FrameOutcome.LIMIT: "runs eagerly from now on: the recompile limit is reached",
    FrameOutcome.FALLEN_BACK: "fell back to eager",
}
_BREAKS = {
    BreakClass.DATA_DEPENDENT_BRANCH: "data-dependent branch",
    BreakClass.DATA_DEPENDENT_VALUE: "data-dependent value",
}


def subject(span: Span) -> str:
    """`forward 0/1`: the function and Dynamo's compile id, of a frame or a backward graph. `for 0/1` of a wait; else empty."""
    waited_for = span.attributes.get(semconv.WAIT_IDS)
    if span.name == phase.COMPILE_WAIT.name and isinstance(waited_for, list) and waited_for:
        return f"for {', '.join(map(str, waited_for))}"
    if span.name not in {phase.COMPILE_FRAME.name, phase.COMPILE_BACKWARD.name}:
        return ""
    compile_id = span.attributes.get(semconv.COMPILE_ID)
    return " ".join(filter(None, (function(span.attributes), str(compile_id) if compile_id else "")))


def function(attributes: Attributes) -> str:
    """`forward`, or `forward from line 19` for what is left of it after a graph break; empty where it is not known."""
    name = str(attributes.get(semconv.CODE_FUNCTION) or "")
    resumed = _RESUMED.fullmatch(name)
    return name if resumed is None else f"{resumed[1]} from line {resumed[2]}"


def is_resumed(attributes: Attributes) -> bool:
    """Whether the frame is what is left of a function after a graph break."""
    return _RESUMED.fullmatch(str(attributes.get(semconv.CODE_FUNCTION) or "")) is not None


def graph_break(attributes: Attributes) -> str:
    """`graph break at model.py:41: data-dependent branch`, of the attributes of its event."""
    place, kind = source_line(attributes), str(attributes.get(semconv.GRAPH_BREAK_CLASS) or BreakClass.OTHER)
    return f"graph break{f' at {place}' if place else ''}: {_BREAKS.get(kind, kind.replace('_', ' '))}"


def notes(span: Span) -> list[str]:
    """Why the frame was compiled again, where its graph broke, and that it runs eagerly."""
    found = []
    reason, outcome = (span.attributes.get(key) for key in (semconv.RECOMPILE_REASON, semconv.FRAME_OUTCOME))
    if span.name == phase.COMPILE_FRAME.name and reason:
        found.append(f"{'not compiled' if outcome == FrameOutcome.LIMIT else 'recompiled'}: {reason}")
    found += [graph_break(event.attributes) for event in span.events if event.name == semconv.GRAPH_BREAK_EVENT]
    ending = _ENDINGS.get(str(outcome))
    return [*found, *([] if ending is None else [ending])]
