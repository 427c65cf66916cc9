# SPDX-License-Identifier: Apache-2.0
"""The engine: opens and closes events and runs what is registered around them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from enum import Enum, auto
from functools import partial
from types import CodeType
from typing import Any

from torchspan._base.boundaries import undo_all
from torchspan._base.by_identity import ByIdentity
from torchspan._base.errors import FAILED, Guard
from torchspan._base.reading import traceback_of
from torchspan.engine.deferral import Deferral, Waiting
from torchspan.engine.event import CURRENT, DETACHED, Attributes, Event, EventState, Observed, Placement, Subscriber
from torchspan.engine.pipeline import Members, Pipeline
from torchspan.engine.run_times import RunTimes
from torchspan.phase import BUILD_PHASE, PHASES, RUNS, Phase
from torchspan.subscribers.callback_registry import Registry
from torchspan.subscribers.record_function import RecordFunction
from torchspan.subscribers.sampling import CURRENT_TREE

Undo = Callable[[], None]


OPENING = "opening an event"
"""The name by which the engine's guard knows the start of every event."""


class Audience(Enum):
    """Who receives an event."""

    ALL = auto()
    """The pipeline, user callbacks and observers."""
    PIPELINE = auto()
    """Only the pipeline: subscribers have already received this work, or it is over."""
    SUBSCRIBERS = auto()
    """Only user callbacks and observers that want it. For the pipeline, and for nesting, the event does not exist."""


class Engine:
    """Opens and closes events; knows neither torch nor OpenTelemetry.

    Around each event run the pipeline, then the user's callbacks in the order of registration, then the official observers
    of its phase. The ends run in reverse.

    Args:
        registry: Where the user's callbacks are registered. Default: a new one.
        pipeline: What torchspan itself does with events. It may be assigned later, before the first event, if its
            members need the engine.
    """

    def __init__(self, registry: Registry | None = None, pipeline: Pipeline | None = None) -> None:
        self.registry = Registry() if registry is None else registry
        self.guard = Guard()
        self.active = True
        """False once stopped: wrappers that could not be removed pass straight through."""
        self.missed = 0
        """Number of events that the pipeline did not receive because they would have started inside what it writes to."""
        self.run_times = {phase: RunTimes(self.guard) for phase in RUNS}
        """Durations of runs that are not events, by phase."""
        self._at_stop: list[Undo] = []
        self._before_next: list[Undo] = []
        self._waiting = Waiting(self._complete)
        self.pipeline = pipeline or Pipeline()
        self._current: ContextVar[Event | None] = ContextVar("torchspan_event", default=None)
        self.peek = self._current.get
        """The cheapest test. None means that no event is open here; any other value, that one may be (`current`)."""
        self._busy = self.registry.busy
        self._codes: ByIdentity[bool] = ByIdentity()
        self.at_stop(self.registry.add_source([phase for phase in PHASES if phase is not BUILD_PHASE]))

    @property
    def pipeline(self) -> Pipeline:
        """What torchspan itself does with events."""
        return self._pipeline

    @pipeline.setter
    def pipeline(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._members = Members(pipeline, self.guard)

    def at_stop(self, action: Undo) -> None:
        """Run `action` when the engine stops."""
        self._at_stop.append(action)

    def before_next_event(self, action: Undo) -> None:
        """Run `action` once, before the next event that the pipeline receives."""
        if action not in self._before_next:
            self._before_next.append(action)

    def stop(self) -> None:
        """Open no more events. Open events still end, and events that wait are completed."""
        self.active = False
        self.flush()
        undo_all(reversed(self._at_stop))
        self._at_stop.clear()

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

    def open(
        self,
        phase: Phase,
        attributes: Attributes,
        *,
        target: str | None = None,
        placement: Placement = CURRENT,
        audience: Audience = Audience.ALL,
        observed: Observed | None = None,
        links: tuple[Any, ...] = (),
        at_ns: int | None = None,
        pick: Any = None,
    ) -> Event | None:
        """Open an event and run what is registered around it.

        Args:
            phase: The kind of work.
            attributes: What is known now.
            target: The bounded target that follows the phase's name.
            placement: Where the event lies. An event for subscribers alone is never current.
            audience: Who receives it.
            observed: The call that it is.
            links: The handles of events that this one refers to (`Event.handle`).
            at_ns: When it started by the source's own clock, in nanoseconds since the epoch. The time is moved into the parent's
                times, and not beyond the present.
            pick: See `Event.pick`.

        Returns:
            The event. None while inactive, inside a callback, and where no subscriber wants an event for subscribers alone.

        Raises:
            Exception: An exception of a user's callback that its policy rethrows. The event is closed then.
        """
        if not self.active:
            return None
        is_missed = audience is not Audience.SUBSCRIBERS and self.is_missed()
        if self._busy.now or (is_missed and audience is Audience.PIPELINE):
            return None
        if is_missed:
            audience = Audience.SUBSCRIBERS
        if self._before_next and audience is not Audience.SUBSCRIBERS:
            self._run_before_next()
        opened = self.guard.call(
            OPENING, self._make, phase, attributes, target, placement, audience, observed, links, at_ns, pick
        )
        if opened is None:
            return None
        event, callbacks, observers = opened
        try:
            self._busy.now = True
            self.guard.finish(OPENING, self._begin, event, callbacks, observers)
        except BaseException as interrupt:  # of the program or of a policy: what has started is closed before it passes
            if event.placement.is_current:
                self._current.set(event)  # so that `close` leaves what has been made current here
            self.close(event, interrupt)
            raise
        finally:
            self._busy.now = False
        if event.placement.is_current:
            self._current.set(event)
        return event

    def is_missed(self) -> bool:
        """Whether the pipeline cannot receive an event that it would receive elsewhere. It is counted."""
        is_missed = self._pipeline.is_inside() and not self._pipeline.is_suppressed()
        self.missed += is_missed
        return is_missed

    def _begin(self, event: Event, callbacks: Sequence[Subscriber], observers: Sequence[Subscriber]) -> None:
        """Start what runs around the event."""
        state: EventState = event.state
        if not state.for_subscribers and not self._pipeline.is_suppressed():
            for member in self._members[event.phase]:
                context = member.begin(event)
                if context is not FAILED:
                    state.members.append((member, context))
        if callbacks:
            state.record = RecordFunction._of_event(event, self.registry)
            _begin(state, callbacks, state.record)
        _begin(state, observers, event)

    def _run_before_next(self) -> None:
        for _ in range(len(self._before_next)):
            try:
                action = self._before_next.pop(0)
            except IndexError:  # another thread has run it
                return
            self.guard.call("what comes before an event", action)

    def _make(
        self,
        phase: Phase,
        attributes: Attributes,
        target: str | None,
        placement: Placement,
        audience: Audience,
        observed: Observed | None,
        links: tuple[Any, ...],
        at_ns: int | None,
        pick: Any,
    ) -> tuple[Event, Sequence[Subscriber], Sequence[Subscriber]] | None:
        """An event with the user callbacks and observers that want it."""
        registry, interest = self.registry, self.registry.interest(phase)
        parent = self.innermost_open() if placement.parent is None else placement.parent
        tree, opens_tree = registry.tree(None if parent is None else parent.state.tree)
        callbacks, observers = registry.picked(interest, tree), registry.observers(interest)
        for_subscribers = audience is Audience.SUBSCRIBERS
        if for_subscribers:
            if not callbacks and not observers:
                return None
            placement = DETACHED
        elif audience is Audience.PIPELINE:
            callbacks, observers = (), ()
        event = Event(
            phase,
            target,
            attributes,
            parent,
            placement=placement,
            links=links,
            observed=observed,
            at_ns=at_ns,
            pick=pick,
        )
        event.state = EventState(tree, opens_tree=opens_tree, for_subscribers=for_subscribers)
        event.root.running = event
        if opens_tree and placement.is_current:
            CURRENT_TREE.set(tree)
        return event, callbacks, observers

    def close(
        self,
        event: Event,
        error: BaseException | None = None,
        result: Any = None,
        *,
        at_ns: int | None = None,
    ) -> None:
        """Close an event and run the ends of what started for it, last started first.

        Args:
            event: The event. It leaves its context now, also where it is completed later (`defer`).
            error: The exception that ended it. Such an event is completed at once.
            result: What the observed call returned.
            at_ns: When it ended by the source's own clock, in nanoseconds since the epoch; not before its start nor after now.

        Raises:
            Exception: An exception of a user's callback that its policy rethrows, after everything else has run.
        """
        try:
            self._close(event, error, result, at_ns)
        except BaseException:  # of the program, at any point: what is left to do is done before it passes
            self._close(event, error, result, at_ns)
            raise
        finally:
            event.error = None
            event.observed = None
            event.state.record = None

    def _close(self, event: Event, error: BaseException | None, result: Any, at_ns: int | None) -> None:
        """What `close` does. A second call continues where an interrupt ended the first one."""
        state: EventState = event.state
        was_busy = self._busy.now
        try:
            if not state.is_settled:
                self.guard.end("closing an event", self._settle, event, error, result, at_ns)
            self._busy.now = True
            try:
                _finish(state)
            finally:
                self._leave(event, error)
        finally:
            self._busy.now = was_busy

    def _leave(self, event: Event, error: BaseException | None) -> None:
        """Leave the context of the event, and conclude it: at once, or before the next event."""
        state: EventState = event.state
        if state.was_here:
            for member, context in reversed(state.members):
                member.leave(event, context)
        if state.members and self._pipeline.is_inside():
            self.before_next_event(partial(self._conclude, event, error))
        else:
            self._conclude(event, error)

    def _conclude(self, event: Event, error: BaseException | None) -> None:
        """Complete the event unless it waits for its deferral."""
        state: EventState = event.state
        event.error = error
        if state.deferral is None or error is not None:
            self._complete(event)
        else:
            self._waiting.add(event)
            if state.deferral.facts is not None:  # another thread may have completed it before the event waited
                self.complete(event)

    def _settle(self, event: Event, error: BaseException | None, result: Any, at_ns: int | None) -> None:
        """Record the end."""
        state: EventState = event.state
        # First: an event of a finalizer or a signal handler that comes below goes back to what it finds open, which is this one no more.
        state.was_here = state.was_here or (event.placement.is_current and self._is_here(event))
        event.is_open = False
        now_ns = event.anchor.now_ns()
        if event.processor is not None:
            event.processor_time = event.processor.elapsed()
        event.end_ns = now_ns if at_ns is None else max(event.start_ns, min(at_ns, now_ns))
        if event.root.running is event:
            event.root.running = event.parent
        if state.was_here:
            self._current.set(event.parent)
        if error is not None:
            self._note_error(event, error)
        if state.opens_tree and state.tree is not None:
            state.tree.is_open = False
        if event.observed is not None:
            event.observed.ended(error, result)
        if state.record is not None:
            state.record.error = event.error
        state.is_settled = True

    def _is_here(self, event: Event) -> bool:
        """Whether the event is open in this context: abandoned work is collected, and its event closed, in any context."""
        current = self._current.get()
        while current is not None and current is not event:
            current = current.parent
        return current is event

    # --- events that are completed later ----------------------------------------------------------------------
    def defer(self, event: Event) -> Deferral:
        """Complete an open event later than it is closed.

        When the event is closed, it leaves its context and its times are fixed. The pipeline's ends run when the deferral completes
        it, at the latest at `flush`. So facts that arrive after the end (a time measured on a device) are part of it.
        """
        state: EventState = event.state
        if state.deferral is None:
            state.deferral = Deferral(self, event)
        return state.deferral

    def complete(self, event: Event) -> None:
        """Complete a deferred event if it is closed and has not been completed."""
        if self._waiting.remove(event):
            self._complete(event)

    def flush(self) -> None:
        """Complete all closed events that wait to be completed, without further facts."""
        self._run_before_next()
        self._waiting.flush()

    @staticmethod
    def _complete(event: Event) -> None:
        state: EventState = event.state
        if state.deferral is not None and state.deferral.facts:
            event.additions.update(state.deferral.facts)
        members = state.members
        while members:
            member, context = members.pop()
            member.finish(event, context)
        event.error = None

    # --- errors -----------------------------------------------------------------------------------------------
    def wraps_with(self, code: CodeType) -> None:
        """Register the code of a wrapper that opens events, so that the engine recognizes it in a traceback."""
        self._codes[code] = True

    def _note_error(self, event: Event, error: BaseException) -> None:
        """Decide whether the error came from the event's own work. Keeps no exception alive.

        A child that ended with this very object passed it on. Addresses are reused once an exception has been
        swallowed and freed, so the traceback must show the child's wrapper as well.
        """
        event.error = error
        event.innermost = not (event.state.child_error == id(error) and self._wrappers_in(error) > 1)
        if event.parent is not None and not event.state.for_subscribers:
            event.parent.state.child_error = id(error)
            event.parent.scratch.failed_child = type(error)

    def _wrappers_in(self, error: BaseException) -> int:
        count, entry = 0, traceback_of(error)
        while entry is not None:
            count += self._codes.get(entry.tb_frame.f_code) is not None
            entry = entry.tb_next
        return count


def _begin(state: EventState, subscribers: Iterable[Subscriber], subject: Any) -> None:
    for subscriber in subscribers:
        context = subscriber.begin(subject)
        if context is not FAILED:
            state.subscribers.append((subscriber, subject, context))


def _finish(state: EventState) -> None:
    while state.subscribers:
        subscriber, subject, context = state.subscribers.pop()
        try:
            subscriber.finish(subject, context)
        except BaseException:  # of the program: the other ends run before it passes
            _finish(state)
            raise


class RunningEngine:
    """The running engine of this process, for functions that the program itself calls.

    Attributes:
        engine: The one that the bridge has made. None before that, and after its end.
    """

    engine: Engine | None = None

    def start(self, engine: Engine) -> None:
        """Make `engine` the running one, until it stops."""
        self.engine = engine
        engine.at_stop(self._forget)

    def _forget(self) -> None:
        self.engine = None


RUNNING = RunningEngine()
"""There is one bridge in a process."""
