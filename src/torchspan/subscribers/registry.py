# SPDX-License-Identifier: Apache-2.0
"""Who listens: one list for what writes spans, for metrics, for the heartbeat and for the user's callbacks."""

from __future__ import annotations

import itertools
import math
import operator
import threading
import weakref
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from torchspan._base import threads
from torchspan._base.errors import PROCESS_GUARD, Guard
from torchspan.subscribers import local_state
from torchspan.subscribers.carry import Following
from torchspan.subscribers.sampling import CURRENT_TREE, Countdown, SamplingMode, Tree, renew_after_fork
from torchspan.subscribers.scope import Scope


@dataclass(eq=False)
class Entry:
    """One pair of callbacks as it is registered.

    handle: unique in the process, never given out again. name: how the guard calls it. start, end: the pair. selects:
    which scopes it runs for. owner: the engine it works for, and whose events alone it hears of, or the observer it
    belongs to; None for one of the user's pairs. takes_events: it is given an engine's events as they are, whichever
    engine's. only: the private interests that it alone can concern; None: all others, private ones where
    `is_observing`. is_privileged: starts before all others and ends after them. held_in: what holds it where it does
    not run for the whole process; such a one is never sampled. is_on: whether it starts for events. is_removed: it
    never will again.
    """

    handle: int
    name: str
    start: Callable[[Any], Any]
    end: Callable[[Any, Any], Any]
    selects: Callable[[Any], bool]
    guard: Guard
    owner: Any = None
    takes_events: bool = False
    is_privileged: bool = False
    held_in: local_state.Holder | None = None
    only: tuple[Interest, ...] | None = None
    is_observing: bool = False
    probability: float = 1.0
    mode: SamplingMode = SamplingMode.PER_EVENT
    should_run: Callable[[], Any] | None = None
    needs_inputs: bool = False
    needs_outputs: bool = False
    needs_ids: bool = False
    is_on: bool = True
    is_removed: bool = False
    is_sampled: bool = field(init=False)
    """Whether its probability decides."""

    def __post_init__(self) -> None:
        self.is_sampled = self.probability < 1 and self.should_run is None and self.held_in is None

    @property
    def is_users(self) -> bool:
        """Whether it is a pair of the user's, known to the user by its handle."""
        return self.owner is None and not self.takes_events

    def begin(self, subject: Any) -> Any:
        """Run the start; what it returned, `FAILED` when it raised: then there is no end."""
        return self.guard.begin(self.name, self.start, subject)

    def finish(self, subject: Any, context: Any) -> None:
        """Run the end of a start that ran, whatever became of the callback since."""
        self.guard.finish(self.name, self.end, subject, context)


class Interest:
    """Who listens to one scope: what a hot path keeps, and asks at each event.

    countdown: None while nobody listens. Else `countdown.passes` yields while events may pass, one for each, before
    `Registry.picked` has to be asked; nothing where every event has to be looked at. entries: who listens, in order. everyone: the same where
    all of them hear of every event; else None. is_per_root: whether what was decided at the root says it all. is_private:
    the scope is something of an owner's, of which none of the user's pairs hears: those that name no scope mean events.
    of_users: it is about what is the user's alone, whatever an engine wants.
    """

    __slots__ = (
        "__weakref__", "_watchers", "countdown", "entries", "everyone", "is_per_root", "is_private", "of_users", "scope",
    )  # fmt: skip

    def __init__(self, scope: Any, *, is_private: bool = False, of_users: bool = False) -> None:
        self.scope = scope
        self.is_private = is_private
        self.of_users = of_users
        self._watchers: list[Callable[[], None]] = []
        self.countdown: Countdown | None = None
        self.entries: tuple[Entry, ...] = ()
        self.everyone: tuple[Entry, ...] | None = ()
        self.is_per_root = False

    def update(self, entries: Iterable[Entry], *, others: bool) -> None:
        """Take note of who is registered. others: somebody else has to be asked at each event."""
        self.entries = tuple(each for each in entries if self.concerns(each))
        sampled = [each for each in self.entries if each.is_sampled and each.mode is SamplingMode.PER_EVENT]
        is_plain = all(each.owner is None and not each.is_sampled and each.should_run is None for each in self.entries)
        self.everyone = self.entries if is_plain else None
        self.is_per_root = all(_asks_the_root(each) for each in self.entries)
        may_skip = not others and bool(sampled) and len(sampled) == len(self.entries)
        self.countdown = Countdown(sampled, may_skip=may_skip) if self.entries or others else None
        for watcher in self._watchers:
            watcher()

    def watch(self, watcher: Callable[[], None]) -> None:
        """Have `watcher` called now, and whenever who listens may have changed."""
        self._watchers.append(watcher)
        watcher()

    def concerns(self, entry: Entry) -> bool:
        """Whether `entry`, as it is now, is for this scope."""
        is_users = entry.owner is None
        if not entry.is_on or (is_users and self.is_private) or (self.of_users and not is_users):
            return False
        return entry.selects(self.scope)


E = TypeVar("E", bound=Entry)


class _Busy(threading.local):
    """Set while callbacks run: events fired inside a callback reach no callback."""

    now = False


class Registry:
    """Registers, orders, samples, disables and counts callbacks of every kind. Every method may be called from any thread.

    Order: privileged ones first, then by handle, that is by time of registration; those of the work at hand (thread-local)
    last. Ends run in reverse. A callback sees nothing of another's failure. Events fired while one runs reach none.
    """

    def __init__(self) -> None:
        self.guard = PROCESS_GUARD
        """For the user's callbacks; an engine brings its own."""
        self.busy = _Busy()
        self.has_trees = False
        """Whether anybody asks what was decided at the root."""
        self._lock = threading.RLock()
        self._handles = itertools.count(1)
        self._entries: tuple[Entry, ...] = ()
        self._local: weakref.WeakValueDictionary[int, Entry] = weakref.WeakValueDictionary()
        self._interests: dict[Scope, Interest] = {}
        self._of_users: weakref.WeakSet[Interest] = weakref.WeakSet()
        self._private: weakref.WeakSet[Interest] = weakref.WeakSet()
        self._sources: dict[int, Collection[Scope]] = {}
        self._following = Following()
        renew_after_fork(self)

    # --- who listens ------------------------------------------------------------------------------------------
    def add(self, make: Callable[[int], E]) -> E:
        """Register what `make` makes of a new handle; in the order described above."""
        with self._lock:
            entry = make(next(self._handles))
            if entry.held_in is not None:
                self._local[entry.handle] = entry
                entry.held_in.hold((*entry.held_in.held(), entry))
            else:
                self._entries = tuple(sorted((*self._entries, entry), key=lambda each: not each.is_privileged))
            self._changed(entry)
        return entry

    def find(self, handle: int) -> Entry | None:
        """The user's callback of that handle; None where there is none (any more)."""
        with self._lock:
            entry = self._local.get(handle) or next((each for each in self._entries if each.handle == handle), None)
        return None if entry is None or entry.is_removed or not entry.is_users else entry

    def remove(self, entry: Entry) -> None:
        """Have it start for no event any more, wherever. Ends of what it has started are still to come."""
        with self._lock:
            entry.is_on, entry.is_removed = False, True
            self._entries = tuple(each for each in self._entries if each is not entry)
            if entry.held_in is not None:
                self._local.pop(entry.handle, None)
                entry.held_in.hold(tuple(each for each in entry.held_in.held() if each is not entry))
            self._changed(entry)

    def enable(self, entry: Entry, enabled: bool) -> None:
        """Have it start for events or not, wherever."""
        with self._lock:
            entry.is_on = enabled and not entry.is_removed
            self._changed(entry)

    def users(self) -> list[Entry]:
        """The user's global pairs, disabled ones included."""
        return [each for each in self._entries if each.is_users]

    def changing(self) -> AbstractContextManager[Any]:
        """Around several changes that belong together: meanwhile nobody else makes one."""
        return self._lock

    def update(self) -> None:
        """Draw anew how far the next hits are, in every thread."""
        with self._lock:
            self._update()

    def _changed(self, entry: Entry) -> None:
        """Inform those whom `entry` can concern: a program may have any number of observed functions."""
        if entry.only is None:
            self._update(observed=entry.is_observing)
        for interest in entry.only or ():
            self._inform(interest)

    def _update(self, *, observed: bool = True) -> None:
        follows = any(each.held_in is local_state.WORK and not each.is_removed for each in self._local.values())
        (threads.add if follows else threads.remove)(self._following)
        self.has_trees = any(each.is_on and _asks_the_root(each) for each in self._entries)
        for interest in (*self._interests.values(), *self._of_users, *(self._private if observed else ())):
            self._inform(interest)

    def _inform(self, interest: Interest) -> None:
        runnable = (each for each in self._entries if each.probability > 0 or each.should_run is not None)
        held = any(interest.concerns(each) for each in self._local.values())
        asks_all = self.has_trees and not (interest.is_private or interest.of_users)
        interest.update(runnable, others=held or asks_all)

    def renew(self) -> None:
        """In a forked process: another thread may have held the lock, and the countdowns are the parent's."""
        self._lock = threading.RLock()
        self._update()

    # --- what happens -----------------------------------------------------------------------------------------
    def interest(self, scope: Scope) -> Interest:
        """Who listens to `scope`, now and later: the same object at each call."""
        interest = self._interests.get(scope)
        if interest is None:
            with self._lock:
                interest = self._interests.setdefault(scope, Interest(scope))
                self._inform(interest)
        return interest

    def interest_of_users(self, scope: Scope) -> Interest:
        """Which of the user's listen to `scope`: for the caller alone, and as long as the caller keeps it."""
        return self._keep(self._of_users, Interest(scope, of_users=True))

    def private_interest(self, scope: Any) -> Interest:
        """Who listens to `scope`, something of the caller's that nobody else fires: kept as long as the caller keeps it."""
        return self._keep(self._private, Interest(scope, is_private=True))

    def _keep(self, kept: weakref.WeakSet[Interest], interest: Interest) -> Interest:
        with self._lock:
            kept.add(interest)
            self._inform(interest)
        return interest

    def tree(self, around: Tree | None = None) -> tuple[Tree | None, bool]:
        """The tree an event belongs to, if anybody asks, and whether it is the event's own, the event being a root."""
        if not self.has_trees:
            return None, False
        tree = around or CURRENT_TREE.get()
        return (tree, False) if tree is not None and tree.is_open else (Tree(), True)

    def picked(self, interest: Interest, tree: Tree | None = None, owner: Any = None) -> Sequence[Entry]:
        """Those who are to hear of an event, in order. owner: the engine whose event it is."""
        countdown = interest.countdown
        if countdown is None:
            return ()
        hits = () if interest.everyone is not None else countdown.hits()
        if self.busy.now:
            return ()
        tls = local_state.current()
        if not tls.callbacks:
            if interest.everyone is not None:
                return interest.everyone if tls.enabled else ()
            if operator.length_hint(countdown.passes):  # all are sampled, and the next hit is still to come
                return hits if tls.enabled else ()
        scope = interest.scope
        self.busy.now = True  # `should_run` is the user's
        try:
            found = [each for each in interest.entries if (tls.enabled if each.owner is None else each.owner is owner)]
            if tls.enabled:
                found += [each for each in tls.callbacks if each.is_on and each.selects(scope)]
            found = [each for each in found if self._runs(each, hits, tree, countdown)]
            if not found and tree is not None and interest.is_per_root and tls.enabled:
                tree.quiet = countdown
            return found
        finally:
            self.busy.now = False

    @staticmethod
    def _runs(entry: Entry, hits: Collection[Any], tree: Tree | None, countdown: Countdown) -> bool:
        if entry.should_run is not None:
            return bool(entry.guard.call(entry.name, entry.should_run))
        if not entry.is_sampled:
            return True
        if entry.mode is SamplingMode.PER_ROOT:
            return tree is not None and tree.includes(entry, countdown)
        return entry in hits

    def listening(self, interest: Interest, held: Iterable[Entry] = ()) -> list[Entry]:
        """Those who listen to `interest`, a private one, in order. held: those that are held here, in theirs."""
        if interest.countdown is None:
            return []
        found = [*interest.entries, *held]
        return found if local_state.current().enabled else [each for each in found if each.is_privileged]

    def is_quiet(self, interest: Interest) -> bool:
        """Whether it was decided at the root that nobody hears of `interest`'s events here: `picked` in a quarter of the time."""
        tree = CURRENT_TREE.get()
        return (
            tree is not None
            and tree.quiet is interest.countdown
            and tree.is_open
            and not local_state.current().callbacks
        )

    # --- where events come from -------------------------------------------------------------------------------
    def add_source(self, scopes: Collection[Scope]) -> Callable[[], None]:
        """Take note that somebody fires events of `scopes`; the returned function takes that back."""
        key = next(self._handles)
        self._sources[key] = scopes

        def undo() -> None:
            self._sources.pop(key, None)

        return undo

    def silent(self, scopes: Collection[Scope]) -> list[Scope]:
        """Those of `scopes` that nobody fires."""
        fired = [set(each) for each in list(self._sources.values())]
        return [scope for scope in scopes if not any(scope in each for each in fired)]


def probability(value: float) -> float:
    """`value`, a probability. Raises ValueError for what is none."""
    if math.isnan(value) or not 0 <= value <= 1:
        raise ValueError(f"Invalid sampling probability: {value!r} is not in [0, 1]")
    return float(value)


def _asks_the_root(entry: Entry) -> bool:
    return entry.mode is SamplingMode.PER_ROOT and entry.is_sampled


REGISTRY = Registry()
"""The process's: the user's callbacks live as long as the process, whether or not the bridge is on."""
