# SPDX-License-Identifier: Apache-2.0
"""Events of sources that report beginnings and ends separately, by key: Dynamo's event log, TensorRT's progress monitor."""

from __future__ import annotations

import threading
from collections.abc import Hashable
from typing import Any, NamedTuple

from torchspan.engine.dispatch import Engine
from torchspan.engine.event import CURRENT, Attributes, Event, Observed, Placement
from torchspan.words.phase import Phase


class _OpenKey(NamedTuple):
    """A beginning whose end has not come.

    Attributes:
        event: None if none was opened. The end still belongs to this entry.
    """

    key: Hashable
    event: Event | None


class EventStack:
    """The open events of one source, by key. Keys may repeat, one after the other or nested.

    Args:
        below: The event to which they all belong, from whichever thread a source reports. Without it they lie below the
            current event and are current themselves. Such a stack belongs to one thread.
    """

    def __init__(self, engine: Engine, below: Event | None = None) -> None:
        self._engine = engine
        self._below = below
        self._open: list[_OpenKey] = []
        self._lock = threading.RLock()

    def begin(
        self,
        key: Hashable,
        phase: Phase,
        facts: Attributes,
        *,
        parent_key: Hashable = None,
        target: str | None = None,
        observed: Observed | None = None,
        links: tuple[Any, ...] = (),
        at_ns: int | None = None,
    ) -> Event | None:
        """Open an event under `key`; see `Engine.open`.

        Args:
            parent_key: The event lies below the one that is open under that key, on a stack with `below`.
        """
        with self._lock:
            event = self._engine.open(
                phase,
                facts,
                target=target,
                observed=observed,
                links=links,
                at_ns=at_ns,
                placement=CURRENT if self._below is None else Placement(self.top(parent_key) or self._below),
            )
            self._open.append(_OpenKey(key, event))
            return event

    def top(self, key: Hashable) -> Event | None:
        """The event that was opened last under `key` and is still open."""
        with self._lock:
            begun = self._innermost(key)
            return None if begun is None else begun.event

    def _innermost(self, key: Hashable) -> _OpenKey | None:
        for begun in reversed(self._open):
            if begun.key == key:
                return begun
        return None

    def end(
        self,
        key: Hashable,
        facts: Attributes | None = None,
        *,
        error: BaseException | None = None,
        at_ns: int | None = None,
    ) -> Event | None:
        """Close the event that was opened last under `key`, with `facts` added. A key that is not open is ignored.

        Events inside it whose end did not come are closed first, and are incomplete. Returns the event.
        """
        with self._lock:
            ended = self._innermost(key)
            if ended is None:
                return None
            if ended.event is not None:
                if ended is not self._open[-1]:
                    for begun in [begun for begun in reversed(self._open) if _is_inside(begun.event, ended.event)]:
                        self._close_incomplete(begun)
                ended.event.additions.update(facts or {})
            self._close(ended, error, at_ns)
            return ended.event

    def close(self) -> None:
        """Close the events that are still open, innermost first. These events are incomplete."""
        with self._lock:
            while self._open:
                self._close_incomplete(self._open[-1])

    def _close_incomplete(self, begun: _OpenKey) -> None:
        if begun.event is not None:
            begun.event.is_incomplete = True
        self._close(begun)

    def _close(self, begun: _OpenKey, error: BaseException | None = None, at_ns: int | None = None) -> None:
        event = begun.event
        try:
            if event is not None:
                self._engine.close(event, error, at_ns=at_ns)
        except BaseException:
            if event is not None:
                self._engine.close(event, error, at_ns=at_ns)  # what an interrupt left undone
            raise
        finally:
            self._open.remove(begun)


def _is_inside(event: Event | None, outer: Event) -> bool:
    """Whether `event` lies in `outer`, and is not `outer` itself."""
    parent = None if event is None else event.parent
    while parent is not None and parent is not outer:
        parent = parent.parent
    return parent is not None
