# SPDX-License-Identifier: Apache-2.0
"""What is running in a program, from the spans that it has written so far."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from torchspan.reading.answers import _labels
from torchspan.reading.answers._attributes import number, process_id, strings
from torchspan.reading.answers._fallback_answer import fallbacks
from torchspan.reading.answers._operator_rows import is_operator
from torchspan.reading.answers.printable_spans import printable_spans
from torchspan.reading.answers.units import duration, source_line
from torchspan.reading.traces import Node, Run, Span, UnfinishedSpan, trees
from torchspan.words import phase, semconv

_CONVERSIONS = frozenset(row.name for row in phase.CONVERSIONS)
_Key = tuple[str, str]
"""Trace id and span id."""


class WorkInProgress:
    """What is running in one run of a program, or in a service that was not started by `torchspan run`.

    Takes the spans in the order of the file. Of a span that ended, its id is kept, and what it says of an open span around
    it until the next one says it.

    Args:
        run_id: The run's id; empty for spans of no run.

    Attributes:
        pids: The processes that have written spans.
        start_ns: The earliest start, in nanoseconds since 1970; 0 without a span.
        has_ended: Whether there is a span `torchspan.run`.
    """

    def __init__(self, run_id: str = "") -> None:
        self.run_id = run_id
        self.pids: set[int | None] = set()
        self.start_ns = self._last_ns = 0
        self.has_ended = False
        self._ended: set[_Key] = set()
        self._about_open: dict[_Key, dict[str, Span]] = {}
        """By the open span: the last span of each kind directly inside it."""
        self._planned: dict[_Key, float] = {}
        self._converted: Counter[_Key] = Counter()
        """By the compilation: engines, planned and finished."""
        self._fallen: list[Span] = []

    def add(self, span: Span) -> None:
        """Take the next span."""
        if is_operator(span):
            return
        self.pids.add(process_id(span.resource))
        self.start_ns = min(self.start_ns or span.start_ns, span.start_ns)
        self._last_ns = max(self._last_ns, span.end_ns)
        self.has_ended |= Run.is_span(span)
        around, kind = (span.trace_id, span.parent_id), "end"
        if span.name == phase.PROGRESS.name and span.scope == semconv.SCOPE_NAME:
            kind = "start" if span.attributes.get(semconv.PROGRESS_NUMBER) == 0 else "heartbeat"
        else:
            self._close(span, around)
        tells = kind != "end" or strings(span.attributes, semconv.OPEN_ANCESTOR_IDS)[:1] == [span.parent_id]
        if tells and around not in self._ended:
            self._about_open.setdefault(around, {})[kind] = span

    def _close(self, span: Span, around: _Key) -> None:
        key = (span.trace_id, span.span_id)
        self._ended.add(key)
        self._about_open.pop(key, None)
        planned = number(span.attributes, semconv.SUBGRAPHS_TENSORRT)
        if planned is not None:
            self._planned[around] = planned
        self._converted[around] += span.name in _CONVERSIONS
        if semconv.FALLBACK_REASON_CLASSES in span.attributes:
            self._fallen.append(span)

    def lines(self, now_ns: int, pids: Collection[int | None] = ()) -> list[tuple[str, str]]:
        """What runs, a line for each innermost open span with how long it has been running, then what fell back.

        Args:
            now_ns: Nanoseconds since 1970.
            pids: The processes that are known to exist. If there is one, the work of others is over.
        """
        running = [node for node in self._innermost() if not pids or process_id(node.span.resource) in {None, *pids}]
        has_several = len({process_id(node.span.resource) for node in running}) > 1
        lines = []
        for node in running:
            process = [f"process {process_id(node.span.resource)}"] if has_several else []
            text = ": ".join([*process, *self._engine(node), _path(node)])
            lines.append((duration(max(now_ns - node.span.start_ns, 0)), text))
        if not running and self._last_ns:
            nothing = "nothing of torch.compile, Torch-TensorRT or TensorRT is running"
            lines = [(duration(max(now_ns - self._last_ns, 0)), nothing)]
        fallen = [node for trace in trees(printable_spans(self._fallen)) for node in trace.nodes()]
        return [*lines, *(("", f"in PyTorch: {fallback.sentence}") for fallback in fallbacks(fallen))]

    def _innermost(self) -> list[Node]:
        spans = [span for about in self._about_open.values() for span in about.values()]
        nodes = [node for trace in trees(printable_spans(spans)) for node in trace.nodes() if self._is_open(node)]
        return [node for node in nodes if not any(map(self._is_open, node.children))]

    def _is_open(self, node: Node) -> bool:
        return isinstance(node.span, UnfinishedSpan) and (node.span.trace_id, node.span.span_id) not in self._ended

    def _engine(self, node: Node) -> list[str]:
        """`engine 2 of 5`; nothing where no engine is made."""
        above: Node | None = node
        while above is not None and above.span.name not in _CONVERSIONS:
            above = above.parent
        if above is None:
            return []
        key = (above.span.trace_id, above.span.parent_id)
        position, planned = self._converted[key] + 1, self._planned.get(key, 0)
        return [f"engine {position} of {planned:.0f}" if planned >= position else f"engine {position}"]


def _path(node: Node) -> str:
    """The spans around it and itself, outermost first, as the answers call them."""
    running = node.span.running if isinstance(node.span, UnfinishedSpan) else None
    pieces = [] if running is None else [_labels.without_library(running.name)]
    inner: Node | None = node
    while inner is not None:
        name, subject = _labels.label(inner)
        shown = name if inner.parent is None else _labels.short(inner.span)
        pieces.append(_labels.SEPARATOR.join(filter(None, (shown, subject, source_line(inner.span.attributes)))))
        inner = inner.parent
    return " → ".join(reversed(pieces))
