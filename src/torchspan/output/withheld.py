# SPDX-License-Identifier: Apache-2.0
"""What is not part of a span and goes with it: events and whole texts, for the user's own file and `capture()` alone, and operators.

Processors that know of it read it while the span ends. It is held no longer.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from torchspan.base.recorded_operators import RecordedOperators

if TYPE_CHECKING:
    from opentelemetry.trace import Span


class WithheldEvent(NamedTuple):
    """An event as it may leave the process."""

    name: str
    attributes: Mapping[str, Any]
    time_ns: int


class Withheld(NamedTuple):
    """What is withheld from one span. Exporters of the program get neither events nor texts.

    Attributes:
        events: Further events.
        texts: Whole texts by their keys: they begin with `semconv.LOCAL`.
        operators: PyTorch's operators below the span, which processors make spans of.
    """

    events: Sequence[WithheldEvent] = ()
    texts: Mapping[str, Any] = MappingProxyType({})
    operators: RecordedOperators | None = None


NOTHING = Withheld()

_ENDING: dict[tuple[int, int], Withheld] = {}
"""By trace and span id, while the span ends: processors receive another object than the one that is ended."""


@contextlib.contextmanager
def while_ending(trace_id: int, span_id: int, withheld: Withheld) -> Iterator[None]:
    """End the span inside this block. There, `of` returns `withheld`, in whichever thread its processors run."""
    _ENDING[trace_id, span_id] = withheld
    try:
        yield
    finally:
        del _ENDING[trace_id, span_id]


_NOTED: dict[tuple[int, int], list[WithheldEvent]] = {}
"""Events of spans that the program ends, by trace and span id."""


def note(span: Span, event: WithheldEvent) -> None:
    """Withhold an event from a span of the program's until the span is freed."""
    ids = span.get_span_context()
    key = ids.trace_id, ids.span_id
    if key not in _NOTED:
        weakref.finalize(span, _NOTED.pop, key, None).atexit = False
    _NOTED.setdefault(key, []).append(event)


def of(trace_id: int, span_id: int) -> Withheld:
    """What is withheld from a span that is just ending."""
    if not (_ENDING or _NOTED):
        return NOTHING
    key = trace_id, span_id
    ending, noted = _ENDING.get(key, NOTHING), _NOTED.get(key)
    return ending._replace(events=[*ending.events, *noted]) if noted else ending
