# SPDX-License-Identifier: Apache-2.0
"""Files of traces to spans."""

from __future__ import annotations

import dataclasses
import difflib
import functools
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar

from torchspan.reading.traces._file_spans import Attributes, Span, SpanEvent
from torchspan.reading.traces._input import Source, every_document
from torchspan.reading.traces._otlp import SPAN, UnreadableError, event_of, raw_messages, span_of
from torchspan.reading.traces._tree import Node, Trace, trees
from torchspan.words import semconv

# --- questions about spans by name ----------------------------------------------------------------------------------
_NAMES_SHOWN = 20
"""Names of spans that an error lists."""


class SpanNotFoundError(LookupError):
    """No span matches, or several do where one is expected."""


class Searchable:
    """Spans that can be found by name. A subclass has `traces`."""

    _WHERE_OTHERS_ARE: ClassVar[str] = ""
    """What an error adds where there are no spans at all."""

    @property
    def traces(self) -> list[Trace]:
        """The spans as trees, one entry for each trace id, in the order of their start."""
        raise NotImplementedError

    def find(self, name: str) -> list[Span]:
        """The spans of a name.

        Args:
            name: The whole name, such as `tensorrt.build_engine`.

        Returns:
            The spans: trace by trace, parents before their children, siblings by start. Empty if there is none.

        Raises:
            TypeError: `name` is not a string.
        """
        if not isinstance(name, str):
            raise TypeError(f"name must be a str, the name of a span, not {name!r}")
        return [node.span for node in self._nodes() if node.span.name == name]

    def one(self, name: str) -> Span:
        """The only span of a name.

        Args:
            name: The whole name, such as `torch_tensorrt.compile`.

        Returns:
            The span.

        Raises:
            SpanNotFoundError: No span has the name, or several have. It is a LookupError.
            TypeError: `name` is not a string.
        """
        spans = self.find(name)
        if len(spans) == 1:
            return spans[0]
        raise SpanNotFoundError(self._not_one(name, len(spans)))

    def below(self, span: Span) -> list[Span]:
        """The spans below a span, at any depth. The span itself is not one of them.

        Args:
            span: A span from `find`, `one` or `traces`.

        Returns:
            The spans, parents before their children.

        Raises:
            SpanNotFoundError: The span is not one of these.
        """
        return [node.span for node in self._node(span).below()][1:]

    def self_time(self, span: Span) -> int:
        """The time in which a span ran and none of its children did.

        Args:
            span: A span from `find`, `one` or `traces`.

        Returns:
            Nanoseconds.

        Raises:
            SpanNotFoundError: The span is not one of these.
        """
        return self._node(span).self_ns()

    def outline(self) -> str:
        """The names of all spans as an indented list.

        Returns:
            One name a line, indented by two spaces for each span around it.
        """
        lines, pending = [], [(0, root) for trace in reversed(self.traces) for root in reversed(trace.roots)]
        while pending:
            depth, node = pending.pop()
            lines.append("  " * depth + node.span.name)
            pending.extend((depth + 1, child) for child in reversed(node.children))
        return "\n".join(lines)

    def _nodes(self) -> Iterable[Node]:
        return (node for trace in self.traces for node in trace.nodes())

    def _node(self, span: Span) -> Node:
        for trace in self.traces:
            node = trace._by_span.get(id(span))
            if node is not None:
                return node
        name = getattr(span, "name", span)
        raise SpanNotFoundError(f"{name!r} is not a span of this trace. Pass a span that its find() or one() returned.")

    def _not_one(self, name: str, number: int) -> str:
        if number:
            return f"{number} spans are named {name!r}, but one() expects exactly one. Use find() for all of them."
        names = sorted({node.span.name for node in self._nodes()})
        if not names:
            return f"No span is named {name!r}, because there are no spans at all.{self._WHERE_OTHERS_ARE}"
        close = difflib.get_close_matches(name, names, 1)
        meant = f" Did you mean {close[0]!r}?" if close else ""
        more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
        return f"No span is named {name!r}.{meant} There are: {', '.join(names[:_NAMES_SHOWN])}{more}."


# ------------------------------------------------------------------------------------------------------------------
MOST_PROBLEMS = 100
"""Problems of which the text is kept; the others are counted."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that could not be read.

    Attributes:
        source: The name of the file.
        place: Where in the file: `line 3, span 1`.
        what: What is wrong.
    """

    source: str
    place: str
    what: str

    def __str__(self) -> str:
        return f"{self.source}: {self.place}: {self.what}"


@dataclass
class FileContent:
    """The content that was read from one or several files.

    Attributes:
        problems: The first 100 places that could not be read.
        unread: The number of places that could not be read.
        is_empty: Whether the files have no content at all.
    """

    problems: list[Problem] = field(default_factory=list)
    unread: int = 0
    is_empty: bool = True

    def _add_problem(self, name: str, place: str, error: Exception) -> None:
        """Count a place that could not be read, and keep the first MOST_PROBLEMS of them."""
        self.unread += 1
        if len(self.problems) < MOST_PROBLEMS:
            what = "nested too deeply" if isinstance(error, RecursionError) else str(error)
            self.problems.append(Problem(name, place, what))


@dataclass(repr=False)
class TraceFile(FileContent, Searchable):
    """The spans of one or several files, each once.

    Nothing changes once `traces` or `spans` has been used.

    Attributes:
        problems: The first 100 places that could not be read.
        unread: The number of places that could not be read.
        is_empty: Whether the files have no content at all.
        records: What the files contain, in their order: spans, starts of spans, and `torchspan.progress` spans.
        spanless: The number of torchspan's log records whose span is in none of the files.
    """

    records: list[Span] = field(default_factory=list)
    spanless: int = 0

    def __repr__(self) -> str:
        return f"<TraceFile of {len(self.spans)} spans>"

    @functools.cached_property
    def spans(self) -> list[Span]:
        """The spans, as `find` returns them: trace by trace, parents before their children."""
        return [node.span for node in self._nodes()]

    @functools.cached_property
    def traces(self) -> list[Trace]:
        """The spans as trees, one entry for each trace id, in the order of their start; see `trees`."""
        return trees(self.records)


def read(*sources: Source) -> TraceFile:
    """Read the spans of files as one.

    A file contains OTLP JSON, plain or compressed with gzip: on each line one request, as the file exporters of torchspan and
    of the Collector write it, or a list of requests (`jq -c .` makes one line of a document that is printed over several). What
    cannot be read is listed in `problems`. The other lines, and the other spans of a line, are read. A last line that is still being written is a
    problem too: read the file again later. A span that was written twice is read once. torchspan's log records (`TORCHSPAN_EVENTS=log`)
    become events of their spans, in the order of time. Pipes are read to their end. A document longer than 256 MiB is left out.

    Args:
        *sources: Paths, or files that are open in binary mode.

    Returns:
        The spans of all sources, with `find`, `one` and `traces` to access them.

    Raises:
        OSError: A source cannot be opened or read, or is a device without an end.
        TypeError: A source is neither a path nor a file in binary mode.
    """
    return _Reader().read(sources)


class _Reader:
    """Reads one file after the other into one result.

    Documents are parsed one by one, so their equal texts are different objects: names, keys and ids are interned, and
    each resource is held once.
    """

    def __init__(self) -> None:
        self._result = TraceFile()
        self._seen: dict[tuple[str, str], Span] = {}
        self._resources: dict[str, Attributes] = {}
        self._logged: list[tuple[str, str, SpanEvent]] = []

    def read(self, sources: Iterable[Source]) -> TraceFile:
        for name, place, document in every_document(sources):
            self._result.is_empty = False
            if isinstance(document, UnreadableError):
                self._result._add_problem(name, place, document)
                continue
            try:
                for where, kind, raw, scope, resource in raw_messages(document, place, self._resources):
                    try:
                        if kind == SPAN:
                            self._add(span_of(raw, scope, resource))
                        elif scope == semconv.SCOPE_NAME:
                            self._logged.append(event_of(raw))
                    except (UnreadableError, RecursionError) as error:
                        self._result._add_problem(name, where, error)
            except (UnreadableError, RecursionError) as error:
                self._result._add_problem(name, place, error)
        self._attach()
        return self._result

    def _add(self, span: Span) -> None:
        # An exporter that tries again writes a span twice. Equal ids alone prove nothing: a program that seeds the
        # global random generator gives the same ids to different spans.
        twin = self._seen.setdefault((span.trace_id, span.span_id), span)
        if twin is span or (twin.name, twin.start_ns, twin.end_ns) != (span.name, span.start_ns, span.end_ns):
            self._result.records.append(span)

    def _attach(self) -> None:
        """Give each event that was a log record to its span: of several with the same ids, to the last that had started."""
        records, logged = self._result.records, dict[int, list[SpanEvent]]()
        twins: dict[tuple[str, str], list[int]] = {}
        for index in sorted(range(len(records)), key=lambda index: records[index].start_ns) if self._logged else ():
            twins.setdefault((records[index].trace_id, records[index].span_id), []).append(index)
        for trace_id, span_id, event in self._logged:
            indexes = twins.get((trace_id, span_id))
            if indexes is None:
                self._result.spanless += 1
                continue
            number = bisect_right(indexes, event.time_ns, key=lambda index: records[index].start_ns)
            logged.setdefault(indexes[max(number - 1, 0)], []).append(event)
        for index, events in logged.items():
            records[index] = _with_events(records[index], events)


def _with_events(span: Span, logged: list[SpanEvent]) -> Span:
    """The span with the events that it does not have. Those of a span with whole texts stay where they are: texts have their indexes."""
    own = {_content(event) for event in span.events}
    events = [*span.events, *{_content(event): event for event in logged if _content(event) not in own}.values()]
    if not span.texts:
        events.sort(key=lambda event: event.time_ns)
    return dataclasses.replace(span, events=tuple(events))


def _content(event: SpanEvent) -> tuple[int, str, str]:
    return event.time_ns, event.name, repr(sorted(event.attributes.items()))
