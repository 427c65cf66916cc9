# SPDX-License-Identifier: Apache-2.0
"""The engine: opens and closes events and runs what is registered around them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextvars import ContextVar
from types import CodeType
from typing import Any, Protocol

from torchspan._base.errors import FAILED, Guard
from torchspan.engine.event import Attributes, Event, Observed
from torchspan.engine.pipeline import Members, Pipeline
from torchspan.engine.run_times import RunTimes
from torchspan.phase import BUILD_PHASE, FAILED_CHILD, PHASES, Phase
from torchspan.subscribers.interest import Interest
from torchspan.subscribers.record_function import RecordFunction
from torchspan.subscribers.registry import Registry
from torchspan.subscribers.sampling import CURRENT_TREE

Undo = Callable[[], None]


class Listener(Protocol):
    """What runs around events: a member of the pipeline, a pair of the user's, the official observers of a phase."""

    def begin(self, subject: Any) -> Any:
        """The event has started; `FAILED` where there is to be no end."""

    def finish(self, subject: Any, context: Any) -> None:
        """It has ended; `context` is what `begin` returned."""


class Engine:
    """Opens and closes events; knows neither torch nor OpenTelemetry.

    Around each event run the pipeline, then the user's callbacks in the order of registration, then the official observers
    of its phase. The ends run in reverse.

    registry: where the user's callbacks are registered; one of its own by default.
    pipeline: what torchspan itself does with events. What needs the engine to be made is set before the first event.
    """

    def __init__(self, registry: Registry | None = None, pipeline: Pipeline | None = None) -> None:
        self.registry = Registry() if registry is None else registry
        self.guard = Guard()
        self.active = True
        """False once closed: wrappers that could not be removed pass straight through."""
        self.run_times = RunTimes(self.guard)
        """Durations of frequent work that is no event."""
        self._at_close: list[Undo] = []
        self.pipeline = pipeline or Pipeline()
        self._current: ContextVar[Event | None] = ContextVar("torchspan_event", default=None)
        self.peek = self._current.get
        """The cheapest question: None says that no event is open here; anything else, that one may be (`current`)."""
        self._busy = self.registry.busy
        self._codes: set[CodeType] = set()
        self.at_close(self.registry.add_source([each for each in PHASES if each is not BUILD_PHASE]))

    @property
    def pipeline(self) -> Pipeline:
        """What torchspan itself does with events."""
        return self._pipeline

    @pipeline.setter
    def pipeline(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._members = Members(pipeline, self.guard)

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
        observed: the call that it is. interest: for its callbacks and observers alone, not for the pipeline; what happens
        inside belongs to the event around it. None while inactive or inside a callback, and where an `interest` has neither
        a callback nor an observer for the event.
        """
        if not self.active or self._busy.now:
            return None
        scoped = scoped and parent is None and interest is None
        around = parent or self.innermost_open()
        registry = self.registry
        tree, opens_tree = registry.tree(None if around is None else around.tree)
        wanted = interest or registry.interest(phase)
        callbacks, observers = registry.picked(wanted, tree), registry.observers(wanted)
        if interest is not None and not callbacks and not observers:
            return None
        event = Event(phase, target, attributes, around, scoped=scoped, links=links)
        event.observed, event.tree, event.opens_tree = observed, tree, opens_tree
        event.for_few = interest is not None
        event.root.running = event
        if opens_tree and scoped:
            CURRENT_TREE.set(tree)
        try:
            self._busy.now = True
            if interest is None:
                self._begin(event, self._members[phase], event)
            if callbacks:
                event.record = RecordFunction.of_event(event, registry)
                self._begin(event, callbacks, event.record)
            self._begin(event, observers, event)
        except (
            BaseException
        ) as interrupt:  # the program's own, or a policy's: what has started is closed before it passes
            self.finish(event, interrupt)
            raise
        finally:
            self._busy.now = False
        if scoped:
            self._current.set(event)
        return event

    @staticmethod
    def _begin(event: Event, listeners: Iterable[Listener], subject: Any) -> None:
        for listener in listeners:
            context = listener.begin(subject)
            if context is not FAILED:
                event.started.append((listener, subject, context))

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
        if event.record is not None:
            event.record.error = event.error
        was_busy, self._busy.now = self._busy.now, True
        try:
            self._run_ends(event)
        finally:
            self._busy.now = was_busy
            event.error = None
            event.observed = None
            if event.record is not None:
                event.record.error = None
                event.record = None

    def _is_here(self, event: Event) -> bool:
        """Whether it is open in this context: what was forgotten half-way is collected, and ended, wherever that may be."""
        current = self._current.get()
        while current is not None and current is not event:
            current = current.parent
        return current is event

    def _run_ends(self, event: Event) -> None:
        while event.started:
            listener, subject, context = event.started.pop()
            try:
                listener.finish(subject, context)
            except BaseException:  # the program's own, or a policy's: the others end before it passes
                self._run_ends(event)
                raise

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
