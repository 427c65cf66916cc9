# SPDX-License-Identifier: Apache-2.0
"""Files of traces as data: spans, and the trees that they make. Its public face is `torchspan.traces`."""

# In the direction of the data: `_input` (files to documents) -> `_otlp` (documents to spans) -> `_read` (several files as one)
# -> `_unfinished` (spans that did not end) -> `_tree` (spans to trees) -> `_run_traces` (traces of one `torchspan run`).
# `_strings` finds every distinct string of files.

from torchspan.reading.traces._fields import Part
from torchspan.reading.traces._file_spans import Attributes, Link, Running, Span, SpanEvent, UnfinishedSpan
from torchspan.reading.traces._read import FileContent, Problem, Searchable, SpanNotFoundError, TraceFile, read
from torchspan.reading.traces._run_traces import Run, by_run
from torchspan.reading.traces._strings import FileStrings, Place, strings
from torchspan.reading.traces._tree import Interval, Node, Trace, at_or_below, length_ns, own_intervals, trees, union

__all__ = [
    "Attributes",
    "FileContent",
    "FileStrings",
    "Interval",
    "Link",
    "Node",
    "Part",
    "Place",
    "Problem",
    "Run",
    "Running",
    "Searchable",
    "Span",
    "SpanEvent",
    "SpanNotFoundError",
    "Trace",
    "TraceFile",
    "UnfinishedSpan",
    "at_or_below",
    "by_run",
    "length_ns",
    "own_intervals",
    "read",
    "strings",
    "trees",
    "union",
]
