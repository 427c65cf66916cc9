# SPDX-License-Identifier: Apache-2.0
"""The companion of engine runs that also puts the event of a followed call on the span of a run.

The span around a call has the call's event, whether or not a run becomes a span. A run that does has the event as well, which shows
the call of the model that the run belongs to.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from threading import get_ident
from typing import Any

from torchspan import semconv
from torchspan._base.reading import instance_dict
from torchspan.engine import Occurrence, RecordedRun

MODULES_LIMIT = 1_000
"""Maximum number of modules below a followed module that are searched for engines."""

THREADS_LIMIT = 1_000
"""Maximum number of threads whose last sampled call waits for a run."""

_Sampled = tuple["FollowedModule", Mapping[str, Any], dict[str, Any]]


class FollowedModule:
    """The engines of a module whose calls are followed. They are searched for at the first recorded run in one of its calls."""

    def __init__(self, module: Any) -> None:
        self._module = module
        self._engines: frozenset[int] | None = None

    def has(self, runner: Any) -> bool:
        """Whether `runner` is the module or one below it, or an attribute of one of these."""
        if self._engines is None:
            self._engines = frozenset(map(id, contents_of(self._module())))
        return id(runner) in self._engines


class FollowedRuns:
    """Adds the event of a sampled call to the first recorded run of one of the module's engines in that call.

    waiting: the sampled calls that no run has taken, by thread. The next followed call in the thread removes its entry.
    """

    def __init__(self) -> None:
        self.waiting: dict[int, _Sampled] = {}

    def called(self, module: FollowedModule, described: Mapping[str, Any], counted: dict[str, Any]) -> None:
        """Record that a sampled call of `module` begins in this thread.

        Args:
            described, counted: The attributes of its event.
        """
        if len(self.waiting) >= THREADS_LIMIT:  # threads that have ended leave their entries
            self.waiting.clear()
        self.waiting[get_ident()] = (module, described, counted)

    def begin(self, run: RecordedRun) -> None:
        """See `torchspan.engine.Companion`."""
        thread = get_ident()
        sampled = self.waiting.get(thread)
        if sampled is None or not sampled[0].has(run.runner):
            return
        self.waiting.pop(thread, None)
        _, described, counted = sampled
        event = run.event
        event.occurrences.append(Occurrence(semconv.CALL_EVENT, event.anchor.now_ns(), {**described, **counted}))

    def end(self, _token: None, run: RecordedRun) -> None:
        """See `torchspan.engine.Companion`."""


def contents_of(module: Any) -> Iterator[Any]:
    """`module`, the modules below it, and the attributes of each, which include the engines."""
    below = [] if module is None else [module]
    for inner in below:
        attributes = instance_dict(inner)
        if len(below) < MODULES_LIMIT:
            below += [child for child in attributes.get("_modules", {}).values() if child is not None]
        yield inner
        yield from attributes.values()
