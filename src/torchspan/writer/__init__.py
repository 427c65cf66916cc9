# SPDX-License-Identifier: Apache-2.0
"""Writes the engine's events as spans and metrics. It uses OpenTelemetry's API and the tables, and not torch."""

from torchspan.writer._enrich import enrich_callback
from torchspan.writer._event_signals import OPT_IN, event_signals
from torchspan.writer._heartbeats import Heartbeats
from torchspan.writer._memory import Sampler, memory_callbacks
from torchspan.writer._metric_writer import MetricWriter
from torchspan.writer._notes import CurrentSpanNotes
from torchspan.writer._parents import SpanParents, is_inside_output, is_suppressed
from torchspan.writer._progress import ProgressWriter
from torchspan.writer._selected_ranks import SelectedRanks
from torchspan.writer._span_writer import SpanWriter

__all__ = [
    "OPT_IN",
    "CurrentSpanNotes",
    "Heartbeats",
    "MetricWriter",
    "ProgressWriter",
    "Sampler",
    "SelectedRanks",
    "SpanParents",
    "SpanWriter",
    "enrich_callback",
    "event_signals",
    "is_inside_output",
    "is_suppressed",
    "memory_callbacks",
]
