# SPDX-License-Identifier: Apache-2.0
"""Frequent events: who wants to know is the span around them."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Hashable
from types import NoneType
from typing import Any

from opentelemetry import context as context_api
from opentelemetry.trace import NonRecordingSpan, get_current_span
from opentelemetry.trace.propagation import _SPAN_KEY  # the public getter costs more than the budget of this path

from torchspan import semconv
from torchspan.engine import Switch
from torchspan.phase import Phase


def _context_reader() -> Callable[[], Any]:
    """The cheapest way to the current context: the context variable itself where it is there to be had."""
    variable = getattr(getattr(context_api, "_RUNTIME_CONTEXT", None), "_current_context", None)
    return getattr(variable, "get", None) or context_api.get_current


def _no_context() -> None:
    """What a weak reference to nothing answers."""


class SpanHotPath:
    """A run is wanted below a recording span, and the first time an engine runs; everything else passes.

    The closure costs its own call, one read of the context and, where that is another one than last time, one look at
    the current span (`make bench` has the figures).
    """

    def __init__(self) -> None:
        self._read = _context_reader()
        self._folded: weakref.WeakKeyDictionary[Any, dict[Phase, list[float]]] = weakref.WeakKeyDictionary()

    def is_wanted(self) -> bool:
        """See `torchspan.engine.HotPath`."""
        return get_current_span().is_recording()

    def closure(
        self,
        original: Callable[[Any, Any], Any],
        observe: Callable[[tuple[Any, ...], dict[str, Any]], Any],
        fresh: Collection[Any],
    ) -> tuple[Callable[[Any, Any], Any], Switch]:
        """See `torchspan.engine.HotPath`."""
        read, key, listening, unseen = self._read, _SPAN_KEY, True, original
        quiet: Callable[[], Any] = _no_context
        """The last context without a recording span, weakly: contexts do not change, so the verdict on it stands."""

        def switch(to: Callable[[Any, Any], Any] | None) -> None:
            nonlocal listening, unseen
            if listening:
                listening, unseen = to is not None, to or original

        # Two named parameters, not *args: a call through *args and **kwargs costs more than all the rest.
        def observed_run(input_tensors: Any, engine: Any) -> Any:
            nonlocal quiet
            if listening:
                if fresh:
                    return observe((input_tensors, engine), {})
                context = read()
                if context is not quiet():
                    if not isinstance(context.get(key), (NonRecordingSpan, NoneType)):
                        return observe((input_tensors, engine), {})
                    quiet = weakref.ref(context)
            return unseen(input_tensors, engine)

        return observed_run, switch

    def trace(self) -> Hashable | None:
        """The trace id of the current span if it records."""
        span = get_current_span()
        return span.get_span_context().trace_id if span.is_recording() else None

    def count(self, duration_s: float, phase: Phase) -> None:
        """Add the run to the phase's count, sum and maximum on the current span."""
        span = get_current_span()
        entry = self._folded.setdefault(span, {}).setdefault(phase, [0, 0.0, 0.0])
        entry[:] = [entry[0] + 1, entry[1] + duration_s, max(entry[2], duration_s)]
        span.set_attributes(dict(zip(semconv.RUNS_FOLDED[phase], (int(entry[0]), entry[1], entry[2]), strict=True)))
