# SPDX-License-Identifier: Apache-2.0
"""Spans to a waterfall in the terminal.

General layout, in the direction of the data: `torchspan.traces` (files to spans to trees) -> `_printable` (texts that
a terminal can be given) -> `_labels` (what a line says) and `_trace_answers` (what the whole says), `_folded_rows` (what is shown
at all) -> `_render` (lines of a given width).
"""

from torchspan.answers._printable import printable_spans
from torchspan.answers._program import program_line
from torchspan.answers._render import overview, program, waterfall
from torchspan.answers._scene import Scene
from torchspan.answers._trace_answers import answers
from torchspan.answers._units import plural

__all__ = ["Scene", "answers", "overview", "plural", "printable_spans", "program", "program_line", "waterfall"]
