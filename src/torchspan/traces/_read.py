# SPDX-License-Identifier: Apache-2.0
"""Files of traces to spans."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass, field

from torchspan.traces._input import Source, every_document
from torchspan.traces._otlp import UnreadableError, raw_spans, span_of
from torchspan.traces._search import Searchable
from torchspan.traces._spans import Attributes, Span
from torchspan.traces._tree import Trace, trees

MOST_PROBLEMS = 100
"""Problems of which the text is kept; the others are counted."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that could not be read. source: name of the file. place: `line 3, span 1`. what: a clause."""

    source: str
    place: str
    what: str

    def __str__(self) -> str:
        return f"{self.source}: {self.place}: {self.what}"


@dataclass
class FileContent:
    """What was read of one or several files.

    problems: the first MOST_PROBLEMS places that could not be read. unread: how many there are in all.
    is_empty: whether there was nothing to read at all.
    """

    problems: list[Problem] = field(default_factory=list)
    unread: int = 0
    is_empty: bool = True

    def add_problem(self, name: str, place: str, error: Exception) -> None:
        """Count a place that could not be read, and keep what is wrong with it while there is room."""
        self.unread += 1
        if len(self.problems) < MOST_PROBLEMS:
            what = "nested too deeply" if isinstance(error, RecursionError) else str(error)
            self.problems.append(Problem(name, place, what))


@dataclass
class TraceFile(FileContent, Searchable):
    """The spans of one or several files, in the order of the files, each once.

    They do not change once `traces` has been used.
    """

    spans: list[Span] = field(default_factory=list)

    @functools.cached_property
    def traces(self) -> list[Trace]:
        """The spans as trees, one entry for each trace id, in the order of their start; see `trees`."""
        return trees(self.spans)


def read(*sources: Source) -> TraceFile:
    """Read the spans of all sources as one.

    Each is OTLP JSON: a request a line, as torchspan's file exporter and the Collector's write it, requests printed
    over several lines, or a list of requests; in OTLP's spelling or in that of protobuf's JSON mapping (base64 ids,
    names of enumerations, snake_case keys); plain or packed with gzip. What cannot be read is a problem and nothing
    else: the other lines, and the other spans of a line, are there. A last line that is still being written is a
    problem too; read again for more. A span that was written twice is read once. Pipes are read to their end.

    A document longer than 256 MiB is left out. Raises OSError when a source cannot be opened or read, and for devices
    without an end.
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

    def read(self, sources: Iterable[Source]) -> TraceFile:
        for name, place, document in every_document(sources):
            self._result.is_empty = False
            if isinstance(document, UnreadableError):
                self._result.add_problem(name, place, document)
                continue
            try:
                for where, raw, scope, resource in raw_spans(document, place, self._resources):
                    try:
                        self._add(span_of(raw, scope, resource))
                    except (UnreadableError, RecursionError) as error:
                        self._result.add_problem(name, where, error)
            except (UnreadableError, RecursionError) as error:
                self._result.add_problem(name, place, error)
        return self._result

    def _add(self, span: Span) -> None:
        # An exporter that tries again writes a span twice. Equal ids alone prove nothing: a program that seeds the
        # global random generator gives the same ids to different spans.
        twin = self._seen.setdefault((span.trace_id, span.span_id), span)
        if twin is span or (twin.name, twin.start_ns, twin.end_ns) != (span.name, span.start_ns, span.end_ns):
            self._result.spans.append(span)
