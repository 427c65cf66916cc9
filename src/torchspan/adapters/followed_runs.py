# SPDX-License-Identifier: Apache-2.0
"""The companion of engine runs that puts the event of a followed call on the span of a run, too.

The span around a call has its event whether or not a run becomes a span. A run that does has it as well, so that it says which call
of the model it belongs to.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from threading import get_ident
from typing import Any

from torchspan import semconv
from torchspan._base.reading import instance_dict
from torchspan.engine import Occurrence, RecordedRun

MODULES_LIMIT = 1_000
"""Modules below a followed one in which its engines are looked for."""


THREADS_LIMIT = 1_000
"""Threads whose last sampled call may wait for a run."""

_Sampled = tuple["FollowedModule", Mapping[str, Any], dict[str, Any]]


class FollowedModule:
    """The engines of a module whose calls are followed. They are looked for when one of its calls has the first recorded run."""

    def __init__(self, module: Any) -> None:
        self._module = module
        self._engines: frozenset[int] | None = None

    def has(self, runner: Any) -> bool:
        """Whether the module, or one below it, is `runner` or holds it."""
        if self._engines is None:
            self._engines = frozenset(map(id, held_by(self._module())))
        return id(runner) in self._engines


class FollowedRuns:
    """Adds the event of a sampled call to the first recorded run of one of the module's engines in that call.

    waiting: the sampled calls that no run has taken, by thread. The next followed call in the thread removes its entry.
    """

    def __init__(self) -> None:
        self.waiting: dict[int, _Sampled] = {}

    def called(self, module: FollowedModule, described: Mapping[str, Any], counted: dict[str, Any]) -> None:
        """A sampled call of `module` begins in this thread; `described` and `counted` are the attributes of its event."""
        if len(self.waiting) >= THREADS_LIMIT:  # threads that have ended leave theirs
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


def held_by(module: Any) -> Iterator[Any]:
    """`module`, the modules below it, and what each of them holds: engines are among that."""
    below = [] if module is None else [module]
    for each in below:
        held = instance_dict(each)
        if len(below) < MODULES_LIMIT:
            below += [inner for inner in held.get("_modules", {}).values() if inner is not None]
        yield each
        yield from held.values()
