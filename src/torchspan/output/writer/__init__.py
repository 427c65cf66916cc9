# SPDX-License-Identifier: Apache-2.0
"""Writes the engine's events as spans and metrics. It uses OpenTelemetry's API and the tables, and not torch."""

from torchspan.output.writer._enrich import ServingMarks
from torchspan.output.writer._event_signals import OPT_IN, event_signals
from torchspan.output.writer._heartbeats import Heartbeats
from torchspan.output.writer._memory import DeviceMemory, ProcessMemory, Sampler
from torchspan.output.writer._metric_writer import MetricWriter
from torchspan.output.writer._notes import CurrentSpanNotes
from torchspan.output.writer._parents import SpanParents, is_inside_output, is_suppressed
from torchspan.output.writer._progress import ProgressWriter
from torchspan.output.writer._selected_ranks import SelectedRanks
from torchspan.output.writer._span_writer import SpanWriter

__all__ = [
    "OPT_IN",
    "CurrentSpanNotes",
    "DeviceMemory",
    "Heartbeats",
    "MetricWriter",
    "ProcessMemory",
    "ProgressWriter",
    "Sampler",
    "SelectedRanks",
    "ServingMarks",
    "SpanParents",
    "SpanWriter",
    "event_signals",
    "is_inside_output",
    "is_suppressed",
]
