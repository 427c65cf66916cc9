# SPDX-License-Identifier: Apache-2.0
"""Progress of long work: short spans below the span that arrives only when the work ends."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.metrics import MeterProvider, get_meter_provider
from opentelemetry.trace import NonRecordingSpan, SpanContext, TracerProvider

from torchspan import phase, semconv
from torchspan.engine import Event
from torchspan.semconv import Attribute
from torchspan.writer._tracer import RouteOf, TracerSource

logger = logging.getLogger("torchspan")

FLUSH_TIMEOUT_MS = 5_000
"""What a provider is given to send out one heartbeat; how far it keeps to that is its own affair."""

SLOW_S, PAUSE_S = 3.0, 60.0
"""A provider that took longer than the first is left alone for the second: while its collector is down, its own
schedule is as good as ours, and an exit waits for an export that is under way."""

_NS = 1e9


class ProgressWriter:
    """Writes a `torchspan.progress` span for a heartbeat, and has it exported at once. Used by one thread alone.

    tracer_provider, meter_provider: the providers to use instead of the global ones. now_s: a clock that never goes back.
    route_of: see `TracerSource`. default_meters: returns the meter provider that holds where none is given.
    """

    def __init__(
        self,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        now_s: Callable[[], float] = time.monotonic,
        *,
        route_of: RouteOf | None = None,
        default_meters: Callable[[], MeterProvider] | None = None,
    ) -> None:
        self._tracers = TracerSource(tracer_provider, route_of)
        self._meter_provider = meter_provider
        self._default_meters = default_meters
        self._spans, self._metrics = _Outlet(now_s), _Outlet(now_s)

    def report(self, event: Event, number: int) -> bool:
        """Write the span; False where the work has no span that is sampled, or has ended.

        Start and end lie inside the work, whatever it does meanwhile: see `Event.is_open`.
        """
        above = event.handle
        if not isinstance(above, SpanContext) or not above.is_valid or not above.trace_flags.sampled:
            return False
        start_ns = event.anchor.now_ns()
        attributes = _describe(event, number, start_ns)
        end_ns = event.anchor.now_ns()
        if not event.is_open:
            return False
        # That of this thread says that nothing is to be traced, which is not for processors of this span.
        context = trace.set_span_in_context(NonRecordingSpan(above), Context())
        span = self._tracers.get().start_span(
            phase.PROGRESS.name, context, attributes=semconv.emitted(attributes), start_time=start_ns
        )
        span.end(end_ns)
        return span.get_span_context().trace_flags.sampled

    def flush(self) -> None:
        """Have the provider that was written to send it out, and the metrics with it, among them what is active."""
        self._spans.flush(self._tracers.provider())
        self._metrics.flush(self._meter_provider or (self._default_meters or get_meter_provider)())


class _Outlet:
    """Has providers of one kind send out what they hold; see `SLOW_S`."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._slow: object = None
        self._resumes_s = 0.0

    def flush(self, provider: Any) -> None:
        """Every provider of the SDK can, those of the API alone cannot. The SDK reports a collector that is down."""
        force_flush: Callable[[int], object] | None = getattr(provider, "force_flush", None)
        began_s = self._now_s()
        if force_flush is None or (provider is self._slow and began_s < self._resumes_s):
            return
        try:
            force_flush(FLUSH_TIMEOUT_MS)
        except Exception as error:
            logger.debug("%s could not be flushed at a heartbeat: %r", type(provider).__name__, error)
        ended_s = self._now_s()
        if ended_s - began_s > SLOW_S:
            self._slow, self._resumes_s = provider, ended_s + PAUSE_S


def _describe(event: Event, number: int, now_ns: int) -> dict[str, Any]:
    running = event.innermost_running()
    attributes: dict[str, Any] = {
        semconv.KEEP: True,
        semconv.PROGRESS_WORK: event.name,
        semconv.PROGRESS_ELAPSED: max(now_ns - event.start_ns, 0) / _NS,
        semconv.PROGRESS_RUNNING: running.name,
        semconv.PROGRESS_RUNNING_ELAPSED: max(now_ns - running.start_ns, 0) / _NS,
        semconv.PROGRESS_NUMBER: number,
    }
    for key in (semconv.ENGINE_NAME, semconv.MODEL_CLASS, semconv.ENTRY_POINT):
        value = _known(running, key)
        if value is not None:
            attributes[key] = value
    return attributes


def _known(event: Event, key: Attribute) -> Any:
    """What the nearest event that knows it says, from the inside outwards."""
    nearest: Event | None = event
    while nearest is not None:
        for facts in (nearest.attributes, nearest.additions):
            if key in facts:
                return facts[key]
        nearest = nearest.parent
    return None
