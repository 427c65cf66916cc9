# SPDX-License-Identifier: Apache-2.0
"""What frames of torch.compile say: why they broke, ran eagerly or were compiled again, and Dynamo's own share of the time."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from torchspan import phase, semconv
from torchspan.answers import _remedies
from torchspan.answers._attributes import strings
from torchspan.answers._kinds_of_answer import Answer, Break, Failure, Frame, Recompile
from torchspan.answers._wording import words
from torchspan.answers.lines import Paragraph
from torchspan.answers.units import share, source_line, times
from torchspan.semconv.torch import BreakClass, FrameOutcome, GuardClass
from torchspan.traces import Attributes, Node, Span, at_or_below

# --- the line of a frame of torch.compile ---------------------------------------------------------------------------
_RESUMED = re.compile(r"torch_dynamo_resume_in_(.+)_at_(\d+)")
"""What Dynamo calls the rest of a function after a graph break (torch/_dynamo/resume_execution.py)."""

_ENDINGS = {
    FrameOutcome.SKIPPED: "runs eagerly",
    FrameOutcome.LIMIT: "runs eagerly from now on: the recompile limit is reached",
    FrameOutcome.FALLEN_BACK: "fell back to eager",
}


def subject(span: Span) -> str:
    """`forward 0/1`: the function and Dynamo's compile id, of a frame or a backward graph. `forward for 0/1` of a wait; else empty."""
    if span.name == phase.COMPILE_WAIT.name:
        waited_for = strings(span.attributes, semconv.WAIT_IDS)
        return " ".join(
            [*filter(None, [function(span.attributes)]), *(["for", ", ".join(waited_for)] if waited_for else [])]
        )
    if span.name not in {phase.COMPILE_FRAME.name, phase.COMPILE_BACKWARD.name}:
        return ""
    compile_id = span.attributes.get(semconv.COMPILE_ID)
    return " ".join(filter(None, (function(span.attributes), str(compile_id) if compile_id else "")))


def function(attributes: Attributes) -> str:
    """`forward`, or `forward from line 19` for what is left of it after a graph break; empty where it is not known."""
    name = str(attributes.get(semconv.CODE_FUNCTION) or "")
    resumed = _RESUMED.fullmatch(name)
    return name if resumed is None else f"{resumed[1]} from line {resumed[2]}"


def whole_function(attributes: Attributes) -> str:
    """`forward`, also for what is left of it after a graph break; empty where it is not known."""
    name = str(attributes.get(semconv.CODE_FUNCTION) or "")
    while (resumed := _RESUMED.fullmatch(name)) is not None:
        name = resumed[1]
    return name


def is_resumed(attributes: Attributes) -> bool:
    """Whether the frame is what is left of a function after a graph break."""
    return _RESUMED.fullmatch(str(attributes.get(semconv.CODE_FUNCTION) or "")) is not None


def graph_break(attributes: Attributes) -> str:
    """`graph break at model.py:41: Data-dependent branching`, of the attributes of its event."""
    place, inside = source_line(attributes), attributes.get(semconv.GRAPH_BREAK_INSIDE)
    return f"graph break{f' at {place}' if place else ''}{f' in {inside}' if inside else ''}: {break_type(attributes)}"


def break_type(attributes: Attributes) -> str:
    """`Data-dependent branching`: PyTorch's name for the kind of a graph break; its class where the name is not known."""
    if attributes.get(semconv.DECLARED_API):
        return str(attributes.get(semconv.GRAPH_BREAK_CLASS) or BreakClass.REQUESTED)
    names = (str(attributes.get(key) or "") for key in (semconv.GRAPH_BREAK_TYPE, semconv.GRAPH_BREAK_CLASS))
    known = next((name for name in names if name not in {"", _UNKNOWN}), BreakClass.OTHER)
    return known.rstrip(".") if " " in known else known.replace("_", " ")


def cause(frame: Attributes) -> Iterator[Paragraph]:
    """Why the frame failed, in PyTorch's words, and the line of the program from which the failure came."""
    said = _CAUSE.search(str(frame.get(semconv.COMPILE_FAILURE_REASON) or ""))
    if said is not None and said[1].strip("?: "):
        yield words(said[1])
    line = {semconv.CODE_FILE: semconv.COMPILE_FAILURE_FILE, semconv.CODE_LINE: semconv.COMPILE_FAILURE_LINE}
    place = source_line({key: frame.get(of_failure) for key, of_failure in line.items()})
    if place:
        yield ("at", place)


def notes(span: Span) -> list[str]:
    """Why the frame was compiled again, where its graph broke, and that it runs eagerly."""
    breaks = []
    reason, outcome = _guard_text(span.attributes), span.attributes.get(semconv.FRAME_OUTCOME)
    if span.name == phase.COMPILE_FRAME.name and reason:
        breaks.append(f"{'not compiled' if outcome == FrameOutcome.LIMIT else 'recompiled'}: {reason}")
    breaks += [graph_break(event.attributes) for event in span.events if event.name == semconv.GRAPH_BREAK_EVENT]
    ending = _ENDINGS.get(str(outcome))
    return [*breaks, *([] if ending is None else [ending])]


# ------------------------------------------------------------------------------------------------------------------
_NOTABLE = 0.1
"""The share of the time from which on Dynamo's is said."""
_MOST_VALUES = 5
_BACKEND = "backend_compile"

_FORMS = {
    GuardClass.SIZE: re.compile(r"tensor '(.*)' size mismatch at index (\d+)\. expected (\S+), actual (\S+)"),
    GuardClass.STRIDE: re.compile(r"tensor '(.*)' stride mismatch at index (\d+)\. expected (\S+), actual (\S+)"),
    GuardClass.RANK: re.compile(r"tensor '(.*)' rank mismatch()\. expected (\S+), actual (\S+)"),
    GuardClass.DTYPE: re.compile(r"tensor '(.*)' dtype mismatch()\. expected (\S+), actual (\S+)"),
    GuardClass.VALUE: re.compile(r"([\w.]+|G\['\w+'\])() [=!]= (\S+)"),
}
"""What is said of a guard that failed: the name, the axis, and values where it has them."""

_GLOBAL = re.compile(r"G\['(?:__import_)?(\w+)'\](.*)")
"""A name of the function's module, or of a module that the function imports, and what follows."""
_UNKNOWN = "?"
"""What redaction leaves of a value."""

_WORDS = {
    GuardClass.SIZE: "size",
    GuardClass.STRIDE: "stride",
    GuardClass.RANK: "rank",
    GuardClass.DTYPE: "data type",
    GuardClass.VALUE: "value",
}
_BUILTIN = re.compile(r"builtin operator `(\w+)`")
_CAUSE = re.compile(
    r"(?:Explanation: |raised:(?:\\n|\s)+|(?:\\n|\n)\s*- )(.+?)"
    r"(?=(?:\\n|\s)+(?:Hint: |Developer debug context|User stack:|from user code:|- )|(?:\\n|\n){2}|$)",
    re.DOTALL,
)
"""What follows the first line of PyTorch's message. Its line breaks may have been written out."""
_SENTENCE = re.compile(r"(?!\?$)[^\n]+?(?:\.`?(?=\s+[A-Z])|$)", re.MULTILINE)


@dataclass
class _Again:
    """Frames that were compiled again, or reached the limit, for the same thing.

    Args:
        values: Of all of them, in order.
    """

    guard: str
    advice: Paragraph
    functions: Counter[str] = field(default_factory=Counter)
    values: dict[str, None] = field(default_factory=dict)

    def finding(self, begin: str, subject: str, limit: str = "") -> Recompile:
        named = ", ".join(_often(name, count) for name, count in self.functions.items())
        return Recompile(
            sentence_pieces=words(f"{begin} in {named}: {subject}{_values(self.values)}"),
            remedy_pieces=self.advice,
            joint=";" if limit else ":",
            functions=tuple(self.functions),
            guard=self.guard,
            count=self.functions.total(),
            limit=limit,
        )


def frame_findings(nodes: Sequence[Node]) -> list[Answer]:
    """Why frames run eagerly, were compiled again, or broke; the worst first."""
    attributes = [node.span.attributes for node in nodes if node.span.name == phase.COMPILE_FRAME.name]
    return [*_limits(attributes), *_fallen_back(attributes), *_recompiles(attributes), *_breaks(nodes)]


def frames(nodes: Iterable[Node]) -> Iterator[Frame]:
    """Each frame."""
    for node in (node for node in nodes if node.span.name == phase.COMPILE_FRAME.name):
        span = node.span
        outcome, again = (span.attributes.get(key) for key in (semconv.FRAME_OUTCOME, semconv.RECOMPILE_REASON))
        yield Frame(
            sentence_pieces=(f"{_named(span.attributes)}: {', '.join([str(outcome or 'did not end'), *notes(span)])}",),
            function=_named(span.attributes),
            place=source_line(span.attributes),
            id=str(span.attributes.get(semconv.COMPILE_ID) or ""),
            outcome=str(outcome or ""),
            s=span.duration_ns / 1e9,
            recompiled=str(again or ""),
            node=node,
        )


def dynamos_share(nodes: Sequence[Node], whole_ns: int) -> Iterator[Paragraph]:
    """The share of the time in frames that is not the backend's, if it is notable.

    Args:
        whole_ns: How long the roots ran, without stand-ins.
    """
    left_out = at_or_below(nodes, lambda node: node.is_stand_in)
    own: set[int] = set()
    dynamos = 0.0
    for node in nodes:
        span = node.span
        if span.name == phase.COMPILE_FRAME.name or (_is_phase(node) and id(node.parent) in own):
            own.add(id(node))
        if id(node) in own and id(node) not in left_out:
            dynamos += node.self_ns()
    if dynamos >= _NOTABLE * whole_ns > 0:
        yield words(f"{share(dynamos, whole_ns)} of {_whole(nodes)} is Dynamo itself")


def _is_phase(node: Node) -> bool:
    name = node.span.attributes.get(semconv.COMPILE_PHASE_NAME)
    return name is not None and name != _BACKEND


def _whole(nodes: Sequence[Node]) -> str:
    """What all the time was spent on."""
    if nodes[0].span.name == phase.COMPILE_FRAME.name:
        return "this frame"
    is_again = any(semconv.RECOMPILE_REASON in node.span.attributes for node in nodes)
    return "this call" if is_again else "the first call"


# --- frames -----------------------------------------------------------------------------------------------------
def _limits(attributes: Sequence[Attributes]) -> Iterator[Answer]:
    reached = [frame for frame in attributes if frame.get(semconv.FRAME_OUTCOME) == FrameOutcome.LIMIT]
    for subject, setting, again in _grouped(reached, semconv.RECOMPILE_LIMIT):
        recompile = again.finding("Recompile limit reached", subject, setting or "recompile_limit")
        *before, last = recompile.sentence_pieces
        sentence = (*before, f"{last};", *words("calls with others run eagerly"))
        yield dataclasses.replace(recompile, sentence_pieces=sentence)


def _fallen_back(attributes: Sequence[Attributes]) -> Iterator[Answer]:
    fallen: dict[tuple[str, str], list[Attributes]] = {}
    for frame in attributes:
        if frame.get(semconv.FRAME_OUTCOME) == FrameOutcome.FALLEN_BACK:
            failure = str(frame.get(semconv.COMPILE_FAILURE_TYPE) or "")
            fallen.setdefault((_named(frame), failure), []).append(frame)
    for (name, failure), (frame, *others) in fallen.items():
        count = 1 + len(others)
        yield Failure(
            sentence_pieces=words(f"Fell back to eager in {_often(name, count)}{f': {failure}' if failure else ''}"),
            type=failure,
            message="",
            stage=name,
            is_caught=True,
            count=count,
            # The phase of a backend that failed says why.
            details=() if failure.endswith("BackendCompilerFailed") else tuple(cause(frame)),
        )


def _recompiles(attributes: Sequence[Attributes]) -> Iterator[Answer]:
    again = [
        frame
        for frame in attributes
        if frame.get(semconv.RECOMPILE_REASON) and frame.get(semconv.FRAME_OUTCOME) != FrameOutcome.LIMIT
    ]
    for subject, _, repeated in _grouped(again):
        yield repeated.finding("Recompiled", subject)


def _grouped(attributes: Sequence[Attributes], also: str = "") -> Iterator[tuple[str, str, _Again]]:
    """What the guard that failed concerns, with the frames for which it is the same.

    Args:
        also: An attribute that has to be the same, too; its value is the second of the three.
    """
    groups: dict[tuple[str, Paragraph, str], _Again] = {}
    for frame in attributes:
        subject, values, advice = _guard(frame)
        guard = str(frame.get(semconv.RECOMPILE_CLASS) or "")
        again = groups.setdefault((subject, advice, str(frame.get(also) or "")), _Again(guard, advice))
        again.functions[_named(frame)] += 1
        again.values.update(dict.fromkeys(value for value in values if value != _UNKNOWN))
    for (subject, _, other), again in groups.items():
        yield subject, other, again


def _guard_text(frame: Attributes) -> str:
    """The guard that failed, or what it concerns (`change of backend`) where redaction leaves nothing of it."""
    text, kind = (str(frame.get(key) or "") for key in (semconv.RECOMPILE_REASON, semconv.RECOMPILE_CLASS))
    if text != _UNKNOWN or kind in {"", GuardClass.OTHER}:
        return text
    return f"change of {_WORDS.get(kind, kind)}"


def _guard(frame: Attributes) -> tuple[str, Sequence[str], Paragraph]:
    """What a guard that failed concerns, its values before and now, and what avoids the recompilation."""
    text, kind = _guard_text(frame), str(frame.get(semconv.RECOMPILE_CLASS) or "")
    form = _FORMS.get(kind)
    match = None if form is None else form.match(text)
    advice = _remedies.of_recompilation(frame)
    if match is None:
        return text, (), advice
    name, axis, *values = match.groups()
    is_argument = name.isidentifier() and not is_resumed(frame)
    shown = f"argument {name}" if is_argument else _source(name)
    return f"{_WORDS[kind]} of {shown}{f', axis {axis}' if axis else ''}", values, advice


def _source(name: str) -> str:
    """What Dynamo calls something that is not an argument."""
    match = _GLOBAL.fullmatch(name)
    if match is not None:
        return f"global {match[1].replace('_dot_', '.')}{match[2]}"
    return "a result from before the break" if name.startswith("___stack") else name


def _values(of: Iterable[str]) -> str:
    values = list(of)
    if not values:
        return ""
    first, *others = [*values[:_MOST_VALUES], *(["…"] if len(values) > _MOST_VALUES else [])]
    return f" ({first}, then {', '.join(others)})" if others else f" ({first})"


def _named(frame: Attributes) -> str:
    return function(frame) or "a frame"


def _often(text: str, count: int) -> str:
    return f"{text} {times(count)}" if count > 1 else text


# --- graph breaks -----------------------------------------------------------------------------------------------
def _breaks(nodes: Sequence[Node]) -> Iterator[Answer]:
    same: dict[Break, int] = {}
    for node in nodes:
        if node.span.name == phase.COMPILE_FRAME.name:
            for event in node.span.events:
                if event.name == semconv.GRAPH_BREAK_EVENT:
                    graph_break = _break(event.attributes, node.span.attributes)
                    same[graph_break] = same.get(graph_break, 0) + 1
    for graph_break, count in same.items():
        *before, last = graph_break.sentence_pieces
        yield dataclasses.replace(graph_break, sentence_pieces=(*before, _often(last, count)), count=count)


def _break(event: Attributes, frame: Attributes) -> Break:
    text = graph_break(event)
    api, function = event.get(semconv.DECLARED_API), event.get(semconv.DECLARED_FUNCTION)
    builtin = _BUILTIN.search(str(event.get(semconv.GRAPH_BREAK_REASON)))
    if builtin is not None and text.endswith(" builtin operator"):
        text += f" {builtin[1]}"
    if api:
        text += f" by {api}{f' of {function}' if function else ''}"
    skips = event.get(semconv.GRAPH_BREAK_SKIPS) is True
    if skips:
        text += f", so all of {_named(frame)} runs eagerly"
    type_ = str(event.get(semconv.GRAPH_BREAK_TYPE) or "")
    sentence = _SENTENCE.match("" if api else str(event.get(semconv.GRAPH_BREAK_REASON) or ""))
    explanation, hint = "" if sentence is None else sentence[0], "" if api else _hint(event)
    return Break(
        sentence_pieces=words(f"G{text[1:]}"),
        function=_named(frame),
        place=source_line(event),
        reason=str(event.get(semconv.GRAPH_BREAK_CLASS) or ""),
        count=1,
        skips_frame=skips,
        type=type_,
        explanation=explanation,
        hint=hint,
        details=tuple(map(words, filter(None, [explanation, hint and f"PyTorch's hint: {hint}"]))),
    )


def _hint(event: Attributes) -> str:
    """PyTorch's first hint that is known."""
    return next((hint for hint in strings(event, semconv.GRAPH_BREAK_HINTS) if hint != _UNKNOWN), "")
