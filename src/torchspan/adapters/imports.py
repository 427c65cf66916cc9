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
    """Have imports that wait reported when the main thread has ended, and once more when the last thread has.

    In functions of `atexit` Python refuses new threads, and with them the SDK that has not been imported yet. Where the main
    thread has ended already, nothing can be registered with `threading`.
    """
    atexit.register(_report_all)
    with contextlib.suppress(AttributeError, RuntimeError):
        threading._register_atexit(_report_all)  # type: ignore[attr-defined]


_report_at_exit()


class Imports:
    """Makes events of imports that have ended, each in the context in which it began.

    Libraries are imported before most programs set their tracer provider. Until there is one, imports wait: for the next
    event of anything else, or for the end of the process.

    has_destination: whether an event of the current context has somewhere to go.
    """

    def __init__(self, engine: Engine, has_destination: Callable[[], bool]) -> None:
        self._engine = engine
        self._has_destination = has_destination
        self._waiting: deque[Import] = deque()
        engine.wraps_with(run_body.__code__)
        _LIVING.add(self)

    def add(self, ended: Import) -> None:
        """Report an import that is not inside another one, now or later. One that failed is not kept waiting."""
        self._waiting.append(ended)
        if ended.has_failed or ended.context.run(self._has_destination):
            self.report()
        else:
            self._engine.before_next_event(self.report)

    def report(self) -> None:
        """Make events of all that wait."""
        while self._waiting:
            ended = self._waiting.popleft()
            if ended.pid == os.getpid():  # a forked child is not the one that imported
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
