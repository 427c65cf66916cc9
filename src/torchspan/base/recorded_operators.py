# SPDX-License-Identifier: Apache-2.0
"""PyTorch's operators that were recorded below one span, on their way to the processors of spans."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torchspan.base.scratch import Key

EVENT_BYTES = 64
"""Bytes of an operator in `RecordedOperators.events`."""

Shapes = Sequence[Sequence[tuple[str, Sequence[int]]]]
"""For each operator the data types and dimensions of its tensors."""


@dataclass(eq=False, slots=True)
class RecordedOperators:
    """The operators below one span. Processors read them while the span ends, and may keep them.

    Attributes:
        events: A record of `EVENT_BYTES` bytes for each operator. `native/recording.h` declares its fields.
        links: The trace ids of links, 16 bytes each.
        shapes: None if shapes are not recorded.
        offset_ns: What makes nanoseconds since the epoch of the times in `events`.
        library: The C++ library, which keeps templates of spans as text.
        name: Returns the name for the number of a name, as `operator_name` returns it. It may be a text of the program. It is
            the same function for all operators of the process.
        capture: Who gets names of the program: no one, the user's own file and `capture()`, or exporters as well.
        is_read: Whether a processor has taken the operators. Each one that does sets it.
    """

    events: bytes
    links: bytes
    shapes: Shapes | None
    offset_ns: int
    library: Any
    name: Callable[[int], str]
    capture: str = "none"
    is_read: bool = False

    @property
    def count(self) -> int:
        """The number of operators."""
        return len(self.events) // EVENT_BYTES


OPERATORS: Key[RecordedOperators] = Key("recorded operators")
"""Where an event has them when it ends."""
