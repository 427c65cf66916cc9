# SPDX-License-Identifier: Apache-2.0
"""The answer about torch.compile: Dynamo's own share of the time, and why frames broke, ran eagerly or were compiled again."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from torchspan import phase, semconv
from torchspan.answers._answer import Answer, Code, words
from torchspan.answers._units import plural, share, source_line, times
from torchspan.answers.lines import Style
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
    breaks = []
    reason, outcome = (span.attributes.get(key) for key in (semconv.RECOMPILE_REASON, semconv.FRAME_OUTCOME))
    if span.name == phase.COMPILE_FRAME.name and reason:
        breaks.append(f"{'not compiled' if outcome == FrameOutcome.LIMIT else 'recompiled'}: {reason}")
    breaks += [graph_break(event.attributes) for event in span.events if event.name == semconv.GRAPH_BREAK_EVENT]
    ending = _ENDINGS.get(str(outcome))
    return [*breaks, *([] if ending is None else [ending])]


# ------------------------------------------------------------------------------------------------------------------
HEAD = "Dynamo"
Paragraph = tuple[str, ...]

_NOTABLE = 0.1
"""The share of the time from which on Dynamo's is said."""
_MOST = 6
"""Paragraphs about frames; the others are counted."""
_MOST_VALUES = 5
_BACKEND = "backend_compile"
_EAGER_LIMIT = "torch._dynamo.config."

_FORMS = {
    GuardClass.SIZE: re.compile(r"tensor '(.*)' size mismatch at index (\d+)\. expected (\S+), actual (\S+)"),
    GuardClass.STRIDE: re.compile(r"tensor '(.*)' stride mismatch at index (\d+)\. expected (\S+), actual (\S+)"),
    GuardClass.RANK: re.compile(r"tensor '(.*)' rank mismatch()\. expected (\S+), actual (\S+)"),
    GuardClass.DTYPE: re.compile(r"tensor '(.*)' dtype mismatch()\. expected (\S+), actual (\S+)"),
    GuardClass.VALUE: re.compile(r"(\w+|G\['\w+'\])() [=!]= \S+"),
}
"""What is said of a guard that failed: the name, the axis, and two values where it has them."""

_GLOBAL = re.compile(r"G\['(?:__import_)?(\w+)'\](.*)")
"""A name of the function's module, or of a module that the function imports, and what follows."""
_PARAMETER = re.compile(r".*\._parameters\[\?\]")

_WORDS = {
    GuardClass.SIZE: "size",
    GuardClass.STRIDE: "stride",
    GuardClass.RANK: "rank",
    GuardClass.DTYPE: "data type",
    GuardClass.VALUE: "value",
}
_ADVICE = {
    GuardClass.SIZE: words("torch.compile(dynamic=True)"),
    GuardClass.STRIDE: words("one memory layout in all calls"),
    GuardClass.RANK: words("one rank in all calls"),
    GuardClass.DTYPE: words("one data type in all calls"),
    GuardClass.DEVICE: words("one device in all calls"),
    GuardClass.REQUIRES_GRAD: words("one requires_grad in all calls"),
    GuardClass.TYPE: words("one type in all calls"),
    GuardClass.VALUE: words("pass it as a tensor, or keep it constant"),
    GuardClass.IDENTITY: words("the same object in all calls"),
    GuardClass.CONTENTS: words("the same length and keys in all calls"),
    GuardClass.STATE: words("the same settings of PyTorch in all calls"),
    GuardClass.BACKEND: words("one torch.compile of the function"),
}
"""What would avoid a recompilation, by what the guard concerns that failed."""

_BREAK_ADVICE = {
    BreakClass.DATA_DEPENDENT_BRANCH: "torch.where or torch.cond keep one graph",
    BreakClass.SKIPPED_FUNCTION: "call it outside the compiled code",
    BreakClass.BUILTIN: "call it outside the compiled code",
    BreakClass.CONTEXT_MANAGER: "enter it outside the compiled code",
}
_CAPTURES = (
    ("Unsupported Tensor.item() call", "torch._dynamo.config.capture_scalar_outputs=True keeps one graph"),
    ("Dynamic shape operator", "torch._dynamo.config.capture_dynamic_output_shape_ops=True keeps one graph"),
)
"""What avoids a graph break about the values of a tensor, by the beginning of PyTorch's type of it."""


@dataclass
class _Again:
    """Frames that were compiled again, or reached the limit, for the same thing.

    Args:
        values: Of all of them, in order.
    """

    advice: Paragraph
    functions: Counter[str] = field(default_factory=Counter)
    values: dict[str, None] = field(default_factory=dict)


def frame_answers(nodes: Sequence[Node], whole_ns: int) -> list[Answer]:
    """At most one answer; none without a frame of torch.compile that there is something to say about.

    Args:
        whole_ns: How long the roots ran, without stand-ins.
    """
    frames = [node.span.attributes for node in nodes if node.span.name == phase.COMPILE_FRAME.name]
    said = [*_limits(frames), *_fallen_back(frames), *_recompiles(frames), *_breaks(nodes)]
    if len(said) > _MOST:
        said = [*said[: _MOST - 1], words(f"{plural(len(said) - _MOST + 1, 'further reason')}; see the lines above")]
    paragraphs = (*_dynamos_share(nodes, whole_ns), *said)
    return [Answer(HEAD, paragraphs, style=Style.FALLBACK if said else Style.PLAIN)] if paragraphs else []


# --- time -------------------------------------------------------------------------------------------------------
def _dynamos_share(nodes: Sequence[Node], whole_ns: int) -> Iterator[Paragraph]:
    """The time in frames that is not the backend's."""
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
def _limits(frames: Sequence[Attributes]) -> Iterator[Paragraph]:
    reached = [frame for frame in frames if frame.get(semconv.FRAME_OUTCOME) == FrameOutcome.LIMIT]
    for subject, again in _grouped(reached, lambda attributes: attributes.get(semconv.RECOMPILE_LIMIT)):
        setting = next(
            (attributes[semconv.RECOMPILE_LIMIT] for attributes in reached if semconv.RECOMPILE_LIMIT in attributes),
            None,
        )
        yield (
            *words(f"Recompile limit reached in {_functions(again)}: {subject}{_values(again)};"),
            *words("calls with others run eagerly"),
            *(words(f"until {_EAGER_LIMIT}{setting} is larger") if setting else ()),
        )


def _fallen_back(frames: Sequence[Attributes]) -> Iterator[Paragraph]:
    fallen = Counter(
        (_named(frame), str(frame.get(semconv.COMPILE_FAILURE_TYPE) or ""))
        for frame in frames
        if frame.get(semconv.FRAME_OUTCOME) == FrameOutcome.FALLEN_BACK
    )
    for (name, failure), count in fallen.items():
        yield words(f"Fell back to eager in {_often(name, count)}{f': {failure}' if failure else ''}")


def _recompiles(frames: Sequence[Attributes]) -> Iterator[Paragraph]:
    again = [
        frame
        for frame in frames
        if frame.get(semconv.RECOMPILE_REASON) and frame.get(semconv.FRAME_OUTCOME) != FrameOutcome.LIMIT
    ]
    for subject, repeated in _grouped(again):
        said = f"Recompiled in {_functions(repeated)}: {subject}{_values(repeated)}"
        yield (*words(f"{said}:" if repeated.advice else said), *repeated.advice)


def _grouped(
    frames: Sequence[Attributes], also: Callable[[Attributes], object] = lambda _: None
) -> Iterator[tuple[str, _Again]]:
    """What the guard that failed concerns, with the frames for which it is the same."""
    groups: dict[tuple[str, Paragraph, object], _Again] = {}
    for frame in frames:
        subject, values, advice = _guard(frame)
        again = groups.setdefault((subject, advice, also(frame)), _Again(advice))
        again.functions[_named(frame)] += 1
        again.values.update(dict.fromkeys(values))
    for (subject, _, _), again in groups.items():
        yield subject, again


def _guard(frame: Attributes) -> tuple[str, Sequence[str], Paragraph]:
    """What a guard that failed concerns, its values before and now, and what avoids the recompilation."""
    text, kind = (str(frame.get(key) or "") for key in (semconv.RECOMPILE_REASON, semconv.RECOMPILE_CLASS))
    form = _FORMS.get(kind)
    match = None if form is None else form.match(text)
    advice = _ADVICE.get(kind, ())
    if match is None:
        return text, (), advice
    name, axis, *values = match.groups()
    is_argument = name.isidentifier() and not is_resumed(frame)
    if kind == GuardClass.SIZE and is_argument:
        advice = (Code(f"torch._dynamo.mark_dynamic({name}, {axis})"),)
    if kind == GuardClass.SIZE and _PARAMETER.fullmatch(name):
        advice = words("torch._dynamo.config.force_parameter_static_shapes=False")
    shown = f"argument {name}" if is_argument else _source(name)
    return f"{_WORDS[kind]} of {shown}{f', axis {axis}' if axis else ''}", values, advice


def _source(name: str) -> str:
    """What Dynamo calls something that is not an argument."""
    match = _GLOBAL.fullmatch(name)
    if match is not None:
        return f"global {match[1].replace('_dot_', '.')}{match[2]}"
    return "a value of the stack" if name.startswith("___stack") else name


def _values(again: _Again) -> str:
    values = list(again.values)
    if not values:
        return ""
    first, *others = [*values[:_MOST_VALUES], *(["…"] if len(values) > _MOST_VALUES else [])]
    return f" ({first}, then {', '.join(others)})" if others else f" ({first})"


def _functions(again: _Again) -> str:
    return ", ".join(_often(name, count) for name, count in again.functions.items())


def _named(frame: Attributes) -> str:
    return function(frame) or "a frame"


def _often(text: str, count: int) -> str:
    return f"{text} {times(count)}" if count > 1 else text


# --- graph breaks -----------------------------------------------------------------------------------------------
def _breaks(nodes: Sequence[Node]) -> Iterator[Paragraph]:
    reasons: Counter[str] = Counter()
    for node in nodes:
        if node.span.name == phase.COMPILE_FRAME.name:
            events = [event.attributes for event in node.span.events if event.name == semconv.GRAPH_BREAK_EVENT]
            reasons.update(_break(event, node.span.attributes) for event in events)
    for text, count in reasons.items():
        yield words(_often(text, count))


def _break(event: Attributes, frame: Attributes) -> str:
    text = graph_break(event)
    api, function = event.get(semconv.DECLARED_API), event.get(semconv.DECLARED_FUNCTION)
    if api:
        text += f" by {api}{f' of {function}' if function else ''}"
    if event.get(semconv.GRAPH_BREAK_SKIPS) is True:
        text += f", so all of {_named(frame)} runs eagerly"
    kind, type_ = (str(event.get(key) or "") for key in (semconv.GRAPH_BREAK_CLASS, semconv.GRAPH_BREAK_TYPE))
    advice = _BREAK_ADVICE.get(kind) or next((advice for begin, advice in _CAPTURES if type_.startswith(begin)), None)
    return f"G{text[1:]}{f'; {advice}' if advice else ''}"
