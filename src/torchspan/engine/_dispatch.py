# SPDX-License-Identifier: Apache-2.0
"""The engine: opens and closes events and tells the callbacks."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import ContextVar
from types import CodeType
from typing import Any

from torchspan.engine._callback import Callback
from torchspan.engine._event import Attributes, Event
from torchspan.engine._guard import Guard
from torchspan.engine._hot import HotPath
from torchspan.engine._run_times import RunTimes
from torchspan.phase import FAILED_CHILD, Phase

Undo = Callable[[], None]


def _nothing_of(_text: str) -> str:
    return ""


class _Busy(threading.local):
    """Set while callbacks run: events fired inside a callback reach no callback."""

    now = False


class Engine:
    """Opens and closes events; knows neither torch nor OpenTelemetry.

    One privileged callback, if any, starts first and ends last, so that the others run inside what it opened.
    The others start in the order of registration and end in reverse.
    """

    def __init__(self) -> None:
        self.guard = Guard()
        self.active = True
        """False once closed: wrappers that could not be removed pass straight through."""
        self.hot: HotPath | None = None
        """Decides about frequent events; the privileged listener brings it."""
        self.tell: Callable[[str], str] = _nothing_of
        """What may be told of a text that a library wrote; the privileged listener brings it. Without one: nothing."""
        self.run_times = RunTimes(self.guard)
        """Durations of frequent work that is no event."""
        self._at_close: list[Undo] = []
        self._callbacks: tuple[Callback, ...] = ()
        self._privileged: Callback | None = None
        self._current: ContextVar[Event | None] = ContextVar("torchspan_event", default=None)
        self.peek = self._current.get
        """The cheapest question: None says that no event is open here; anything else, that one may be (`current`)."""
        self._busy = _Busy()
        self._codes: set[CodeType] = set()

    # --- who listens ------------------------------------------------------------------------------------------
    def register(self, callback: Callback, *, privileged: bool = False) -> Undo:
        """Add a callback; the returned function removes it. Raises ValueError for a second privileged one."""
        if privileged:
            if self._privileged is not None:
                raise ValueError(f"{self._privileged.name} is already the engine's privileged callback")
            self._privileged = callback
        else:
            self._callbacks += (callback,)
        return lambda: self._remove(callback)

    def _remove(self, callback: Callback) -> None:
        if self._privileged is callback:
            self._privileged = None
        self._callbacks = tuple(each for each in self._callbacks if each is not callback)

    def at_close(self, action: Undo) -> None:
        """Have `action` run when the engine closes."""
        self._at_close.append(action)

    def close(self) -> None:
        """Open no event any more; those that are open still end."""
        self.active = False
        while self._at_close:
            self._at_close.pop()()

    # --- events -----------------------------------------------------------------------------------------------
    @property
    def current(self) -> Event | None:
        """The innermost open event of this context."""
        return self._innermost_open() if self.active and not self._busy.now else None

    def _innermost_open(self) -> Event | None:
        """The innermost event that has not ended: a context copied by a task may outlive the events in it."""
        event = self._current.get()
        while event is not None and event.end_ns is not None:
            event = event.parent
        return event

    def start(
        self,
        phase: Phase,
        attributes: Attributes,
        *,
        target: str | None = None,
        links: tuple[Any, ...] = (),
        parent: Event | None = None,
    ) -> Event | None:
        """Open an event and run the start callbacks.

        With `parent` the event belongs to a stream of starts and ends that share no frame (TensorRT's progress
        monitor): it becomes nobody's current event. Without, its parent is the current event, and it is current
        until `finish`. None while inactive or inside a callback.
        """
        if not self.active or self._busy.now:
            return None
        scoped = parent is None
        event = Event(phase, target, attributes, parent or self._innermost_open(), scoped=scoped, links=links)
        event.root.running = event
        self._busy.now = True
        try:
            for callback in self._listeners(phase):
                context = self.guard.call(callback.name, callback.start, event)
                event.contexts.append((callback, context))
        except BaseException as interrupt:  # the program's own: what has started is closed before it passes
            self.finish(event, interrupt)
            raise
        finally:
            self._busy.now = False
        if scoped:
            self._current.set(event)
        return event

    def finish(self, event: Event, error: BaseException | None = None) -> None:
        """Close an event and run the end callbacks of those that started for it, last started first."""
        event.is_open = False
        event.end_ns = event.anchor.now_ns()
        if event.root.running is event:
            event.root.running = event.parent
        if event.scoped:
            self._current.set(event.parent)
        if error is not None:
            self._note_error(event, error)
        was_busy, self._busy.now = self._busy.now, True
        try:
            while event.contexts:
                callback, context = event.contexts.pop()
                self.guard.call(callback.name, callback.end, event, context)
        finally:
            self._busy.now = was_busy
            event.error = None

    def _listeners(self, phase: Phase) -> list[Callback]:
        listeners = [] if self._privileged is None else [self._privileged]
        listeners += [each for each in self._callbacks if not each.phases or phase in each.phases]
        return listeners

    # --- errors -----------------------------------------------------------------------------------------------
    def wraps_with(self, code: CodeType) -> None:
        """Tell the engine the code of a wrapper that opens events, so that it knows it in a traceback."""
        self._codes.add(code)

    def _note_error(self, event: Event, error: BaseException) -> None:
        """Decide whether the error came from the event's own work, holding on to no exception.

        A child that ended with this very object passed it on. Addresses are reused once an exception has been
        swallowed and freed, so the traceback must show the child's wrapper as well.
        """
        event.error = error
        event.innermost = not (event.child_error == id(error) and self._wrappers_in(error) > 1)
        if event.parent is not None:
            event.parent.child_error = id(error)
            event.parent.tally[FAILED_CHILD] = type(error)

    def _wrappers_in(self, error: BaseException) -> int:
        count, entry = 0, error.__traceback__
        while entry is not None:
            count += entry.tb_frame.f_code in self._codes
            entry = entry.tb_next
        return count
