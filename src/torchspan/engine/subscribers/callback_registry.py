# SPDX-License-Identifier: Apache-2.0
"""Which callbacks of the user are registered, and which of them run for an event."""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from torchspan.base import forks
from torchspan.base.errors import FAILED
from torchspan.base.forks import in_each_child
from torchspan.base.logs import Log
from torchspan.engine.subscribers import local_state
from torchspan.engine.subscribers.entry import Entry
from torchspan.engine.subscribers.interest import Interest
from torchspan.engine.subscribers.sampling import CURRENT_TREE, Countdown, Tree
from torchspan.engine.subscribers.scope import Scope
from torchspan.words.phase import Phase

if TYPE_CHECKING:
    from torchspan.engine.listener import Listener

# --- sources of events ----------------------------------------------------------------------------------------------
logger = Log("torchspan")

Undo = Callable[[], None]

_OF_PHASES = "phases are fired only while torchspan is instrumented (torchspan.instrument())"
_OF_RANGES = "scopes other than phases are fired by record_function(…, scope=…)"


WARNINGS_LIMIT = 100
"""Different warnings that are remembered; beyond that no others are logged until the sources change."""


class Sources:
    """Which scopes are fired, and why others are not. Equal warnings are logged once between two changes of the sources."""

    def __init__(self) -> None:
        self._keys = itertools.count()
        self._sources: dict[int, Collection[Scope]] = {}
        self._reasons: dict[Scope, str] = {}
        self._warned: set[str] = set()

    def add_source(self, scopes: Collection[Scope]) -> Undo:
        """Take note that something fires events of `scopes`; the returned function takes that back."""
        key = next(self._keys)
        self._sources[key] = scopes
        self._warned.clear()

        def undo() -> None:
            self._sources.pop(key, None)
            self._warned.clear()

        return undo

    def explain(self, scope: Scope, reason: str) -> Undo:
        """Say why events of `scope` are not fired, though torchspan is instrumented; the returned function takes that back."""
        self._reasons[scope] = reason

        def undo() -> None:
            if self._reasons.get(scope) is reason:
                del self._reasons[scope]

        return undo

    def silent(self, scopes: Collection[Scope]) -> list[Scope]:
        """Those of `scopes` that nothing fires."""
        fired = [set(source) for source in list(self._sources.values())]
        return [scope for scope in scopes if not any(scope in group for group in fired)]

    def reason(self, silent: Sequence[Scope]) -> str:
        """Why nothing fires events of `silent`."""
        reasons = {
            self._reasons.get(scope) or (_OF_PHASES if isinstance(scope, Phase) else _OF_RANGES) for scope in silent
        }
        return "; ".join(sorted(reasons))

    def warn(self, message: str) -> None:
        """Log a warning, unless the same has been logged since the sources last changed."""
        if message not in self._warned and len(self._warned) < WARNINGS_LIMIT:
            self._warned.add(message)
            logger.warning("%s", message)


# ------------------------------------------------------------------------------------------------------------------
OWN = "own"
"""What a finalizer or a signal handler calls meanwhile is lost, and counted. What a callback of the user's calls is no loss."""


class _Busy(threading.local):
    """Set while callbacks run: events fired inside a callback reach no callback.

    now: `OWN` while the engine calls its listeners, True while a callback of the user's runs.
    """

    now: bool | str = False


class Registry(Sources):
    """Registers, orders, samples, disables and counts the user's callbacks. Every method may be called from any thread.

    Order: by handle, that is by time of registration, with those of the current context (thread-local) last. Ends run in reverse. The
    failure of a callback does not affect others. Events fired while a callback runs reach no callback. Registering and removing cost
    the same however many callbacks there are. Its lock is that of the carriers: a finalizer may need the one inside the other.
    """

    def __init__(self) -> None:
        super().__init__()
        self.busy = _Busy()
        self.has_trees = False
        """Whether a callback asks what was decided at the root."""
        self._handles = itertools.count(1)
        self._pairs: dict[int, Entry] = {}
        self._local: weakref.WeakValueDictionary[int, Entry] = weakref.WeakValueDictionary()
        self._interests: dict[Scope, Interest] = {}
        self._asking_roots: set[int] = set()
        in_each_child(self.update)  # the countdowns are the parent's

    # --- registration -----------------------------------------------------------------------------------------
    def new_handle(self) -> int:
        """A handle that has never been used."""
        return next(self._handles)

    def add(self, entry: Entry) -> None:
        """Register `entry`: for the whole process, or for the current context and those that it is propagated to."""
        with forks.SWITCHING:
            if entry.is_local:
                self._local[entry.handle] = entry
                tls = local_state.get_record_function_tls()
                local_state.set_record_function_tls(tls._replace(callbacks=(*tls.callbacks, entry)))
                local_state.CARRIER.set_registered(True)
            else:
                self._pairs[entry.handle] = entry
            self._changed(entry)

    def find(self, handle: int) -> Entry | None:
        """The callback of that handle; None if there is none, or if it has been removed."""
        with forks.SWITCHING:
            entry = self._pairs.get(handle) or self._local.get(handle)
        return None if entry is None or entry.is_removed else entry

    def remove(self, entry: Entry) -> None:
        """Unregister it everywhere. Ends of events that it has started still run."""
        with forks.SWITCHING:
            entry.is_on, entry.is_removed = False, True
            self._changed(entry)
            self._pairs.pop(entry.handle, None)
            if self._local.pop(entry.handle, None) is not None:
                tls = local_state.get_record_function_tls()
                left = tuple(callback for callback in tls.callbacks if callback is not entry)
                local_state.set_record_function_tls(tls._replace(callbacks=left))
                self._follow()

    def enable(self, entry: Entry, enabled: bool) -> None:
        """Enable or disable it everywhere."""
        with forks.SWITCHING:
            entry.is_on = enabled and not entry.is_removed
            self._changed(entry)

    def users(self) -> list[Entry]:
        """The global pairs, including disabled ones."""
        with forks.SWITCHING:
            return list(self._pairs.values())

    def set_observers(self, scope: Scope, observers: tuple[Listener, ...]) -> None:
        """Notify `observers`, and no others, of the events of `scope`, after the callbacks."""
        with forks.SWITCHING:
            interest = self.interest(scope)
            interest.observers = observers
            interest.changed()

    def changing(self) -> AbstractContextManager[Any]:
        """A context manager for several changes that belong together: meanwhile no other thread makes a change."""
        return forks.SWITCHING

    def update(self) -> None:
        """Draw again how far the next hits are, in every thread, and forget the callbacks of work that has ended."""
        with forks.SWITCHING:
            self._follow()
            for interest in list(self._interests.values()):
                interest.changed()

    def _follow(self) -> None:
        follows = any(not observer.is_removed for observer in self._local.values())
        local_state.CARRIER.set_registered(follows)

    def _changed(self, entry: Entry) -> None:
        """Inform the interests that `entry` can concern."""
        had_trees = self.has_trees
        if entry.asks_the_root:
            (self._asking_roots.add if entry.is_on else self._asking_roots.discard)(entry.handle)
            self.has_trees = bool(self._asking_roots)
        for scope, interest in list(self._interests.items()):
            if entry.selects(scope):
                interest.put(entry)
            elif had_trees != self.has_trees:
                interest.changed()

    # --- what happens -----------------------------------------------------------------------------------------
    def interest(self, scope: Scope) -> Interest:
        """The interest in events of `scope`. The same object at each call."""
        return self._interests.get(scope) or self._new_interest(scope)

    def _new_interest(self, scope: Scope) -> Interest:
        with forks.SWITCHING:
            if scope not in self._interests:
                interest = Interest(scope, self)
                for entry in (*self._pairs.values(), *self._local.values()):
                    interest.put(entry)
                self._interests[scope] = interest
            return self._interests[scope]

    def tree(self, around: Tree | None = None) -> tuple[Tree | None, bool]:
        """The tree to which an event belongs, if a callback needs it, and whether the event is its root."""
        if not self.has_trees:
            return None, False
        tree = around or CURRENT_TREE.get()
        return (tree, False) if tree is not None and tree.is_open else (Tree(), True)

    def picked(self, interest: Interest, tree: Tree | None = None) -> Sequence[Entry]:
        """The callbacks that run for an event, in order."""
        countdown = interest.countdown
        if countdown is None:
            return ()
        roster = interest.roster
        if roster.countdown is not countdown:
            with forks.SWITCHING:
                interest.redraw()
                roster = interest.roster
        hits = () if roster.everyone is not None else roster.countdown.hits()
        if self.busy.now:
            return ()
        tls = local_state.current()
        if not tls.enabled:
            return ()
        if not tls.callbacks:
            if roster.everyone is not None:
                return roster.everyone
            if not roster.steady:
                return hits
        self.busy.now = True  # `should_run` is the user's
        try:
            chosen = [observer for observer in roster.steady if _runs(observer, tree, roster.countdown)]
            if hits:
                chosen = sorted((*chosen, *hits), key=lambda observer: observer.handle)
            local = [callback for callback in tls.callbacks if callback.is_on and callback.selects(interest.scope)]
            chosen += [observer for observer in local if _runs(observer, tree, roster.countdown)]
            if not chosen and tree is not None and roster.is_per_root:
                tree.quiet = roster.countdown
            return chosen
        finally:
            self.busy.now = False

    def observers(self, interest: Interest) -> tuple[Listener, ...]:
        """The official observers that are notified of an event."""
        return interest.observers if interest.observers and local_state.current().enabled else ()

    def is_quiet(self, interest: Interest) -> bool:
        """Whether the root decided that no callback runs for `interest`'s events here: `picked` in a quarter of the time."""
        tree = CURRENT_TREE.get()
        return (
            tree is not None
            and tree.quiet is interest.countdown
            and tree.is_open
            and not local_state.current().callbacks
        )


def _runs(entry: Entry, tree: Tree | None, countdown: Countdown) -> bool:
    """Whether an entry runs for an event that is not sampled event by event."""
    should_run = entry.callback.should_run
    if should_run is not None:
        answer = entry.guarded.call(should_run)
        return answer is not FAILED and entry.guarded.call(bool, answer) is True  # a tensor may have no truth value
    return not entry.is_sampled or (tree is not None and tree.includes(entry, countdown))


REGISTRY = Registry()
"""The process's: the user's callbacks live as long as the process, whether or not torchspan is instrumented."""
