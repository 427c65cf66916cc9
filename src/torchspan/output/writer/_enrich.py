# SPDX-License-Identifier: Apache-2.0
"""Adds facts about the surroundings of a compilation at its start."""

from __future__ import annotations

from torchspan.base.readiness import is_ready
from torchspan.engine import Event, Listener
from torchspan.output.server_span import SERVER_SPANS
from torchspan.words import phase, semconv


class ServingMarks(Listener):
    """Marks compilations that requests wait for. It must be the first listener, so that spans, their sampler and metrics have the mark."""

    name = "marking compilations while serving"
    phases = frozenset(phase.COMPILATIONS)

    def open(self, event: Event) -> None:
        """See `Listener`."""
        if is_ready() or SERVER_SPANS.is_around():
            event.attributes[semconv.WHILE_SERVING] = True
            event.attributes[semconv.SERVING_KIND] = "recompilation" if _is_recompilation(event) else "compilation"


def _is_recompilation(event: Event) -> bool:
    """Whether the compile id is that of a recompilation: `0/2` is the second one of frame 0, `0/2_1` the next attempt at it."""
    compile_id = event.attributes.get(semconv.COMPILE_ID, "")
    number = compile_id.rpartition("/")[2].partition("_")[0]
    return number.isdecimal() and int(number) > 0
