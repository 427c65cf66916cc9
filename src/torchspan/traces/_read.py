# SPDX-License-Identifier: Apache-2.0
"""Files of traces to spans."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass, field

from torchspan.traces._file_spans import Attributes, Span
from torchspan.traces._input import Source, every_document
from torchspan.traces._otlp import UnreadableError, raw_spans, span_of
from torchspan.traces._search import Searchable
from torchspan.traces._tree import Trace, trees

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
    """

    records: list[Span] = field(default_factory=list)

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

    A file contains OTLP JSON: one request a line, as the file exporters of torchspan and of the Collector write it, requests
    printed over several lines, or a list of requests. Both OTLP's spelling and that of protobuf's JSON mapping (base64 ids,
    names of enumerations, snake_case keys) are understood, plain or compressed with gzip. What cannot be read is listed in
    `problems`. The other lines, and the other spans of a line, are read. A last line that is still being written is a
    problem too: read the file again later. A span that was written twice is read once. Pipes are read to their end. A
    document longer than 256 MiB is left out.

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

    def read(self, sources: Iterable[Source]) -> TraceFile:
        for name, place, document in every_document(sources):
            self._result.is_empty = False
            if isinstance(document, UnreadableError):
                self._result._add_problem(name, place, document)
                continue
            try:
                for where, raw, scope, resource in raw_spans(document, place, self._resources):
                    try:
                        self._add(span_of(raw, scope, resource))
                    except (UnreadableError, RecursionError) as error:
                        self._result._add_problem(name, where, error)
            except (UnreadableError, RecursionError) as error:
                self._result._add_problem(name, place, error)
        return self._result

    def _add(self, span: Span) -> None:
        # An exporter that tries again writes a span twice. Equal ids alone prove nothing: a program that seeds the
        # global random generator gives the same ids to different spans.
        twin = self._seen.setdefault((span.trace_id, span.span_id), span)
        if twin is span or (twin.name, twin.start_ns, twin.end_ns) != (span.name, span.start_ns, span.end_ns):
            self._result.records.append(span)
