# SPDX-License-Identifier: Apache-2.0
"""Imports of libraries, as events."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from torchspan.base.exits import AT_EXIT
from torchspan.base.forks import ThisProcess
from torchspan.base.imports import Import, run_body
from torchspan.engine import Engine, Event, Placement
from torchspan.words import semconv
from torchspan.words.phase import IMPORT


class Imports:
    """Makes events of imports that have ended, each in the context in which it began.

    Most programs import the libraries before they set their tracer provider. Until a provider is set, imports wait for the
    next event of other work, or for the end of the process.

    Args:
        has_destination: Whether an event of the current context would be recorded.
    """

    def __init__(self, engine: Engine, has_destination: Callable[[], bool]) -> None:
        self._engine = engine
        self._has_destination = has_destination
        self.phase_here: Callable[[], Event | None] = lambda: None
        """Returns the event of work that runs in this thread without being the current event."""
        self._waiting: deque[tuple[Import, Event | None]] = deque()
        """Those that are over, each with the event around it if that is not the current one of its context."""
        engine.wraps_with(run_body.__code__)
        AT_EXIT.add(self.report)

    def add(self, ended: Import) -> None:
        """Report an outermost import, now or later. A failed import is reported immediately."""
        is_here = ended.thread_id == threading.get_ident()
        self._waiting.append((ended, self.phase_here() if is_here else None))
        if ended.has_failed or ended.context.run(self._has_destination):
            self.report()
        else:
            self._engine.before_next_event(self.report)

    def report(self) -> None:
        """Make events of all waiting imports."""
        while self._waiting:
            ended, around = self._waiting.popleft()
            if ended.process == ThisProcess.generation:  # a forked child did not import it
                ended.context.run(self._engine.guard.call, "reporting an import", self._emit, ended, around)

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
        self._engine.close(event, ended.error, at_ns=ended.end_ns)
