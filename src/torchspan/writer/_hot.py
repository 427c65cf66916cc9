# SPDX-License-Identifier: Apache-2.0
"""Frequent events: who wants to know is the span around them."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Hashable
from typing import Any

from opentelemetry import context as context_api
from opentelemetry.trace import Span, get_current_span
from opentelemetry.trace.propagation import _SPAN_KEY  # the public getter costs more than the budget of this path

from torchspan import semconv


def _context_reader() -> Callable[[], Any]:
    """The cheapest way to the current context: the context variable itself where it is there to be had."""
    variable = getattr(getattr(context_api, "_RUNTIME_CONTEXT", None), "_current_context", None)
    return getattr(variable, "get", None) or context_api.get_current


class SpanHotPath:
    """A run is wanted below a recording span, and the first time an engine runs; everything else passes.

    The test costs one read of the context and a dictionary lookup (`make bench` has the figure).
    """

    def __init__(self) -> None:
        self._read = _context_reader()
        self._folded: weakref.WeakKeyDictionary[Any, list[float]] = weakref.WeakKeyDictionary()

    def closure(
        self,
        engine: Any,
        original: Any,
        observe: Callable[[Any, tuple[Any, ...], dict[str, Any]], Any],
        has_run: Callable[[int], bool],
        position: int,
    ) -> Callable[..., Any]:
        """See `torchspan.engine.HotPath`."""
        read, key = self._read, _SPAN_KEY

        def observed_run(*args: Any, **kwargs: Any) -> Any:
            if not engine.active:
                return original(*args, **kwargs)
            span = read().get(key)
            if (span is None or not span.is_recording()) and len(args) > position and has_run(id(args[position])):
                return original(*args, **kwargs)
            return observe(original, args, kwargs)

        return observed_run

    def trace(self) -> Hashable | None:
        """The trace id of the current span if it records."""
        span = get_current_span()
        return span.get_span_context().trace_id if span.is_recording() else None

    def fold(self, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Add the run to count, sum and maximum on the current span; a run that raises is not counted."""
        span = get_current_span()
        if not span.is_recording():
            return original(*args, **kwargs)
        start = time.perf_counter()
        result = original(*args, **kwargs)
        self._add(span, time.perf_counter() - start)
        return result

    def _add(self, span: Span, duration_s: float) -> None:
        entry = self._folded.setdefault(span, [0, 0.0, 0.0])
        entry[:] = [entry[0] + 1, entry[1] + duration_s, max(entry[2], duration_s)]
        span.set_attributes(
            {
                semconv.EXECUTE_FOLDED: int(entry[0]),
                semconv.EXECUTE_FOLDED_SUM: entry[1],
                semconv.EXECUTE_FOLDED_MAX: entry[2],
            }
        )
