# SPDX-License-Identifier: Apache-2.0
"""Counts torchspan's spans that the SDK loses after their end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from opentelemetry.trace import Tracer

from torchspan import semconv
from torchspan._base.boundaries import ErrorBoundary
from torchspan._base.forks import renewed
from torchspan.writer import _otel_private
from torchspan.writer._otel_private import Exporting

_UNCOUNTED = ErrorBoundary("Counting spans that were lost failed; the program continues, and the counts are too low.")


class Losses:
    """Counts torchspan's spans that were lost in the SDK's processors of a tracer.

    The SDK does not report such losses. A batch processor with a full queue drops the oldest span, which may belong to another
    tracer than the newest, and it ignores the result of an exporter. So two methods are replaced on these objects until `close`:
    the method that a batch processor calls for each dropped span, and the method `export` of each exporter. The replacements
    call the originals.
    """

    def __init__(self) -> None:
        self.queue = 0
        """Number of spans that were dropped from full queues."""
        self.exporter = 0
        """Number of spans for which exporters reported a failure or raised an exception."""
        self._known: Any = None
        self._undo: list[Callable[[], None]] = []
        self._is_closed = False
        self._lock = renewed(self, "_lock", threading.RLock)  # a finalizer or a signal handler may end a span in here

    def look_at(self, tracer: Tracer) -> None:
        """Count lost spans of `tracer`, including those in processors that were added since the last call."""
        processors = _otel_private.processors(tracer)
        if processors is not self._known and not self._is_closed:
            _UNCOUNTED.attempt(self._watch, processors)

    def close(self) -> None:
        """Restore the methods."""
        self._is_closed = True
        self._forget()

    def _forget(self) -> None:
        while self._undo:
            _UNCOUNTED.attempt(self._undo.pop())

    def _watch(self, processors: tuple[Any, ...]) -> None:
        with self._lock:
            if processors is self._known:
                return
            self._known = processors
            self._forget()
            found = list(_otel_private.exporting(processors))
            for each in found:
                if each.drops is not None:
                    self._undo.append(_replace(each.drops, "drop_items", _counting_drops(self._counter_of(each))))
            for exporter in {id(each.exporter): each.exporter for each in found}.values():  # processors may share one
                self._undo.append(_replace(exporter, "export", _counting_failures(partial(self._add, "exporter"))))

    def _counter_of(self, exporting: Exporting) -> Callable[[], None]:
        def count() -> None:
            oldest = exporting.oldest()
            if oldest is not None:
                self._add("queue", (oldest,))

        return count

    def _add(self, name: str, spans: Any) -> None:
        number = sum(_is_own(each) for each in spans)
        if number:
            with self._lock:
                setattr(self, name, getattr(self, name) + number)


def _counting_drops(count: Callable[[], None]) -> Callable[[Any], Any]:
    def wrap(original: Any) -> Any:
        # The second argument, why a span is dropped, came with SDK 1.45. What is passed on is what was given.
        def drop_items(*args: Any, **kwargs: Any) -> Any:
            reason = args[1] if len(args) > 1 else kwargs.get("error_type", "queue_full")
            if reason == "queue_full":
                _UNCOUNTED.attempt(count)
            return original(*args, **kwargs)

        return drop_items

    return wrap


def _counting_failures(count: Callable[[Any], None]) -> Callable[[Any], Any]:
    def wrap(original: Any) -> Any:
        def export(spans: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                result = original(spans, *args, **kwargs)
            except BaseException:
                _UNCOUNTED.attempt(count, spans)
                raise
            if getattr(result, "name", None) == "FAILURE":
                _UNCOUNTED.attempt(count, spans)
            return result

        return export

    return wrap


def _replace(thing: Any, name: str, wrap: Callable[[Any], Any]) -> Callable[[], None]:
    """Replace a method of one object until the returned function is called. Does nothing if the object has no `__dict__`."""
    replacement = wrap(getattr(thing, name))
    held = vars(thing) if hasattr(thing, "__dict__") else None
    if held is None:
        return lambda: None
    before = held.get(name)
    held[name] = replacement

    def undo() -> None:
        if held.get(name) is not replacement:  # other code has replaced it since
            return
        if before is None:
            del held[name]
        else:
            held[name] = before

    return undo


def _is_own(span: Any) -> bool:
    return getattr(getattr(span, "instrumentation_scope", None), "name", None) == semconv.SCOPE_NAME
