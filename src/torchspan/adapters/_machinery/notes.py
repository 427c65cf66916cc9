# SPDX-License-Identifier: Apache-2.0
"""What happens at a moment, as an event of whatever span is around it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torchspan.adapters._machinery.ports import Ports
from torchspan.engine import Engine, Occurrence

NOTES_LIMIT = 20
"""Events of one name on one span of torchspan."""


class Notes:
    """Adds events to the innermost open event of torchspan, and where there is none to the program's current span."""

    def __init__(self, engine: Engine, ports: Ports) -> None:
        self._engine = engine
        self._annotate = ports.annotate_again

    def add(self, name: str, attributes: dict[str, Any]) -> None:
        """Something happens now."""
        self.add_again(name, {}, attributes)

    def add_again(self, name: str, emitted: Mapping[str, Any], more: dict[str, Any]) -> None:
        """As `add`, of something that happens often: with what `semconv.emitted` has returned for most of its attributes."""
        event = self._engine.innermost_open()
        if event is None:
            self._annotate(name, emitted, more)
        elif sum(each.name == name for each in event.occurrences) < NOTES_LIMIT:
            event.occurrences.append(Occurrence(name, event.anchor.now_ns(), {**emitted, **more}))
