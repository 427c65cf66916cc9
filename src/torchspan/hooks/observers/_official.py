# SPDX-License-Identifier: Apache-2.0
"""The official observers: a pair for each phase, notified by the engine of the events of that phase."""

from __future__ import annotations

import difflib
import keyword
from typing import Any, NoReturn

from torchspan.engine import Event, Listener
from torchspan.engine.subscribers.callback_registry import REGISTRY
from torchspan.hooks.observers._observable import CallableObservers, notify
from torchspan.hooks.observers._observer import PartObserver
from torchspan.words.phase import PHASES, Phase

OFFICIAL: dict[str, tuple[Phase, CallableObservers]] = {}
"""Name below `torchspan.observers` -> phase and pair."""


def pairs_of(library: str) -> dict[str, CallableObservers]:
    """Make the pairs of a library's phases, by their names in its module: `export_trace` for `torch.export.trace`.

    The module declares the names with their types, for editors. A phase without a declaration has its pair all the same.
    """
    pairs = {}
    for phase in PHASES:
        if phase.name.startswith(f"{library}."):
            name = phase.name.removeprefix(f"{library}.").replace(".", "_")
            name += "_" * keyword.iskeyword(name)
            pairs[name] = _Feed(f"{library}.{name}", phase).pair
            OFFICIAL[f"{library}.{name}"] = (phase, pairs[name])
    return pairs


def missing(module: str, name: str) -> NoReturn:
    """Raises the AttributeError of a module of this package that has no `name`, with the official observers that exist."""
    full_names = {full_name.rpartition(".")[2]: full_name for full_name in OFFICIAL}
    near = difflib.get_close_matches(name, full_names, 1)
    hint = f": did you mean observers.{full_names[near[0]]}?" if near else "."
    raise AttributeError(f"{module} has no {name!r}{hint} Official observers: {', '.join(OFFICIAL)}")


class _Feed(Listener):
    """Notifies a pair of observers of the events of a phase, while the pair has a callback."""

    def __init__(self, name: str, phase: Phase) -> None:
        self._name = name
        self.name = f"notifying observers.{name}"
        self._phase = phase
        self._is_on = False
        self._pre: PartObserver[Any] = PartObserver(f"{name}.pre", self._changed, scope="process")
        self._post: PartObserver[Any] = PartObserver(f"{name}.post", self._changed, scope="process")
        self.pair = CallableObservers(self._pre, self._post)

    def _changed(self) -> None:
        if self._switch():
            silent = REGISTRY.silent((self._phase,))
            if silent:
                REGISTRY.warn(
                    f"A callback was added to torchspan.observers.{self._name}, and nothing fires it yet: "
                    f"{REGISTRY.reason(silent)}."
                )

    def _switch(self) -> bool:
        """Have the engine notify this object while there is a callback. Returns whether it begins to."""
        with REGISTRY.changing():  # once, also where two threads add callbacks at the same time
            was_on, self._is_on = self._is_on, self._pre.is_heard or self._post.is_heard
            if was_on != self._is_on:
                REGISTRY.set_observers(self._phase, (self,) if self._is_on else ())
            return self._is_on and not was_on

    def open(self, event: Event) -> None:
        """See `Listener`."""
        self._notify(self._pre, event)

    def leave(self, event: Event, token: None) -> None:  # noqa: ARG002 - see `Listener`
        """See `Listener`."""
        self._notify(self._post, event)
        if not (self._pre.is_heard or self._post.is_heard):  # the contexts of its last callbacks are gone
            self._switch()

    @staticmethod
    def _notify(observer: PartObserver[Any], event: Event) -> None:
        if event.observed is not None:
            notify(observer, event.observed)
