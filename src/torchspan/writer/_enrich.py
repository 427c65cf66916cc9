# SPDX-License-Identifier: Apache-2.0
"""What is known of an event's surroundings where it starts: facts for all other members of the pipeline."""

from __future__ import annotations

from torchspan import phase, semconv
from torchspan._base.readiness import is_ready
from torchspan._server_span import is_below_server_span
from torchspan.engine import Callback, Event


def enrich_callback() -> Callback:
    """The callback that is to be the first of a pipeline: spans, their sampler and metrics have the same facts then."""
    return Callback("adding what is known of an event", _start, _end, frozenset({phase.COMPILE}))


def _start(event: Event) -> None:
    if is_ready() or is_below_server_span():
        event.attributes[semconv.WHILE_SERVING] = True


def _end(_event: Event, _context: None) -> None:
    """All of it is known at the start."""
