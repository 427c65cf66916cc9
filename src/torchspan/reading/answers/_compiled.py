# SPDX-License-Identifier: Apache-2.0
"""What was compiled: one row for each function, model or network, the worst first, and for what else was recorded."""

from __future__ import annotations

import bisect
import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from torchspan.reading.answers import _frame_answer, _labels
from torchspan.reading.answers._attributes import number
from torchspan.reading.answers._built_engines import engines
from torchspan.reading.answers._cache_answer import cache_results
from torchspan.reading.answers._error_answer import failures
from torchspan.reading.answers._fallback_answer import fallbacks
from torchspan.reading.answers._kinds_of_answer import (
    Answer,
    Break,
    BuiltEngine,
    CacheResult,
    Failure,
    Fallback,
    Recompile,
    Sizes,
    Stage,
)
from torchspan.reading.answers._limit_answer import sizes
from torchspan.reading.answers._stages import covered_ns, stages
from torchspan.reading.answers.units import duration, source_line
from torchspan.reading.traces import Attributes, Node, Trace, UnfinishedSpan, at_or_below
from torchspan.words import phase, semconv
from torchspan.words.semconv.torch import FrameOutcome

_FRAMES = (phase.COMPILE_FRAME, phase.COMPILE_BACKWARD)
_EXPORTS = (phase.TRACE, phase.EXPORT, phase.EXPORT_DECOMPOSE)
_MODELS = (*phase.LOWERING, *_EXPORTS, phase.SAVE, phase.LOAD)
_NETWORKS = (phase.PARSE, phase.BUILD_ENGINE, phase.DESERIALIZE_ENGINE)
_Key = tuple[str, ...]
_STARTS = frozenset(row.name for row in (*_FRAMES, *_MODELS, *_NETWORKS))
_NETWORK_NAMES = frozenset(row.name for row in _NETWORKS)
_CALLED = frozenset(row.name for row in (*_MODELS, *_NETWORKS))
"""Work whose place is where it was called."""
_RUNS = frozenset(row.name for row in phase.RUNS)
_COUNTED = frozenset(
    row.name for row in (phase.COMPILE_FRAME, phase.COMPILE, phase.CONVERT_TO_ENGINE, phase.BUILD_ENGINE)
)
"""Work that compiles; the other work of a row, such as a refit, belongs to it."""
_MOST_OUTCOMES = 5
"""Different outcomes that a row names."""


@dataclass(frozen=True, eq=False)
class Compiled:
    """Everything that compiled one function, model or network.

    Attributes:
        name: The function, the class of the model, or the name of a span.
        place: File and line of the function; empty if unknown.
        nodes: The outermost spans of the work, in the order of their start.
        traces: What contains them; each can be drawn.
        is_compilation: Whether something was compiled. Otherwise these are other spans, such as those of requests.
    """

    name: str
    place: str
    is_compilation: bool
    nodes: list[Node] = field(default_factory=list)
    traces: list[Trace] = field(default_factory=list)

    @functools.cached_property
    def every(self) -> list[Node]:
        """The nodes with everything below them."""
        return [node for top in self.nodes for node in top.below()]

    @functools.cached_property
    def count(self) -> int:
        """How often it was compiled, without what is left of it after a graph break; of other spans, how many there are."""
        compilations = sum(node.span.name in _COUNTED for node in self.nodes)
        return compilations - len(self._rests) or compilations or len(self.nodes)

    @functools.cached_property
    def _rests(self) -> list[Node]:
        """The frames of what is left of a function after a graph break."""
        return [node for node in self.nodes if _frame_answer.is_resumed(node.span.attributes)]

    @functools.cached_property
    def ns(self) -> int:
        """How long it took, in nanoseconds, without what the stand-in for a GPU did."""
        return covered_ns(self.every)

    @property
    def time(self) -> str:
        """How long it took, in words."""
        if all(node.is_stand_in for node in self.nodes):
            return "stand-in"
        is_open = any(isinstance(node.span, UnfinishedSpan) for node in self.nodes)
        return f"≥ {duration(self.ns)}" if is_open else duration(self.ns)

    @functools.cached_property
    def outcome(self) -> str:
        """How it ended, in words, how often a request may have waited for it, and where, if several processes compiled it."""
        serving = sum(node.span.attributes.get(semconv.WHILE_SERVING) is True for node in self.nodes)
        waits = [f"{serving} while serving" if len(self.nodes) > 1 else "while serving"] if serving else []
        outcomes = list(dict.fromkeys(filter(None, map(_outcome, self.nodes))))
        rests = [
            node for node in self._rests if node.span.attributes.get(semconv.FRAME_OUTCOME) == FrameOutcome.COMPILED
        ]
        if rests and len(self._rests) < len(self.nodes):
            outcomes.append(f"{len(rests)} more after breaks")
        on = _frame_answer.processes(node.span for node in self.nodes) if self.is_compilation else ""
        more = ["…"] if len(outcomes) > _MOST_OUTCOMES else []
        return ", ".join(filter(None, [*outcomes[:_MOST_OUTCOMES], *more, *waits, on]))

    @functools.cached_property
    def stages(self) -> list[Stage]:
        """Where the time went, the longest first."""
        return stages(self.every)

    @functools.cached_property
    def engines(self) -> list[BuiltEngine]:
        """TensorRT's engines, the one that took longest first."""
        return engines(self.every)

    @functools.cached_property
    def findings(self) -> list[Answer]:
        """Everything that happened, the worst first."""
        nodes = self.every
        if not self.is_compilation:  # compilations inside have rows of their own
            inside = at_or_below(nodes, _is_start)
            nodes = [node for node in nodes if id(node) not in inside]
        dynamo = _frame_answer.frame_findings(nodes)
        return [
            *failures(nodes),
            *(finding for finding in dynamo if _is_limit(finding)),
            *fallbacks(nodes),
            *(finding for finding in dynamo if not _is_limit(finding)),
            *sizes(nodes),
            *cache_results(nodes),
        ]

    @functools.cached_property
    def news(self) -> list[Answer]:
        """The findings that call for an action: all except those about caches."""
        return [finding for finding in self.findings if not isinstance(finding, CacheResult)]

    @functools.cached_property
    def badness(self) -> tuple[bool | int, ...]:
        """Grows with what is wrong: a failure or no end, a limit, a fallback, a recompilation, a break; then the time."""
        return (
            any(isinstance(finding, Failure) and not finding.is_caught for finding in self.findings)
            or any(isinstance(node.span, UnfinishedSpan) for node in self.nodes),
            any(map(_is_limit, self.findings)),
            any(isinstance(finding, (Fallback, Failure)) for finding in self.findings),
            any(isinstance(finding, Recompile) for finding in self.findings),
            any(isinstance(finding, (Break, Sizes)) for finding in self.findings),
            self.is_compilation,
            not self.is_import,
            self.ns,
        )

    @property
    def is_import(self) -> bool:
        """Whether it consists of imports alone."""
        return all(node.span.name == phase.IMPORT.name for node in self.every)

    @property
    def has_errors(self) -> bool:
        """Whether something failed, did not end or reached a limit."""
        return any(self.badness[:2])

    def worst(self) -> Trace:
        """The trace that shows most of what is wrong: one that failed or did not end, else the longest with news."""

        def rank(trace: Trace) -> tuple[bool, bool, int]:
            row = Compiled("", "", is_compilation=True, nodes=trace.roots, traces=[trace])
            return row.badness[0] is True, bool(row.news), row.ns

        if not self.news and not self.has_errors:  # thousands of requests, perhaps
            return max(self.traces, key=lambda trace: trace.end_ns - trace.start_ns)
        return max(self.traces, key=rank) if len(self.traces) > 1 else self.traces[0]


def _is_limit(finding: Answer) -> bool:
    return isinstance(finding, Recompile) and bool(finding.limit)


def _outcome(node: Node) -> str:
    attributes = node.span.attributes
    if isinstance(node.span, UnfinishedSpan):
        place = source_line(attributes) if node.span.name in _CALLED else ""
        return f"did not end, called at {place}" if place else "did not end"
    if _labels.error(node.span)[0]:
        return "failed"
    outcome = str(attributes.get(semconv.FRAME_OUTCOME) or "")
    if outcome == FrameOutcome.SKIPPED and _frame_answer.is_resumed(attributes):
        return ""  # most often, there is nothing left to compile
    if outcome in {FrameOutcome.SKIPPED, FrameOutcome.LIMIT, FrameOutcome.FALLEN_BACK}:
        return "runs eagerly"
    if outcome == FrameOutcome.FAILED:
        return "failed"
    for inside in node.below():
        total, tensorrt = (
            number(inside.span.attributes, key) for key in (semconv.OPERATORS_TOTAL, semconv.OPERATORS_TENSORRT)
        )
        if total is not None and tensorrt is not None and inside.span.name in {phase.COMPILE.name, phase.REFIT.name}:
            return f"{tensorrt:.0f} of {total:.0f} ops in TensorRT"
    return "compiled" if outcome == FrameOutcome.COMPILED else ""


def compiled(traces: Iterable[Trace]) -> list[Compiled]:
    """A row for everything that was compiled, and one for the other spans of each name; the worst first."""
    rows = _Rows()
    for trace in traces:
        for root in trace.roots:
            starts = list(_starts(root))
            for node in starts:
                rows.add(trace, node)
            if not starts or _has_other_news(root, starts):
                rows.add_other(trace, root)
    return sorted(rows.finished(), key=lambda row: row.badness, reverse=True)


class _Rows:
    """Collects rows."""

    def __init__(self) -> None:
        self._rows: dict[_Key, Compiled] = {}
        self._of_span: dict[tuple[str, str], _Key] = {}
        self._functions: dict[tuple[str, str], list[tuple[float, _Key]]] = {}
        """The rows of functions by file and name, with the line in which each begins, in that order."""
        self._backwards: list[tuple[Trace, Node]] = []
        self._added: set[tuple[_Key, int]] = set()
        """Rows with the traces that they have."""

    def add(self, trace: Trace, node: Node) -> None:
        """Add a compilation."""
        if node.span.name == phase.COMPILE_BACKWARD.name:
            self._backwards.append((trace, node))  # the frame may be in a later trace
            return
        key, name, place = self._key(node)
        self._of_span[node.span.trace_id, node.span.span_id] = key
        self._add(key, Compiled(name, place, is_compilation=True), trace, node)

    def add_other(self, trace: Trace, root: Node) -> None:
        """Add a span that is not a compilation."""
        of_run = (root.span.name, str(root.span.attributes.get(semconv.MODEL_CLASS) or ""))
        name = _labels.SEPARATOR.join(filter(None, of_run if root.span.name in _RUNS else _labels.label(root)))
        place = source_line(root.span.attributes) if root.span.name == phase.COMPILE_WAIT.name else ""
        self._add(("other", name, place), Compiled(name, place, is_compilation=False), trace, root)

    def finished(self) -> Iterable[Compiled]:
        """Every row, backward graphs in those of their frames."""
        for trace, node in self._backwards:
            links = ((link.trace_id, link.span_id) for link in node.span.links)
            own: _Key = ("other", node.span.name)
            name, place = _labels.short(node.span), ""
            if semconv.CODE_FUNCTION in node.span.attributes:  # without an end, it has no links
                own, name, place = self._key_of_frame(node.span.attributes)
            key = next((self._of_span[link] for link in links if link in self._of_span), own)
            self._add(key, Compiled(name, place, is_compilation=True), trace, node)
        return self._rows.values()

    def _add(self, key: _Key, new: Compiled, trace: Trace, node: Node) -> None:
        row = self._rows.setdefault(key, new)
        row.nodes.append(node)
        if (key, id(trace)) not in self._added:  # a backward graph comes last, and may be in the trace of its frame
            self._added.add((key, id(trace)))
            row.traces.append(trace)

    def _key(self, node: Node) -> tuple[_Key, str, str]:
        """What tells the rows apart, and name and place of the row."""
        if node.span.name == phase.COMPILE_FRAME.name:
            return self._key_of_frame(node.span.attributes)
        model = str(node.span.attributes.get(semconv.MODEL_CLASS) or "")
        if node.span.name in _NETWORK_NAMES or not model:
            name = _labels.SEPARATOR.join(filter(None, _labels.label(node)))
            return ("other", name), name, ""
        return ("model", model), model, ""

    def _key_of_frame(self, attributes: Attributes) -> tuple[_Key, str, str]:
        name, place = _frame_answer.whole_function(attributes), source_line(attributes)
        line = number(attributes, semconv.CODE_LINE) or 0
        same = self._functions.setdefault((str(attributes.get(semconv.CODE_FILE) or ""), name), [])
        key: _Key = ("function", place, name)
        if _frame_answer.is_resumed(attributes):  # its own line is that of the graph break
            before = bisect.bisect_right(same, line, key=lambda begin: begin[0])
            if before:
                return same[before - 1][1], name, place
        else:
            position = bisect.bisect_left(same, (line, key))
            if same[position : position + 1] != [(line, key)]:
                same.insert(position, (line, key))
        return key, name or "a frame", place


def _starts(root: Node) -> Iterator[Node]:
    """The outermost compilations."""
    pending = [root]
    while pending:
        node = pending.pop()
        if _is_start(node):
            yield node
        else:
            pending.extend(reversed(node.children))


def _is_start(node: Node) -> bool:
    return node.span.name in _STARTS and node.span.scope == semconv.SCOPE_NAME


def _has_other_news(root: Node, starts: list[Node]) -> bool:
    """Whether something failed, or had sizes that do not fit, outside of the compilations."""
    compilations = {id(inside) for node in starts for inside in node.below()}
    rest = [node for node in root.below() if id(node) not in compilations]
    above = {id(node.parent) for node in root.below() if _labels.error(node.span)[0]}
    failed = any(_labels.error(node.span)[0] and id(node) not in above for node in rest)
    return failed or bool(sizes(rest))
