# SPDX-License-Identifier: Apache-2.0
"""Files of traces as data: spans, and the trees that they make.

    from torchspan import traces

    file = traces.read("trace.jsonl")
    compilation = file.one("torch_tensorrt.compile")
    print(compilation.attributes["torch_tensorrt.compile.outcome"], file.outline())
    for trace in file.traces:
        for node in trace.nodes():
            print(node.span.name, node.span.duration_ns, node.self_ns())

Reading files needs neither the OpenTelemetry SDK nor torch.
"""

# In the direction of the data: `_input` (files to documents) -> `_otlp` (documents to spans) -> `_read` (several files as one)
# -> `_unfinished` (spans that did not end) -> `_tree` (spans to trees) -> `_run_traces` (traces of one `torchspan run`).
# `_strings` finds every distinct string of files.

from torchspan.traces._fields import Part
from torchspan.traces._file_spans import Attributes, Link, Running, Span, SpanEvent, UnfinishedSpan
from torchspan.traces._read import FileContent, Problem, Searchable, SpanNotFoundError, TraceFile, read
from torchspan.traces._run_traces import Run, by_run
from torchspan.traces._strings import FileStrings, Place, strings
from torchspan.traces._tree import Interval, Node, Trace, at_or_below, length_ns, own_intervals, trees, union

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
