# SPDX-License-Identifier: Apache-2.0
"""The limit of spans in a trace.

Below `torchspan run`, everything that a program does may be one trace: that of the run. There, each outermost span of a process
counts as a trace of its own, so request 100 of a server is recorded like request 1.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Hashable

from opentelemetry.trace import SpanContext

SPANS_PER_TRACE = 2000
"""Maximum number of torchspan's spans in one trace."""

TRACES = 1024
"""Number of traces whose spans are counted. The trace without a new span for longest is forgotten, and would start from zero."""


def limited_by(context: SpanContext) -> Hashable:
    """The key under which a span counts for a limit: its trace, or below `torchspan run` its outermost span in this process."""
    # An attribute of contexts of `torchspan run`'s own provider (torchspan/hooks/propagation/own_spans.py).
    return getattr(context, "local_root", None) or context.trace_id


class Budget:
    """Counts spans by trace, in this process.

    It has no lock: a finalizer or a signal handler may interrupt it anywhere. If threads race, a trace may have one span more.

    A phase has spans until its share (`Phase.room`) of the trace's budget is used. Details have a small share, which leaves
    spans for more important work.
    """

    def __init__(self, spans: int = SPANS_PER_TRACE) -> None:
        self._spans = spans
        self._used: OrderedDict[Hashable, int] = OrderedDict()
        self.refused = 0
        """Number of spans over the limit."""

    def take(self, trace: Hashable, room: float) -> bool:
        """Count one more span of the trace, if a phase with this share may have it. Returns whether it may."""
        used = self._used.get(trace, 0)
        if used >= int(self._spans * room):
            self.refused += 1
            return False
        self._used[trace] = used + 1
        with contextlib.suppress(KeyError):  # another thread has just forgotten it
            self._used.move_to_end(trace)
            if len(self._used) > TRACES:
                self._used.popitem(last=False)
        return True

    def give_back(self, trace: Hashable) -> None:
        """Subtract a counted span that records nothing."""
        used = self._used.get(trace)
        if used:
            self._used[trace] = used - 1
