# SPDX-License-Identifier: Apache-2.0
"""torchspan's own observers: while the bridge is on, it listens to all of them.

Like any other library `torchspan.observers` is hooked once the program has imported it: most programs never do.
"""

from __future__ import annotations

from typing import Any

from torchspan.adapters._observations import Begun, Observations
from torchspan.engine import Engine, Undo
from torchspan.engine._registry import Entry

LIBRARY = "torchspan.observers"


def install(engine: Engine) -> Undo:
    """Have each call of an observed function be an event of `engine`, and each observer that fires an occurrence."""
    observations = Observations(engine)

    def call_begins(call: Any) -> Begun | None:
        site = call.site
        return observations.begin(site.name, site.module, call.observed, scoped=not call.resumes)

    def call_ends(call: Any, begun: Begun | None) -> None:
        observations.finish(begun, call.observed.exception, call.observed.return_value)

    def observer_fires(firing: Any) -> None:
        observations.mark(firing.observer.name, engine.innermost_open())

    calls = engine.registry.add(
        lambda handle: _entry(handle, engine, "recording observed functions", call_begins, call_ends, "is_observed")
    )
    points = engine.registry.add(
        lambda handle: _entry(handle, engine, "recording observers", observer_fires, _nothing, "is_point")
    )

    def undo() -> None:
        engine.registry.remove(calls)
        engine.registry.remove(points)

    return undo


def _entry(handle: int, engine: Engine, name: str, start: Any, end: Any, selected_by: str) -> Entry:
    return Entry(
        handle,
        name,
        start,
        end,
        lambda scope: getattr(scope, selected_by, False),
        engine.guard,
        owner=engine,
        is_privileged=True,
        is_observing=True,
    )


def _nothing(_firing: Any, _context: Any) -> None:
    """A point in time has no end."""
