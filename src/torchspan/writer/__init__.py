# SPDX-License-Identifier: Apache-2.0
"""Spans: what the engine's events become. Knows OpenTelemetry's API and the attribute table, and no torch."""

from torchspan.writer._heartbeats import Heartbeats
from torchspan.writer._progress import ProgressWriter
from torchspan.writer._spans import SpanWriter

__all__ = ["Heartbeats", "ProgressWriter", "SpanWriter"]
