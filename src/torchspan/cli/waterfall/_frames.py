# SPDX-License-Identifier: Apache-2.0
"""What the line of a frame of torch.compile says."""

from __future__ import annotations

from collections.abc import Callable

from torchspan import phase, semconv
from torchspan.semconv.torch import FrameOutcome
from torchspan.traces import Span

_ENDINGS = {
    FrameOutcome.SKIPPED: "runs eagerly",
    FrameOutcome.LIMIT: "runs eagerly from now on: the recompile limit is reached",
    FrameOutcome.FALLEN_BACK: "fell back to eager",
}


def subject(span: Span) -> str:
    """`forward 0/1`: the function and Dynamo's compile id; empty for another span than a frame's or a backward graph's."""
    if span.name not in {phase.COMPILE_FRAME.name, phase.COMPILE_BACKWARD.name}:
        return ""
    found = (span.attributes.get(key) for key in (semconv.CODE_FUNCTION, semconv.COMPILE_ID))
    return " ".join(str(each) for each in found if each)


def notes(span: Span) -> list[str]:
    """Why the frame was compiled again, where its graph broke, and that it runs eagerly."""
    found = []
    reason, outcome = (span.attributes.get(key) for key in (semconv.RECOMPILE_REASON, semconv.FRAME_OUTCOME))
    if span.name == phase.COMPILE_FRAME.name and reason:
        found.append(f"{'not compiled' if outcome == FrameOutcome.LIMIT else 'recompiled'}: {reason}")
    found += [_graph_break(each.attributes.get) for each in span.events if each.name == semconv.GRAPH_BREAK_EVENT]
    ending = _ENDINGS.get(str(outcome))
    return [*found, *([] if ending is None else [ending])]


def _graph_break(get: Callable[[str], object]) -> str:
    file, line = get(semconv.CODE_FILE), get(semconv.CODE_LINE)
    place = f" at {file}:{line}" if file and line else ""
    return f"graph break{place}: {str(get(semconv.GRAPH_BREAK_CLASS) or 'other').replace('_', ' ')}"
