# SPDX-License-Identifier: Apache-2.0
"""The engine: opens and closes events and tells the callbacks."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from types import CodeType
from typing import Any

from torchspan._base.errors import FAILED, Guard
from torchspan.engine.event import Attributes, Event, Observed
from torchspan.engine.pipeline import Callback
from torchspan.engine.run_times import RunTimes
from torchspan.phase import BUILD_PHASE, FAILED_CHILD, PHASES, Phase
from torchspan.subscribers.record_function import RecordFunction
from torchspan.subscribers.registry import Entry, Interest, Registry
from torchspan.subscribers.sampling import CURRENT_TREE

Undo = Callable[[], None]


class Engine:
    """Opens and closes events; knows neither torch nor OpenTelemetry.

    One privileged callback, if any, starts first and ends last, so that the others run inside what it opened.
    The others start in the order of registration and end in reverse, the user's among them.

    registry: where its callbacks are registered, beside the user's; one of its own by default.
    """

    def __init__(self, registry: Registry | None = None) -> None:
        self.registry = Registry() if registry is None else registry
        self.guard = Guard()
        self.active = True
        """False once closed: wrappers that could not be removed pass straight through."""
        self.run_times = RunTimes(self.guard)
        """Durations of frequent work that is no event."""
        self._at_close: list[Undo] = []
        self._privileged: Entry | None = None
        self._current: ContextVar[Event | None] = ContextVar("torchspan_event", default=None)
        self.peek = self._current.get
        """The cheapest question: None says that no event is open here; anything else, that one may be (`current`)."""
        self._busy = self.registry.busy
        self._codes: set[CodeType] = set()
        self.at_close(self.registry.add_source([each for each in PHASES if each is not BUILD_PHASE]))

    # --- who listens ------------------------------------------------------------------------------------------
    def register(self, callback: Callback, *, privileged: bool = False) -> Undo:
        """Add a callback; the returned function removes it. Raises ValueError for a second privileged one."""
        phases = callback.phases
        if privileged and self._privileged is not None:
            raise ValueError(f"{self._privileged.name} is already the engine's privileged callback")
        entry = self.registry.add(
            lambda handle: Entry(
                handle,
                callback.name,
                callback.start,
                callback.end,
                lambda scope: scope in phases if phases else isinstance(scope, Phase),
                self.guard,
                owner=self,
                is_privileged=privileged,
            )
        )
        if privileged:
            self._privileged = entry

        def undo() -> None:
            self.registry.remove(entry)
            if self._privileged is entry:
                self._privileged = None

        self.at_close(undo)
        return undo

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
        """The innermost open event of this context; None inside a callback."""
        return self.innermost_open() if self.active and not self._busy.now else None

    def innermost_open(self) -> Event | None:
        """The innermost event that has not ended, inside a callback too: a context copied by a task may outlive the events in it."""
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
        scoped: bool = True,
        observed: Observed | None = None,
        interest: Interest | None = None,
    ) -> Event | None:
        """Open an event and run the start callbacks.

        Its parent is the current event, and it is current until `finish`. With `parent`, or not `scoped`, it becomes
        nobody's current event: its start and its end share no frame (TensorRT's progress monitor, a generator).
        observed: the call that it is. interest: who alone may hear of it; for everybody else it is not there, so that what
        happens inside belongs to the event around it. None while inactive or inside a callback, and where nobody of an
        `interest` hears of it.
        """
        if not self.active or self._busy.now:
            return None
        scoped = scoped and parent is None and interest is None
        around = parent or self.innermost_open()
        tree, opens_tree = self.registry.tree(None if around is None else around.tree)
        listeners = None if interest is None else self.registry.picked(interest, tree)
        if interest is not None and not listeners:
            return None
        event = Event(phase, target, attributes, around, scoped=scoped, links=links)
        event.observed, event.tree, event.opens_tree = observed, tree, opens_tree
        event.for_few = interest is not None
        event.root.running = event
        if opens_tree and scoped:
            CURRENT_TREE.set(tree)
        try:
            if listeners is None:
                listeners = self.registry.picked(self.registry.interest(phase), tree, self)
            self._busy.now = True
            for entry in listeners:
                context = entry.begin(self._subject(entry, event))
                if context is not FAILED:
                    event.contexts.append((entry, context))
        except BaseException as interrupt:  # the program's own: what has started is closed before it passes
            self.finish(event, interrupt)
            raise
        finally:
            self._busy.now = False
        if scoped:
            self._current.set(event)
        return event

    def finish(self, event: Event, error: BaseException | None = None, result: Any = None) -> None:
        """Close an event and run the end callbacks of those that started for it, last started first.

        error, result: what the observed call raised or returned.
        """
        event.is_open = False
        event.end_ns = event.anchor.now_ns()
        if event.root.running is event:
            event.root.running = event.parent
        if event.scoped and self._is_here(event):
            self._current.set(event.parent)
        else:
            event.scoped = False
        if error is not None:
            self._note_error(event, error)
        if event.opens_tree:
            event.tree.is_open = False
        if event.observed is not None:
            event.observed.ended(error, result)
        was_busy, self._busy.now = self._busy.now, True
        try:
            self._run_ends(event)
        finally:
            self._busy.now = was_busy
            event.error = None
            event.record = None
            event.observed = None

    def _is_here(self, event: Event) -> bool:
        """Whether it is open in this context: what was forgotten half-way is collected, and ended, wherever that may be."""
        current = self._current.get()
        while current is not None and current is not event:
            current = current.parent
        return current is event

    def _run_ends(self, event: Event) -> None:
        while event.contexts:
            entry, context = event.contexts.pop()
            try:
                entry.finish(self._subject(entry, event), context)
            except BaseException:  # the program's own: the others end before it passes
                self._run_ends(event)
                raise

    def _subject(self, entry: Entry, event: Event) -> Any:
        """What a callback is given: the event, or, where it is the user's, what stands for it in the header's words."""
        if entry.takes_events or entry.owner is not None:
            return event
        if event.record is None:
            event.record = RecordFunction.of_event(event, self.registry)
        event.record.error = event.error
        return event.record

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
        if event.parent is not None and not event.for_few:
            event.parent.child_error = id(error)
            event.parent.tally[FAILED_CHILD] = type(error)

    def _wrappers_in(self, error: BaseException) -> int:
        count, entry = 0, error.__traceback__
        while entry is not None:
            count += entry.tb_frame.f_code in self._codes
            entry = entry.tb_next
        return count
