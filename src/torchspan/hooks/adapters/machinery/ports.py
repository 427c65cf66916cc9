# SPDX-License-Identifier: Apache-2.0
"""The interface through which adapters use the rest of torchspan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torchspan.engine import Attributes, Engine, Occurrence, ParentProbe, RunPolicy, RunSampling
from torchspan.engine.event import NOTES_LIMIT


@dataclass(frozen=True, kw_only=True, slots=True)
class Ports:
    """The functions and objects that adapters use; the bridge makes one instance.

    Attributes:
        redact: Reduces a text of a library to the part that may be recorded.
        annotate_current: Records a moment outside every event, by name, attributes that `semconv.emitted` has returned before, and
            further ones.
        parents: Finds the surroundings of frequent work.
        call_policy: Decides about calls of observed functions.
        sampling: Decides about runs of engines and of graphs.
    """

    redact: Callable[[str], str]
    annotate_current: Callable[[str, Mapping[str, Any], Attributes], None]
    parents: ParentProbe
    call_policy: RunPolicy
    sampling: RunSampling


# --- Events of the span around them ---------------------------------------------------------------------------------
class Notes:
    """Adds events to the innermost open event of torchspan, or to the program's current span if none is open."""

    def __init__(self, engine: Engine, ports: Ports) -> None:
        self._engine = engine
        self._annotate = ports.annotate_current

    def add(self, name: str, attributes: dict[str, Any]) -> None:
        """Add an event with the current time."""
        self.add_again(name, {}, attributes)

    def add_again(self, name: str, emitted: Mapping[str, Any], more: dict[str, Any]) -> None:
        """Like `add`, for frequent events.

        Args:
            emitted: Attributes that `semconv.emitted` has returned before.
            more: Further ones.
        """
        event = self._engine.innermost_open()
        if event is None:
            self._annotate(name, emitted, more)
        elif sum(occurrence.name == name for occurrence in event.occurrences) < NOTES_LIMIT:
            event.occurrences.append(Occurrence(name, event.anchor.now_ns(), {**emitted, **more}))
