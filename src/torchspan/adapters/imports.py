# SPDX-License-Identifier: Apache-2.0
"""First imports of the observed libraries, as events."""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable

from torchspan import semconv
from torchspan._base.imports import Import, run_body
from torchspan.engine import DETACHED, Below, Engine, Event
from torchspan.phase import IMPORT

_LIVING: weakref.WeakSet[Imports] = weakref.WeakSet()


def _report_all() -> None:
    for each in list(_LIVING):
        each.report()


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

    has_destination: whether an event of the current context would be recorded.
    """

    def __init__(self, engine: Engine, has_destination: Callable[[], bool]) -> None:
        self._engine = engine
        self._has_destination = has_destination
        self._waiting: deque[Import] = deque()
        engine.wraps_with(run_body.__code__)
        _LIVING.add(self)

    def add(self, ended: Import) -> None:
        """Report an outermost import, now or later. A failed import is reported immediately."""
        self._waiting.append(ended)
        if ended.has_failed or ended.context.run(self._has_destination):
            self.report()
        else:
            self._engine.before_next_event(self.report)

    def report(self) -> None:
        """Make events of all waiting imports."""
        while self._waiting:
            ended = self._waiting.popleft()
            if ended.pid == os.getpid():  # a forked child did not import it
                self._engine.guard.call("reporting an import", ended.context.run, self._emit, ended, None)

    def _emit(self, ended: Import, around: Event | None) -> None:
        event = self._engine.open(
            IMPORT,
            {semconv.IMPORT_MODULE: ended.name},
            placement=DETACHED if around is None else Below(around),
            at_ns=ended.start_ns,
        )
        if event is None:
            return
        for each in ended.inside:
            self._emit(each, event)
        if ended.version is not None:
            event.additions[semconv.IMPORT_VERSION] = ended.version
        self._engine.close(event, ended.error, at_ns=ended.end_ns)
