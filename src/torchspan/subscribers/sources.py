# SPDX-License-Identifier: Apache-2.0
"""Where events come from, and what is said to users whose callbacks nothing fires."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Sequence

from torchspan._base.logs import Log
from torchspan.phase import Phase
from torchspan.subscribers.scope import Scope

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
        return [scope for scope in scopes if not any(scope in each for each in fired)]

    def reason(self, silent: Sequence[Scope]) -> str:
        """Why nothing fires events of `silent`."""
        reasons = {
            self._reasons.get(each) or (_OF_PHASES if isinstance(each, Phase) else _OF_RANGES) for each in silent
        }
        return "; ".join(sorted(reasons))

    def warn(self, message: str) -> None:
        """Log a warning, unless the same has been logged since the sources last changed."""
        if message not in self._warned and len(self._warned) < WARNINGS_LIMIT:
            self._warned.add(message)
            logger.warning("%s", message)
