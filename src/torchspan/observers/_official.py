# SPDX-License-Identifier: Apache-2.0
"""The official observers: a pair for each phase of the bridge, from the same table as its spans."""

from __future__ import annotations

import logging
from typing import Any

from torchspan._base.errors import Unguarded
from torchspan.engine import Event
from torchspan.observers._observable import CallableObservers, ObserveContext
from torchspan.observers._observer import Observer
from torchspan.phase import OBSERVED, PHASES, PROGRESS, Phase
from torchspan.subscribers.registry import REGISTRY, Entry

logger = logging.getLogger("torchspan")

_UNGUARDED = Unguarded()


class _Feed:
    """Tells a pair of observers of the events of some phases, while anybody listens to it."""

    def __init__(self, name: str, phases: frozenset[Phase]) -> None:
        self._name = name
        self._phases = phases
        self._entry: Entry | None = None
        self.pair = CallableObservers(
            pre=Observer(f"{name}.pre", scope="process", _part_of=self, _on_change=self._changed),
            post=Observer(f"{name}.post", scope="process", _part_of=self, _on_change=self._changed),
        )

    def _changed(self) -> None:
        if self._switch() and REGISTRY.silent(self._phases):
            logger.warning(
                "A callback was added to torchspan.observers.%s, and nothing fires it yet: the bridge is not switched on.",
                self._name,
            )

    def _switch(self) -> bool:
        """Listen while anybody does; whether it begins to."""
        with REGISTRY.changing():  # once, also where two threads add callbacks at the same time
            is_heard = self.pair.pre.is_heard or self.pair.post.is_heard
            begins = is_heard and self._entry is None
            if begins:
                self._entry = REGISTRY.add(self._make)
            elif not is_heard and self._entry is not None:
                entry, self._entry = self._entry, None
                REGISTRY.remove(entry)
        return begins

    def _make(self, handle: int) -> Entry:
        name = f"telling torchspan.observers.{self._name}"
        return Entry(handle, name, self._start, self._end, self._phases.__contains__, _UNGUARDED, takes_events=True)

    def _start(self, event: Event) -> None:
        _tell(self.pair.pre, event)

    def _end(self, event: Event, _context: Any) -> None:
        _tell(self.pair.post, event)


def _tell(observer: Observer[Any], event: Event) -> None:
    if event.observed is not None and observer.is_heard:
        observer.tell((ObserveContext.of(event.observed),), {})


def _by_name() -> dict[str, frozenset[Phase]]:
    names: dict[str, frozenset[Phase]] = {}
    for each in PHASES:
        if each not in {OBSERVED, PROGRESS}:
            names[each.short] = names.get(each.short, frozenset()) | {each}
    return names


OFFICIAL: dict[str, CallableObservers] = {name: _Feed(name, phases).pair for name, phases in _by_name().items()}
"""The last part of a phase's name -> its pair. Of `execute` there are two phases: runs of engines and of contexts."""
