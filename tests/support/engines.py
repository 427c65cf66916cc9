# SPDX-License-Identifier: Apache-2.0
"""Engines with listeners, for tests."""

from torchspan.engine import Listener
from torchspan.output.writer import is_suppressed


class Callback(Listener):
    """A listener made of functions: `start` and `leave` and `end` in place of its methods."""

    def __init__(self, name, start, end, phases=frozenset(), leave=None):
        self.name, self.open, self.close, self.phases = name, start, end, frozenset(phases)
        self.leaves = leave is not None
        if leave is not None:
            self.leave = leave


def extend(engine, *listeners):
    """Have `listeners` receive the engine's events, after those that it has already."""
    engine.listen((*engine.listeners, *listeners), is_suppressed=is_suppressed)
