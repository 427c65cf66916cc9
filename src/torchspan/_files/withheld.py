# SPDX-License-Identifier: Apache-2.0
"""Events of spans that the file of `torchspan run` gets, and the program's exporters do not."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple


class WithheldEvent(NamedTuple):
    """An event as it may leave the process."""

    name: str
    attributes: Mapping[str, Any]
    time_ns: int


_ENDING: dict[tuple[int, int], Sequence[WithheldEvent]] = {}
"""By trace and span id, while the span ends: processors receive another object than the one that is ended."""


@contextlib.contextmanager
def while_ending(trace_id: int, span_id: int, events: Sequence[WithheldEvent]) -> Iterator[None]:
    """End the span inside this block. There, `of` returns `events`, in whichever thread its processors run."""
    if not events:
        yield
        return
    _ENDING[trace_id, span_id] = events
    try:
        yield
    finally:
        del _ENDING[trace_id, span_id]


def of(trace_id: int, span_id: int) -> Sequence[WithheldEvent]:
    """The events that are withheld from a span that is just ending."""
    return _ENDING.get((trace_id, span_id), ()) if _ENDING else ()
