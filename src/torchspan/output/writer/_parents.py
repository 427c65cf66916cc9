# SPDX-License-Identifier: Apache-2.0
"""The surroundings of frequent work: the current span, and the counts of runs on it."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Hashable
from types import FrameType
from typing import Any

from opentelemetry import context as context_api
from opentelemetry import trace
from opentelemetry.instrumentation.utils import is_instrumentation_enabled
from opentelemetry.trace import Span

from torchspan.base.by_identity import ByIdentity
from torchspan.base.context.span_ends import SpanEnds
from torchspan.engine.run_tally import RunTally
from torchspan.engine.runs import Parent, Surroundings
from torchspan.output.writer._budget import limited_by
from torchspan.words.phase import Folded, Phase


def is_suppressed() -> bool:
    """Whether nothing may be emitted here (`opentelemetry.instrumentation.utils.suppress_instrumentation`)."""
    return not is_instrumentation_enabled()


_OUTPUT = ("opentelemetry.sdk.", "torchspan.output.writer.")


def is_inside_output(skipped: int = 1) -> bool:
    """Whether the caller has interrupted, in this thread, what writes spans and metrics, as a finalizer or a signal handler does.

    The SDK may then hold the lock of a span, an instrument, a processor or an exporter, none of which can be taken twice.

    Args:
        skipped: The frames of the caller itself.
    """
    frame: FrameType | None = sys._getframe(skipped)
    while frame is not None:
        name = frame.f_globals.get("__name__")
        if type(name) is str and name.startswith(_OUTPUT):
            return True
        frame = frame.f_back
    return False


class SpanParents:
    """The `ParentProbe` of spans.

    Args:
        ends: Reports when spans end, so that counts are exact on every span that has ended.
    """

    def __init__(self, ends: SpanEnds | None = None) -> None:
        self.context = context_api.get_current
        self._ends = ends or SpanEnds()
        self._known: ByIdentity[RecordingSpan] = ByIdentity()

    def look(self, context: Any) -> Parent | Surroundings:
        """See `torchspan.engine.runs.ParentProbe`. A span of this process that has ended surrounds nothing."""
        if is_suppressed():
            return Surroundings.SUPPRESSED
        span = trace.get_current_span(context)
        if span.is_recording():
            return self.of(span)
        has_ended = getattr(span, "end_time", None) is not None
        is_outside = has_ended or not span.get_span_context().is_valid
        return Surroundings.OUTSIDE if is_outside else Surroundings.UNRECORDED

    def of(self, span: Span) -> RecordingSpan:
        """The object kept for a recording span: the same one while the span lives."""
        recording = self._known.get(span)
        if recording is None:
            made = RecordingSpan(span)
            recording = self._known.setdefault(span, made)
            if recording is made:
                made.is_watched = self._ends.watch(span, self._ended)
        return recording

    def close(self) -> None:
        """Write all counts now, and stop watching the ends of spans."""
        for span in self._known:
            self._ended(span)
        self._ends.close()

    def _ended(self, span: Span) -> None:
        recording = self._known.pop(span)
        if recording is not None:
            recording.close()


class RecordingSpan:
    """The `Parent` for a recording span. It does not keep the span alive.

    is_watched: whether its end is reported.
    """

    def __init__(self, span: Span) -> None:
        self.is_watched = False
        self._span = weakref.ref(span)
        self._trace = limited_by(span.get_span_context())
        self._tallies: dict[Phase, RunTally] = {}

    @property
    def trace(self) -> Hashable:
        """The key for limits: see `limited_by`."""
        return self._trace

    def tally(self, phase: Phase) -> RunTally:
        """Counts runs of `phase` on the span: number, sum and maximum under the phase's own keys."""
        tally = self._tallies.get(phase)
        if tally is None:
            tally = self._tallies.setdefault(phase, RunTally(self._writing(phase), is_closed=self.is_watched))
        return tally

    def _writing(self, phase: Phase) -> Callable[[int, float, float], None]:
        count_key, sum_key, max_key = phase.folded or Folded.below(phase.name)

        def write(count: int, total_s: float, longest_s: float) -> None:
            span = self._span()
            if span is not None:
                span.set_attributes({count_key: count, sum_key: total_s, max_key: longest_s})

        return write

    def close(self) -> None:
        """Write all counts, because the span ends."""
        for tally in list(self._tallies.values()):
            tally.close()
