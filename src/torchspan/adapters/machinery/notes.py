# SPDX-License-Identifier: Apache-2.0
"""Moments that are recorded as events of the span around them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torchspan.adapters.machinery.ports import Ports
from torchspan.engine import Engine, Occurrence
from torchspan.engine.event import NOTES_LIMIT


class Notes:
    """Adds events to the innermost open event of torchspan, or to the program's current span if none is open."""

    def __init__(self, engine: Engine, ports: Ports) -> None:
        self._engine = engine
        self._annotate = ports.annotate_again

    def add(self, name: str, attributes: dict[str, Any]) -> None:
        """Add an event with the current time."""
        self.add_again(name, {}, attributes)

    def add_again(self, name: str, emitted: Mapping[str, Any], more: dict[str, Any]) -> None:
        """Like `add`, for frequent events. emitted: attributes that `semconv.emitted` has returned before. more: further ones."""
        event = self._engine.innermost_open()
        if event is None:
            self._annotate(name, emitted, more)
        elif sum(occurrence.name == name for occurrence in event.occurrences) < NOTES_LIMIT:
            event.occurrences.append(Occurrence(name, event.anchor.now_ns(), {**emitted, **more}))
