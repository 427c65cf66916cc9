# SPDX-License-Identifier: Apache-2.0
"""How many spans a trace may have."""

from __future__ import annotations

import threading
from collections import OrderedDict

SPANS_PER_TRACE = 2000
"""Spans of torchspan's in one trace."""

TRACES = 1024
"""Traces whose spans are counted; the one that has had none for longest is forgotten, and would start again from zero."""


class Budget:
    """Counts spans by trace, in this process.

    What is a detail stops early, so that it leaves room for what matters: a phase has spans while fewer than its share
    (`Phase.room`) of the trace's are used.
    """

    def __init__(self, spans: int = SPANS_PER_TRACE) -> None:
        self._spans = spans
        self._used: OrderedDict[int, int] = OrderedDict()
        self._lock = threading.Lock()
        self.refused = 0
        """Spans for which there was no room."""

    def take(self, trace_id: int, room: float) -> bool:
        """Whether the trace has room for one more span, of a phase that may use this share of it; then it is counted."""
        with self._lock:
            used = self._used.get(trace_id, 0)
            if used >= int(self._spans * room):
                self.refused += 1
                return False
            self._used[trace_id] = used + 1
            self._used.move_to_end(trace_id)
            if len(self._used) > TRACES:
                self._used.popitem(last=False)
            return True

    def give_back(self, trace_id: int) -> None:
        """The span that was counted records nothing."""
        with self._lock:
            if self._used.get(trace_id):
                self._used[trace_id] -= 1
