# SPDX-License-Identifier: Apache-2.0
"""From a file of OTLP JSON lines to a waterfall in the terminal.

General layout, in the direction of the data: `_reader` (lines to spans) -> `_unfinished` (spans
of progress to what they stand for) -> `_tree` (spans to trees) -> `_labels` (what a
line says) and `_answers` (what the whole says), `_fold` (what is shown at all) -> `_render` (lines of a given width).
"""

from torchspan.cli.waterfall._reader import Span, TraceFile, read_file
from torchspan.cli.waterfall._render import overview, waterfall
from torchspan.cli.waterfall._tree import Trace, traces

__all__ = ["Span", "Trace", "TraceFile", "overview", "read_file", "traces", "waterfall"]
