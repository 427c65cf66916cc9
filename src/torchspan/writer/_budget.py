# SPDX-License-Identifier: Apache-2.0
"""How many spans a trace may have.

Below `torchspan run` all that a program does may be one trace, the run's. What is outermost in a process there counts as a
trace: request 100 of a server is recorded as request 1 was.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable

from opentelemetry.trace import SpanContext

from torchspan._base.forks import renewed

SPANS_PER_TRACE = 2000
"""Spans of torchspan's in one trace."""

TRACES = 1024
"""Traces whose spans are counted; the one that has had none for longest is forgotten, and would start again from zero."""


def limited_by(context: SpanContext) -> Hashable:
    """By what the limits of a trace count for a span: its trace; below `torchspan run` its outermost span in this process."""
    # An attribute of the contexts of run's own provider (torchspan/_run/spans.py).
    return getattr(context, "local_root", None) or context.trace_id


class Budget:
    """Counts spans by trace, in this process.

    What is a detail stops early, so that spans are left for what matters: a phase has spans while fewer than its share
    (`Phase.room`) of the trace's are used.
    """

    def __init__(self, spans: int = SPANS_PER_TRACE) -> None:
        self._spans = spans
        self._used: OrderedDict[Hashable, int] = OrderedDict()
        self._lock = renewed(self, "_lock", threading.Lock)
        self.refused = 0
        """Spans over the limit."""

    def take(self, trace: Hashable, room: float) -> bool:
        """Whether the trace may have one more span, of a phase that may use this share of it; then it is counted."""
        with self._lock:
            used = self._used.get(trace, 0)
            if used >= int(self._spans * room):
                self.refused += 1
                return False
            self._used[trace] = used + 1
            self._used.move_to_end(trace)
            if len(self._used) > TRACES:
                self._used.popitem(last=False)
            return True

    def give_back(self, trace: Hashable) -> None:
        """The span that was counted records nothing."""
        with self._lock:
            if self._used.get(trace):
                self._used[trace] -= 1
