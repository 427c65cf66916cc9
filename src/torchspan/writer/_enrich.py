# SPDX-License-Identifier: Apache-2.0
"""Adds facts about an event's surroundings at its start, for all other members of the pipeline."""

from __future__ import annotations

from torchspan import phase, semconv
from torchspan._base.readiness import is_ready
from torchspan._server_span import SERVER_SPANS
from torchspan.engine import Callback, Event


def enrich_callback() -> Callback:
    """The callback that must be first in a pipeline, so that spans, their sampler and metrics have the same facts."""
    return Callback("adding what is known of an event", _start, _end, frozenset(phase.COMPILATIONS))


def _start(event: Event) -> None:
    if is_ready() or SERVER_SPANS.is_around():
        event.attributes[semconv.WHILE_SERVING] = True
        event.attributes[semconv.SERVING_KIND] = "recompilation" if _is_recompilation(event) else "compilation"


def _is_recompilation(event: Event) -> bool:
    """Whether the compile id is that of a recompilation: `0/2` is the second one of frame 0, `0/2_1` the next attempt at it."""
    compile_id = event.attributes.get(semconv.COMPILE_ID, "")
    number = compile_id.rpartition("/")[2].partition("_")[0]
    return number.isdecimal() and int(number) > 0


def _end(_event: Event, _context: None) -> None:
    """Nothing to do: all facts are known at the start."""
