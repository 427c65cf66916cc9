# SPDX-License-Identifier: Apache-2.0
"""What happens at a moment, as an event of whatever span is around it."""

from __future__ import annotations

from typing import Any

from torchspan.adapters._machinery.ports import Ports
from torchspan.engine import Engine, Occurrence

NOTES_LIMIT = 20
"""Events of one name on one span of torchspan."""


class Notes:
    """Adds events to the innermost open event of torchspan, and where there is none to the program's current span."""

    def __init__(self, engine: Engine, ports: Ports) -> None:
        self._engine = engine
        self._annotate = ports.annotate_current

    def add(self, name: str, attributes: dict[str, Any]) -> None:
        """Something happens now."""
        event = self._engine.innermost_open()
        if event is None:
            self._annotate(name, attributes)
        elif sum(each.name == name for each in event.occurrences) < NOTES_LIMIT:
            event.occurrences.append(Occurrence(name, event.anchor.now_ns(), attributes))
