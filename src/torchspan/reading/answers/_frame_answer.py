# SPDX-License-Identifier: Apache-2.0
"""What frames of torch.compile say: why they broke, ran eagerly or were compiled again, and Dynamo's own share of the time."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from torchspan.reading.answers import remedies
from torchspan.reading.answers._attributes import number, strings
from torchspan.reading.answers._kinds_of_answer import Answer, Break, Failure, Frame, Recompile
from torchspan.reading.answers._wording import words
from torchspan.reading.answers.lines import Paragraph
from torchspan.reading.answers.units import share, source_line, times
from torchspan.reading.traces import Attributes, Node, Span, at_or_below
from torchspan.words import phase, semconv
from torchspan.words.semconv.torch import BreakClass, FrameOutcome, GuardClass

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


def processes(spans: Iterable[Span]) -> str:
    """`on rank 0, on rank 1`: the processes of the spans; empty if it is one."""
    every = dict.fromkeys(map(_process, spans))
    return _listed(every) if len(every) > 1 else ""


def graph_break(attributes: Attributes) -> str:
    """`graph break at model.py:41: Data-dependent branching`, of the attributes of its event."""
    place, inside = source_line(attributes), attributes.get(semconv.GRAPH_BREAK_INSIDE)
    return f"graph break{f' at {place}' if place else ''}{f' in {inside}' if inside else ''}: {break_type(attributes)}"


def break_type(attributes: Attributes) -> str:
    """`Data-dependent branching`: PyTorch's name for the kind of a graph break; its class where the name is not known."""
    if attributes.get(semconv.DECLARED_API):
        return str(attributes.get(semconv.GRAPH_BREAK_CLASS) or BreakClass.REQUESTED)
    names = (str(attributes.get(key) or "") for key in (semconv.GRAPH_BREAK_TYPE, semconv.GRAPH_BREAK_CLASS))
    known = next((name for name in names if name and name not in _UNKNOWN), BreakClass.OTHER)
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
    reason, outcome = _reasons(span.attributes), span.attributes.get(semconv.FRAME_OUTCOME)
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

_FORMS = (
    ("size", r"tensor '(.*)' size mismatch at index (\d+)\. expected (\S+), actual (\S+)"),
    ("stride", r"tensor '(.*)' stride mismatch at index (\d+)\. expected (\S+), actual (\S+)"),
    ("rank", r"tensor '(.*)' rank mismatch()\. expected (\S+), actual (\S+)"),
    ("data type", r"tensor '(.*)' dtype mismatch()\. expected (\S+), actual (\S+)"),
    ("dispatch keys", r"tensor '(.*)' dispatch key set mismatch()\. expected (.*), actual (.*)"),
    ("type", r"expected type of '(.*)' to be ()(.*), but found (.*)"),
    ("type", r"___check_type_id\((.*), (?:\d+|\?)()\), type=(.*)"),
    ("type", r"(\S+) is ()(None)$"),
    ("identity", r"___check_obj_id\((.*), (?:\d+|\?)()\)"),
    ("value", r"([\w.]+(?:\[[^=]*\][\w.]*)*|G\['\w+'\])() [=!]= ('.*'|[^' ]+)$"),
)
"""What a guard that failed concerns: the name, the axis, and the values where it has them."""
_BACKEND_MATCH, _UNEXPECTED = "BACKEND_MATCH failure", "Unexpected recompilation"
"""What PyTorch writes, at the beginning, where only the backend differs, and where no guard fails any more."""
_RACE = "another thread compiled it meanwhile"
_ALIAS = re.compile(r"(\w+) is (?!None)(\w+)")

_GLOBAL = re.compile(r"G\['(?:__import_)?(\w+)'\](.*)")
"""A name of the function's module, or of a module that the function imports, and what follows."""
_UNKNOWN = frozenset({"?", "<class ?>"})
"""What redaction leaves of a value."""
_BUILTIN = re.compile(r"builtin operator `(\w+)`")
_CAUSE = re.compile(
    r"(?:Explanation: |raised:(?:\\n|\s)+|(?:\\n|\n)\s*- )(.+?)"
    r"(?=(?:\\n|\s)+(?:Hint: |Developer debug context|User stack:|from user code:|- )|(?:\\n|\n){2}|$)",
    re.DOTALL,
)
"""What follows the first line of PyTorch's message. Its line breaks may have been written out."""
_REDACTED = re.compile(r" \((?:\w+ )?\?\)")
"""A bracket of which redaction leaves no value."""
_SENTENCE = re.compile(r"(?!\?$)[^\n]+?(?:\.`?(?=\s+[A-Z])|$)", re.MULTILINE)


@dataclass
class _Again:
    """Frames that were compiled again, or reached the limit, for the same things.

    Args:
        shown: What the guards concern, by what they concern without texts of the program.
        versions: The compiled versions that have them, by the same.
        values: Theirs, of all frames in order, by the same.
    """

    guard: str
    advice: Paragraph
    functions: Counter[str] = field(default_factory=Counter)
    processes: dict[str, None] = field(default_factory=dict)
    shown: dict[str, dict[str, None]] = field(default_factory=lambda: defaultdict(dict))
    versions: dict[str, dict[str, None]] = field(default_factory=lambda: defaultdict(dict))
    values: dict[str, dict[str, None]] = field(default_factory=lambda: defaultdict(dict))

    def add(self, frame: Attributes, guards: Sequence[tuple[str, str]]) -> None:
        self.functions[_named(frame)] += 1
        for place, (version, text) in itertools.product((2, 3), guards):  # what the versions expect, then what they got
            what, match = _said(_reduced(text), frame), _match(text)
            self.shown[what][_said(text, frame)] = None
            self.versions[what][version] = None
            values = () if match is None else match.groups()[place : place + 1]
            self.values[what].update(dict.fromkeys(value for value in values if value not in _UNKNOWN))

    @property
    def subject(self) -> str:
        causes = {
            what: f"{next(iter(shown)) if len(shown) == 1 else what}{_values(self.values[what])}"
            for what, shown in self.shown.items()
        }
        if len(causes) == 1:
            return "".join(causes.values())
        return "several causes: " + "; ".join(
            f"{_listed(self.versions[what])}: {text}" for what, text in causes.items()
        )

    def finding(self, begin: str, limit: str = "") -> Recompile:
        named = ", ".join(_often(name, count) for name, count in self.functions.items())
        where = f"{named} {_listed(self.processes)}".rstrip()
        return Recompile(
            sentence_pieces=words(f"{begin} in {where}: {self.subject}"),
            remedy_pieces=self.advice,
            joint=";" if limit else ":",
            functions=tuple(self.functions),
            guard=self.guard,
            count=self.functions.total(),
            limit=limit,
            processes=tuple(self.processes),
        )


def frame_findings(nodes: Sequence[Node]) -> list[Answer]:
    """Why frames run eagerly, were compiled again, or broke; the worst first."""
    attributes = [node.span.attributes for node in nodes if node.span.name == phase.COMPILE_FRAME.name]
    return [*_limits(nodes), *_fallen_back(attributes), *_recompiles(nodes), *_breaks(nodes)]


def frames(nodes: Iterable[Node]) -> Iterator[Frame]:
    """Each frame."""
    for node in (node for node in nodes if node.span.name == phase.COMPILE_FRAME.name):
        span = node.span
        outcome = span.attributes.get(semconv.FRAME_OUTCOME)
        yield Frame(
            sentence_pieces=(f"{_named(span.attributes)}: {', '.join([str(outcome or 'did not end'), *notes(span)])}",),
            function=_named(span.attributes),
            place=source_line(span.attributes),
            id=str(span.attributes.get(semconv.COMPILE_ID) or ""),
            outcome=str(outcome or ""),
            s=span.duration_ns / 1e9,
            recompiled=_reasons(span.attributes),
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
        yield words(f"{share(dynamos, whole_ns)} is Dynamo itself, not its backend")


def _is_phase(node: Node) -> bool:
    name = node.span.attributes.get(semconv.COMPILE_PHASE_NAME)
    return name is not None and name != _BACKEND


# --- frames -----------------------------------------------------------------------------------------------------


def _limits(nodes: Sequence[Node]) -> Iterator[Answer]:
    reached = [node for node in nodes if node.span.attributes.get(semconv.FRAME_OUTCOME) == FrameOutcome.LIMIT]
    for (name, value), again in _grouped(nodes, reached, semconv.RECOMPILE_LIMIT, semconv.RECOMPILE_LIMIT_VALUE):
        setting = name or "recompile_limit"
        limit = f"Recompile limit ({value} in this thread)" if value else "Recompile limit"
        recompile = again.finding(f"{limit} reached", setting)
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


def _recompiles(nodes: Sequence[Node]) -> Iterator[Answer]:
    again = [
        node
        for node in nodes
        if node.span.attributes.get(semconv.RECOMPILE_REASON)
        and node.span.attributes.get(semconv.FRAME_OUTCOME) != FrameOutcome.LIMIT
    ]
    for _, repeated in _grouped(nodes, again):
        yield repeated.finding("Recompiled")


def _grouped(nodes: Sequence[Node], frames: Sequence[Node], *also: str) -> Iterator[tuple[list[str], _Again]]:
    """What the guards that failed concern, with the frames for which it is the same, and those with several causes. Values follow each
    other in one function of one process.

    Args:
        nodes: Everything that happened.
        also: Attributes that have to be the same, too; their values are the first of the pair.
    """
    groups: dict[str, tuple[str, list[str], _Again]] = {}
    threads: defaultdict[tuple[str, str], set[float | None]] = defaultdict(set)
    for span in (node.span for node in nodes if node.span.name == phase.COMPILE_FRAME.name):
        threads[_code(span)].add(number(span.attributes, semconv.THREAD_ID))
    for node in frames:
        frame, process = node.span.attributes, _process(node.span)
        others = [str(frame.get(key) or "") for key in also]
        guards = _guards(frame, is_shared=len(threads[_code(node.span)]) > 1)
        causes = sorted({_said(_reduced(text), frame) for _, text in guards})
        sequence = _named(frame) if any(_match(_reduced(text)) for _, text in guards) else ""
        kind = str(frame.get(semconv.RECOMPILE_CLASS) or "") if len(causes) == 1 else GuardClass.SEVERAL
        again = _Again(kind, remedies.of_recompilation(frame))
        key = repr((process, sequence, causes if len(causes) == 1 else (), again.guard, again.advice, others))
        groups.setdefault(key, (process, others, again))[-1].add(frame, guards)
    are_several = len({process for process, _ in threads}) > 1
    joined: dict[str, tuple[list[str], _Again]] = {}
    for process, others, again in groups.values():
        key = repr((sorted(again.functions), again.subject, again.advice, others))
        _, same = joined.setdefault(key, (others, again))
        if same is not again:
            same.functions.update(again.functions)
        if are_several:
            same.processes[process] = None
    yield from joined.values()


def _process(span: Span) -> str:
    """`on rank 1`, or `in process 14300` where the rank is not known."""
    rank, pid = (number(span.resource, key) for key in (semconv.RANK, semconv.PROCESS_PID))
    return f"in process {pid}" if rank is None else f"on rank {rank}"


def _code(span: Span) -> tuple[str, str]:
    """What a frame compiles: its process, and Dynamo's number of the code in it."""
    return _process(span), str(span.attributes.get(semconv.COMPILE_ID)).rpartition("/")[0]


def _guards(frame: Attributes, *, is_shared: bool) -> list[tuple[str, str]]:
    """The guards that failed with the compiled versions that have them, the oldest first.

    Args:
        is_shared: Whether another thread compiled the same function.
    """
    several = [text.partition(": ")[::2] for text in strings(frame, semconv.RECOMPILE_REASONS)]
    guards = sorted(several or [("", _guard_text(frame))], key=lambda guard: (len(guard[0]), guard[0]))
    race = {_UNEXPECTED: _RACE} if is_shared else {}
    return [(version, race.get(_reduced(text)[: len(_UNEXPECTED)], text)) for version, text in guards]


def _reasons(frame: Attributes) -> str:
    """The guards that failed: `0/1: GLOBAL_STATE changed: grad_mode; 0/0: x is None`, or one without a compile id."""
    several = strings(frame, semconv.RECOMPILE_REASONS)
    are_same = len({text.partition(": ")[2] for text in several}) < 2
    return _guard_text(frame) if are_same else "; ".join(several)


def _guard_text(frame: Attributes) -> str:
    """The guard that failed, or what it concerns (`change of backend`) where redaction leaves nothing of it."""
    text, kind = (str(frame.get(key) or "") for key in (semconv.RECOMPILE_REASON, semconv.RECOMPILE_CLASS))
    if kind == GuardClass.BACKEND or (text == "?" and kind not in {"", GuardClass.OTHER}):
        return f"change of {'data type' if kind == GuardClass.DTYPE else kind}"
    return text


@functools.lru_cache(maxsize=4_096)
def _reduced(text: str) -> str:
    """The guard as all readers of a trace have it."""
    kind = semconv.RECOMPILE_REASON.kind
    return text if kind is None or text == _RACE or text.startswith("change of ") else kind.reduced(text)


def _match(text: str) -> re.Match[str] | None:
    return next(filter(None, (re.match(form, text) for _, form in _FORMS)), None)


def _said(text: str, frame: Attributes) -> str:
    """What a guard concerns."""
    if text.startswith((_BACKEND_MATCH, _UNEXPECTED)):
        return "change of backend" if text.startswith(_BACKEND_MATCH) else _reduced(text)
    alias = _ALIAS.fullmatch(text)
    if alias is not None:
        return f"arguments {alias[1]} and {alias[2]}, which were one object before"
    for subject, form in _FORMS:
        match = re.match(form, text)
        if match is not None:
            shown = f"argument {match[1]}" if _is_argument(match[1], frame) else _source(match[1])
            by = ", which train() and eval() set" if frame.get(semconv.RECOMPILE_CLASS) == GuardClass.TRAINING else ""
            return f"{subject} of {shown}{f', axis {match[2]}' if match[2] else by}"
    return text


def _is_argument(name: str, frame: Attributes) -> bool:
    return name.isidentifier() and not is_resumed(frame)


def _source(name: str) -> str:
    """What Dynamo calls something that is not an argument."""
    match = _GLOBAL.fullmatch(name)
    if match is not None:
        return f"global {match[1].replace('_dot_', '.')}{match[2]}"
    return "a result from before the break" if name.startswith("___stack") else name


def _listed(names: Iterable[str], most: int = _MOST_VALUES) -> str:
    every = list(names)
    return ", ".join([*every[:most], *(["…"] if len(every) > most else [])])


def _values(of: Iterable[str]) -> str:
    values = list(of)
    if not values:
        return ""
    first, *others = values
    return f" ({first}, then {_listed(others, _MOST_VALUES - 1)})" if others else f" ({first})"


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
    explanation, hint = "" if sentence is None else _REDACTED.sub("", sentence[0]), "" if api else _hint(event)
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
        details=tuple(filter(None, [words(f"{explanation} {hint and f'Hint: {hint}'}")])),
    )


def _hint(event: Attributes) -> str:
    """PyTorch's first hint that is known."""
    return next((hint for hint in strings(event, semconv.GRAPH_BREAK_HINTS) if hint not in _UNKNOWN), "")
