# SPDX-License-Identifier: Apache-2.0
"""Whether events of a source are wanted, and by which callbacks. A hot path keeps this and reads it at each event."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from torchspan.engine.subscribers.entry import Entry
from torchspan.engine.subscribers.sampling import Countdown
from torchspan.engine.subscribers.scope import RecordScope, Scope

if TYPE_CHECKING:
    from torchspan.engine.listener import Listener
    from torchspan.engine.subscribers.callback_registry import Registry

Undo = Callable[[], None]


EACH_EVENT = Countdown()
"""The countdown of a source whose every event is examined."""


class Gate:
    """What the wrapper of a function tests before it records a call.

    countdown: None while no event is wanted. Otherwise `countdown.passes` yields once for each event that may pass before the
    source has to ask again, and nothing if every event has to be examined.
    """

    __slots__ = ("__weakref__", "countdown")

    def __init__(self) -> None:
        self.countdown: Countdown | None = None

    def set(self, is_open: bool) -> None:
        """Have every event examined, or none."""
        self.countdown = EACH_EVENT if is_open else None


class Roster(NamedTuple):
    """The callbacks of one scope, as of the last change.

    Attributes:
        countdown: Of those that are sampled event by event.
        steady: The others, in order.
        everyone: All of them if all run for every event, otherwise None.
        is_per_root: Whether the decision at the root applies to all of them.
    """

    countdown: Countdown
    steady: tuple[Entry, ...]
    everyone: tuple[Entry, ...] | None
    is_per_root: bool

    @classmethod
    def of(cls, entries: Iterable[Entry], *, may_skip: bool) -> Roster:
        """The roster of `entries`, in the order of their handles.

        Args:
            may_skip: Nothing else has to be asked at each event.
        """
        ordered = sorted(entries, key=lambda entry: entry.handle)
        sampled = [entry for entry in ordered if entry.is_sampled and not entry.asks_the_root]
        steady = tuple(entry for entry in ordered if not entry.is_sampled or entry.asks_the_root)
        are_plain = not any(entry.is_sampled or entry.callback.should_run is not None for entry in ordered)
        return cls(
            Countdown(sampled, may_skip=may_skip and bool(sampled) and not steady),
            steady,
            steady if are_plain else None,
            is_per_root=not sampled and all(entry.asks_the_root for entry in steady),
        )


_NO_ROSTER = Roster.of((), may_skip=False)
"""Its countdown belongs to no scope: a caller that finds it has to get a new roster."""


class Interest(Gate):
    """Which user callbacks and official observers want events of one scope.

    A change costs the same however many callbacks there are: the roster is drawn up at the first event after it. The
    registry makes all changes, under its lock.

    observers: the official observers of the scope that have callbacks.
    """

    __slots__ = ("_entries", "_registry", "_watchers", "observers", "roster", "scope")

    def __init__(self, scope: Scope, registry: Registry) -> None:
        super().__init__()
        self.scope = scope
        self.observers: tuple[Listener, ...] = ()
        self.roster = _NO_ROSTER
        self._registry = registry
        self._entries: weakref.WeakValueDictionary[int, Entry] = weakref.WeakValueDictionary()
        self._watchers: list[Callable[[], None]] = []

    def watch(self, watcher: Callable[[], None]) -> Undo:
        """Call `watcher` now, and whenever events begin to be wanted or cease to be. Returns the undo."""
        self._watchers.append(watcher)
        watcher()

        def undo() -> None:
            if watcher in self._watchers:
                self._watchers.remove(watcher)

        return undo

    # --- changes, made by the registry under its lock -----------------------------------------------------------
    # --- changes, made by the registry under its lock -----------------------------------------------------------
    def put(self, entry: Entry) -> None:
        """Record the current state of a callback."""
        if entry.may_run and entry.selects(self.scope):
            self._entries[entry.handle] = entry
        else:
            self._entries.pop(entry.handle, None)
        self.changed()

    def changed(self) -> None:
        """Draw up the roster again at the next event, if any callback is left."""
        was_wanted = self.countdown is not None
        self.roster = _NO_ROSTER  # what has been removed is not kept
        self.set(self._is_asked() or bool(self._entries))
        if was_wanted != (self.countdown is not None):
            for watcher in list(self._watchers):
                watcher()

    def redraw(self) -> None:
        """Draw up the roster if it is out of date."""
        if self.countdown is not None and self.countdown is not self.roster.countdown:
            entries = list(self._entries.values())
            pairs = [entry for entry in entries if not entry.is_local]
            self.roster = Roster.of(pairs, may_skip=not self._is_asked() and len(pairs) == len(entries))
            self.countdown = self.roster.countdown

    def _is_asked(self) -> bool:
        """Whether each event has to be examined without a callback, too. It may be the root of a tree; phases request that themselves."""
        return bool(self.observers) or (self._registry.has_trees and isinstance(self.scope, RecordScope))
