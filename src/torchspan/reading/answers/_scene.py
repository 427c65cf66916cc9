# SPDX-License-Identifier: Apache-2.0
"""What a line says because of spans elsewhere in the drawing: processes, threads, links."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from torchspan.reading.answers._attributes import process_id
from torchspan.reading.answers._labels import Fact
from torchspan.reading.answers.units import duration, plural
from torchspan.reading.traces import Node, Run, Span
from torchspan.words import phase, semconv

_THREADS = ("thread.name", "thread.id")
_MOST_LINKS = 10
"""Links of a span that are shown; a consumer of messages may have one for each."""
_RUNS = frozenset({phase.EXECUTE.name, phase.RUN_CONTEXT.name})


@dataclass(frozen=True)
class Scene:
    """Spans that are drawn together.

    Args:
        has_processes, has_threads: Whether there are several, so that a line has to say which is its.
        targets: The spans that others link to, by trace id and span id.
    """

    has_processes: bool = False
    has_threads: bool = False
    targets: Mapping[tuple[str, str], Span] = field(default_factory=dict)

    @classmethod
    def of(cls, spans: Iterable[Span]) -> Scene:
        """The scene of all these spans. The wrapper's own span is not a process of the program."""
        every = list(spans)
        processes = {_process(span) for span in every if not Run.is_span(span)} - {""}
        threads = {_thread(span) for span in every} - {""}
        wanted = {(link.trace_id, link.span_id) for span in every for link in span.links}
        keys = ((span.trace_id, span.span_id) for span in every) if wanted else ()
        targets = {key: span for key, span in zip(keys, every, strict=False) if key in wanted}
        return cls(len(processes) > 1, len(threads) > 1, targets)

    def facts(self, node: Node) -> list[Fact]:
        """Process and thread where they are not those of the line above, and what the span links to."""
        span, above = node.span, None if node.parent is None else node.parent.span
        fragments = []
        for what, several, name in (("process", self.has_processes, _process), ("thread", self.has_threads, _thread)):
            own = name(span)
            if several and own and (above is None or name(above) != own):
                fragments.append(f"{what} {own}")
        links = list(dict.fromkeys((link.trace_id, link.span_id) for link in span.links))
        fragments += [self._link(span, key) for key in links[:_MOST_LINKS]]
        if len(links) > _MOST_LINKS:
            fragments.append(plural(len(links) - _MOST_LINKS, "more link"))
        return [Fact(text) for text in fragments if text]

    def _link(self, span: Span, key: tuple[str, str]) -> str:
        """What the link means, by what it leads to; empty where the drawing shows it."""
        target = self.targets.get(key)
        if target is None:
            return f"linked to trace {key[0]}"
        if key[0] != span.trace_id:
            where = f"{target.name} of trace {key[0]}"
        else:
            where = f"{target.name} of {duration(target.duration_ns)}"
        if target.name == phase.EXPORT.name:
            return f"exported in {where}"
        if span.name in _RUNS:
            return "" if key[0] == span.trace_id else f"its engine is from {where}"
        if target.end_ns <= span.start_ns:
            return f"outlived {where}"
        return f"started in {where}"


def _process(span: Span) -> str:
    pid = process_id(span.resource)
    return "" if pid is None else str(pid)


def _thread(span: Span) -> str:
    keys = (
        _THREADS[:1] if span.scope == semconv.SCOPE_NAME else _THREADS
    )  # people cannot read torchspan's id of a thread
    return next((str(span.attributes[key]) for key in keys if span.attributes.get(key)), "")
