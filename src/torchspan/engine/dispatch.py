# SPDX-License-Identifier: Apache-2.0
"""The engine: opens and closes events, and calls those who want them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from enum import Enum, auto
from functools import partial
from types import CodeType
from typing import Any

from torchspan.base.boundaries import undo_all
from torchspan.base.by_identity import ByIdentity
from torchspan.base.errors import Guard
from torchspan.base.reading import traceback_of
from torchspan.base.scratch import FAILED_CHILD
from torchspan.engine.deferral import Deferral, Waiting
from torchspan.engine.event import CURRENT, DETACHED, Attributes, Event, Observed, Placement
from torchspan.engine.listener import Listener, end_all, open_all
from torchspan.engine.run_times import RunTimes
from torchspan.engine.subscribers.callback_registry import OWN, Registry
from torchspan.engine.subscribers.entry import Entry
from torchspan.engine.subscribers.interest import Interest
from torchspan.engine.subscribers.record_function import RecordFunction
from torchspan.engine.subscribers.sampling import CURRENT_TREE, Tree
from torchspan.words.phase import BUILD_PHASE, PHASES, RUNS, Phase

Undo = Callable[[], None]

OPENING = "opening "
"""How the names begin by which a guard knows what opens events."""


class Audience(Enum):
    """Who receives an event."""

    ALL = auto()
    """The engine's listeners, user callbacks and observers."""
    LISTENERS = auto()
    """Only the engine's listeners: the user's have already received this work, or it is over."""
    USERS = auto()
    """Only user callbacks and observers that want it. For the listeners, and for nesting, the event does not exist."""


class _UserCallbacks(Listener):
    """The user's callbacks that run for one event."""

    name = "running the user's callbacks"

    def __init__(self, entries: Sequence[Entry], registry: Registry) -> None:
        self._entries = entries
        self._registry = registry

    def open(self, event: Event) -> RecordFunction:
        """Run the starts."""
        return RecordFunction._of_event(event, self._registry, self._entries)

    def leave(self, event: Event, token: RecordFunction) -> None:
        """Run the ends."""
        token._finish(event.error)


class Engine:
    """Opens and closes events; knows neither torch nor OpenTelemetry.

    Each event is opened for torchspan's own listeners, then for the user's callbacks in the order of registration, then for the
    official observers of its phase. The ends run in reverse.

    An `Exception` of torchspan's own in `open` or `close` is for the caller's guard: the wrapper in place of the observed function.

    Args:
        registry: Where the user's callbacks are registered. Default: a new one.
        listeners: torchspan's own, in order. They may also be set later (`listen`), before the first event, if they need the
            engine.
    """

    def __init__(self, registry: Registry | None = None, listeners: Iterable[Listener] = ()) -> None:
        self.registry = Registry() if registry is None else registry
        self.guard = Guard()
        self.active = True
        """False once stopped: wrappers that could not be removed pass straight through."""
        self.missed = 0
        """Number of events that the listeners did not receive because they would have started inside what these write to."""
        self.late = 0
        """Number of calls that ended after the span on which they would have been counted."""
        self.run_times = {phase: RunTimes(self.guard) for phase in RUNS}
        """Durations of runs that are not events, by phase."""
        self._at_stop: list[Undo] = []
        self._before_next: list[Undo] = []
        self._waiting = Waiting(self._complete)
        self._current: ContextVar[Event | None] = ContextVar("torchspan_event", default=None)
        self.peek = self._current.get
        """The cheapest test. None means that no event is open here; any other value, that one may be (`current`)."""
        self._busy = self.registry.busy
        self._codes: ByIdentity[bool] = ByIdentity()
        self.listen(listeners)
        self.at_stop(self.registry.add_source([phase for phase in PHASES if phase is not BUILD_PHASE]))

    def listen(
        self,
        listeners: Iterable[Listener],
        *,
        is_suppressed: Callable[[], bool] = lambda: False,
        is_inside: Callable[[], bool] = lambda: False,
    ) -> None:
        """Have `listeners` receive events, and no others.

        Args:
            listeners: In their order.
            is_suppressed: Whether nothing may be emitted here. An event that starts here is for the user's callbacks alone.
            is_inside: Whether the caller has interrupted what the listeners write to, in this thread. An event that starts there
                is for the user's callbacks alone, and is counted as missed. One that ends there is completed before the next event.

        Raises:
            ValueError: Two listeners have the same name: they would be paused together.
        """
        self.listeners = tuple(listeners)
        self.is_suppressed, self._is_inside = is_suppressed, is_inside
        self._by_phase: dict[Phase, tuple[Interest, tuple[Listener, ...], tuple[Listener, ...]]] = {}
        names = [listener.name for listener in self.listeners]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"an engine cannot have two listeners of one name: {', '.join(twice)}")

    def at_stop(self, action: Undo) -> None:
        """Run `action` when the engine stops."""
        self._at_stop.append(action)

    def before_next_event(self, action: Undo) -> None:
        """Run `action` once, before the next event that the listeners receive."""
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
        """Open an event, and have those who want it receive it.

        Args:
            phase: The kind of work.
            attributes: What is known now.
            target: The bounded target that follows the phase's name.
            placement: Where the event lies. An event for users alone is never current.
            audience: Who receives it.
            observed: The call that it is.
            links: The handles of events that this one refers to (`Event.handle`).
            at_ns: When it started by the source's own clock, in nanoseconds since the epoch. The time is moved into the parent's
                times, and not beyond the present.
            pick: See `Event.pick`.

        Returns:
            The event. None while inactive, inside a callback, and where no user wants an event for users alone.

        Raises:
            Exception: An exception of a user's callback that its policy rethrows. The event is closed then.
        """
        if not self.active or self._busy.now:
            return None
        is_for_users = audience is Audience.USERS
        if not is_for_users and self._is_inside() and self.is_missed():
            if audience is Audience.LISTENERS:
                return None
            is_for_users = True
        elif self._before_next and not is_for_users:
            self._run_before_next()
        interest, outer, inner = self._by_phase.get(phase) or self._heard_by(phase)
        is_heard = interest.countdown is not None and audience is not Audience.LISTENERS
        if is_for_users:
            if not is_heard:
                return None
            placement = DETACHED
        parent = self.innermost_open() if placement.parent is None else placement.parent
        event = Event(phase, target, attributes, parent, placement, links, observed, at_ns, pick)
        if self.registry.has_trees:
            self._join_tree(event)
        users = self._users(interest, event.tree) if is_heard else ()
        if is_for_users:
            if not users:
                return None
            event.is_for_users = True
        event.root.running = event
        if is_for_users or self.is_suppressed():
            outer = inner = ()
        self._busy.now = OWN
        try:
            open_all(self.guard, event, (*outer, *users, *inner))
        except BaseException as interrupt:  # of the program or of a policy: what has started is closed before it passes
            if placement.is_current:
                self._current.set(event)  # so that `close` leaves what has been made current here
            self.close(event, interrupt)
            raise
        finally:
            self._busy.now = False
        if placement.is_current:
            self._current.set(event)
        return event

    def is_missed(self) -> bool:
        """Whether the listeners cannot receive an event that they would receive elsewhere. It is counted."""
        is_missed = (self._busy.now is OWN or self._is_inside()) and not self.is_suppressed()
        self.missed += is_missed
        return is_missed

    def _heard_by(self, phase: Phase) -> tuple[Interest, tuple[Listener, ...], tuple[Listener, ...]]:
        """The users' interest in a phase, and the listeners to it, those outside the user's callbacks and those inside. Remembers them."""
        of_phase = [listener for listener in self.listeners if not listener.phases or phase in listener.phases]
        outer = tuple(listener for listener in of_phase if not listener.is_innermost)
        inner = tuple(listener for listener in of_phase if listener.is_innermost)
        heard_by = self._by_phase[phase] = self.registry.interest(phase), outer, inner
        return heard_by

    def _join_tree(self, event: Event) -> None:
        """Find the tree of events in which sampling is decided once, or begin one."""
        event.tree, event.opens_tree = self.registry.tree(None if event.parent is None else event.parent.tree)
        if event.opens_tree and event.placement.is_current:
            CURRENT_TREE.set(event.tree)

    def _users(self, interest: Interest, tree: Tree | None) -> tuple[Listener, ...]:
        """What runs the user's callbacks and official observers that want an event."""
        entries = self.registry.picked(interest, tree)
        observers = self.registry.observers(interest)
        return (_UserCallbacks(entries, self.registry), *observers) if entries else observers

    def _run_before_next(self) -> None:
        for _ in range(len(self._before_next)):
            try:
                action = self._before_next.pop(0)
            except IndexError:  # another thread has run it
                return
            self.guard.call("what comes before an event", action)

    def close(
        self,
        event: Event,
        error: BaseException | None = None,
        result: Any = None,
        *,
        at_ns: int | None = None,
        describe: Callable[[], object] | None = None,
    ) -> None:
        """Close an event and run the ends of what started for it, last started first.

        Args:
            event: The event. It leaves its context now, also where it is completed later (`defer`).
            error: The exception that ended it. Such an event is completed at once.
            result: What the observed call returned.
            at_ns: When it ended by the source's own clock, in nanoseconds since the epoch; not before its start nor after now.
            describe: Adds facts to the event after its time has been taken. Without it, they are there already.

        Raises:
            Exception: An exception of a user's callback that its policy rethrows, after everything else has run.
        """
        was_busy = self._busy.now
        try:
            if event.end_ns is None:
                self._settle(event, error, result, at_ns)
        except (
            BaseException
        ):  # of the program, or a failure of torchspan's own: an event that has no end stays open forever
            self._settle(event, error, result, at_ns)
            raise
        finally:
            self._busy.now = OWN
            try:
                self._leave(event, describe)
            finally:
                self._busy.now = was_busy
                event.error = event.observed = None

    def _settle(self, event: Event, error: BaseException | None, result: Any, at_ns: int | None) -> None:
        """Record the end."""
        # First: an event of a finalizer or a signal handler that comes below goes back to what it finds open, which is this one no more.
        event.was_here = event.placement.is_current and (self._current.get() is event or self._is_here(event))
        event.is_open = False
        event.error = error
        event.end_ns = event.start_ns
        now_ns = event.anchor.now_ns()
        event.end_ns = now_ns if at_ns is None else max(event.start_ns, min(at_ns, now_ns))
        if event.processor is not None:
            event.processor_time = event.processor.elapsed()
        if event.root.running is event:
            event.root.running = event.parent
        if error is not None:
            self._note_error(event, error)
        if event.opens_tree and event.tree is not None:
            event.tree.is_open = False
        if event.observed is not None:
            event.observed.ended(error, result)

    def _leave(self, event: Event, describe: Callable[[], object] | None) -> None:
        """Leave the context of the event, and conclude it: at once, or before the next event."""
        if event.was_here:
            self._current.set(event.parent)
        try:
            end_all(self.guard, event, event.to_leave, "leave")
            if describe is not None:
                self.guard.call("describing an event", describe)
        finally:
            if event.opened and self._is_inside():
                self.before_next_event(partial(self._conclude, event, event.error))
            elif event.deferral is None:
                self._complete(event)
            else:
                self._conclude(event, event.error)

    def _conclude(self, event: Event, error: BaseException | None) -> None:
        """Complete the event unless it waits for its deferral."""
        event.error = error
        if event.deferral is None or error is not None:
            self._complete(event)
        else:
            self._waiting.add(event)
            if event.deferral.facts is not None:  # another thread may have completed it before the event waited
                self.complete(event)

    def _is_here(self, event: Event) -> bool:
        """Whether the event is open in this context: abandoned work is collected, and its event closed, in any context."""
        current = self._current.get()
        while current is not None and current is not event:
            current = current.parent
        return current is event

    # --- events that are completed later ----------------------------------------------------------------------
    def defer(self, event: Event) -> Deferral:
        """Complete an open event later than it is closed.

        When the event is closed, it leaves its context and its times are fixed. The listeners' ends run when the deferral completes
        it, at the latest at `flush`. So facts that arrive after the end (a time measured on a device) are part of it.
        """
        if event.deferral is None:
            event.deferral = Deferral(self, event)
        return event.deferral

    def complete(self, event: Event) -> None:
        """Complete a deferred event if it is closed and has not been completed."""
        if self._waiting.remove(event):
            self._complete(event)

    def flush(self) -> None:
        """Complete all closed events that wait to be completed, without further facts."""
        self._run_before_next()
        self._waiting.flush()

    def _complete(self, event: Event) -> None:
        if event.deferral is not None and event.deferral.facts:
            event.additions.update(event.deferral.facts)
        end_all(self.guard, event, event.opened, "close")
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
        event.innermost = not (event.child_error == id(error) and self._wrappers_in(error) > 1)
        if event.parent is not None and not event.is_for_users:
            event.parent.child_error = id(error)
            event.parent.scratch[FAILED_CHILD] = type(error)

    def _wrappers_in(self, error: BaseException) -> int:
        count, entry = 0, traceback_of(error)
        while entry is not None:
            count += self._codes.get(entry.tb_frame.f_code) is not None
            entry = entry.tb_next
        return count


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
