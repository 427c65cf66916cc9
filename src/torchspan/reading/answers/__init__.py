# SPDX-License-Identifier: Apache-2.0
"""What traces say: what was compiled how often and why, what fell back, what caches did, where the time went, and what to change. Its public face is `torchspan.answers`."""

# General layout, in the direction of the data: `torchspan.traces` (files to spans to trees) -> `whole_texts`, `printable_spans` (texts that can be
# drawn) -> findings as data (`_kinds_of_answer`) by subject: `_frame_answer`, `_fallback_answer`, `_cache_answer`, `_error_answer`, `_limit_answer`,
# `_stages`, `_operator_rows`, `_device_times`; `_compiled` (a row for everything that was compiled), `_time_split` -> lines: `first_screen`, `_labels` and
# `_folded_rows` (what a line says and which there are), `_render` (lines of a given width), `drawing` (their order) -> `_report`.
# `work_in_progress` says what runs in a program that has not ended, from a few spans.

from torchspan.reading.answers._compiled import Compiled
from torchspan.reading.answers._kinds_of_answer import (
    Answer,
    Break,
    BuiltEngine,
    CacheResult,
    Failure,
    Fallback,
    Frame,
    GpuTime,
    LayerTime,
    OperatorTime,
    Recompile,
    Sizes,
    Stage,
)
from torchspan.reading.answers._report import Answers, Report, RunFacts, TraceReport, read
from torchspan.reading.answers._time_split import TimeSplit

__all__ = [
    "Answer",
    "Answers",
    "Break",
    "BuiltEngine",
    "CacheResult",
    "Compiled",
    "Failure",
    "Fallback",
    "Frame",
    "GpuTime",
    "LayerTime",
    "OperatorTime",
    "Recompile",
    "Report",
    "RunFacts",
    "Sizes",
    "Stage",
    "TimeSplit",
    "TraceReport",
    "read",
]
