# SPDX-License-Identifier: Apache-2.0
"""Imports of libraries, as events."""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable

from torchspan import _dynamo_safety, semconv
from torchspan._base.errors import guarded
from torchspan._base.imports import FirstImports, Import, run_body
from torchspan.engine import Engine, Event, Placement
from torchspan.phase import IMPORT

_LIVING: weakref.WeakSet[Imports] = weakref.WeakSet()


def _report_all() -> None:
    for recorder in list(_LIVING):
        recorder.report()


def _report_at_exit() -> None:
    """Report waiting imports when the main thread has ended, and again when the last thread has ended.

    In `atexit` functions Python refuses to start threads, so an SDK that has not been imported yet does not work there. If the
    main thread has already ended, nothing can be registered with `threading`.
    """
    atexit.register(_report_all)
    with contextlib.suppress(AttributeError, RuntimeError):
        threading._register_atexit(_report_all)  # type: ignore[attr-defined]


_report_at_exit()


class Imports:
    """Makes events of imports that have ended, each in the context in which it began.

    Most programs import the libraries before they set their tracer provider. Until a provider is set, imports wait for the
    next event of other work, or for the end of the process.

    Args:
        has_destination: Whether an event of the current context would be recorded.
        times: Has the imports that others may follow. They wait until something else is recorded.
        before_span_ends: Calls a function before the current span ends.
    """

    def __init__(
        self,
        engine: Engine,
        has_destination: Callable[[], bool],
        times: FirstImports | None = None,
        before_span_ends: Callable[[Callable[[], None]], object] = lambda _function: None,
    ) -> None:
        self._engine = engine
        self._has_destination = has_destination
        self._times = times or FirstImports((), self.add)
        self._before_span_ends = before_span_ends
        self.phase_here: Callable[[], Event | None] = lambda: None
        """Returns the event of work that runs in this thread without being the current event."""
        self._waiting: deque[tuple[Import, Event | None]] = deque()
        """Those that are over, each with the event around it if that is not the current one of its context."""
        engine.wraps_with(run_body.__code__)
        _LIVING.add(self)

    def add(self, ended: Import) -> None:
        """Report an outermost import, now or later. A failed import is reported immediately."""
        self._put(ended)
        if ended.has_failed or ended.context.run(self._has_destination):
            _dynamo_safety.undisturbed(self._report)
        else:
            self._engine.before_next_event(self.report)

    def wait(self, *, is_new: bool = True) -> None:
        """An import has ended that others may follow. It is reported before anything else is recorded."""
        self._engine.before_next_event(self.report)
        if is_new:
            self._before_span_ends(self._engine.settle)

    def report(self) -> None:
        """Make events of all waiting imports, except for those of other threads that others may follow."""
        for imported in self._times.over():
            self._put(imported)
        _dynamo_safety.undisturbed(self._report)
        if self._times.do_wait():
            self._engine.before_next_event(self.report)

    def _put(self, ended: Import) -> None:
        is_here = ended.thread_id == threading.get_ident()
        self._waiting.append((ended, self.phase_here() if is_here else None))

    def _report(self) -> None:
        while self._waiting:
            ended, around = self._waiting.popleft()
            if ended.pid == os.getpid():  # a forked child did not import it
                ended.context.run(self._emit_guarded, ended, around)

    @guarded("reporting an import")
    def _emit_guarded(self, ended: Import, around: Event | None) -> None:
        self._emit(ended, around)

    def _emit(self, ended: Import, around: Event | None) -> None:
        event = self._engine.open(
            IMPORT,
            {semconv.IMPORT_MODULE: ended.name},
            placement=Placement(around),
            at_ns=ended.start_ns,
        )
        if event is None:
            return
        for inner in ended.inside:
            self._emit(inner, event)
        if ended.version is not None:
            event.additions[semconv.IMPORT_VERSION] = ended.version
        if ended.count > 1:
            event.additions[semconv.IMPORT_COUNT] = ended.count
            event.additions[semconv.IMPORT_DURATION] = ended.spent_ns / 1e9
        self._engine.close(event, ended.error, at_ns=ended.end_ns)
