# SPDX-License-Identifier: Apache-2.0
"""Roots: which events they are, and what their ends make of the operators that were recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torchspan.base import import_hooks
from torchspan.base.logs import Log
from torchspan.base.recorded_operators import OPERATORS, RecordedOperators
from torchspan.engine import Event, Listener
from torchspan.hooks.operators._limits import DEPTH, MIN_DURATION_S
from torchspan.words import phase, semconv
from torchspan.words.redaction.operator_text import operator_name

logger = Log("torchspan")

COMPILING = (
    *phase.COMPILATIONS,
    phase.CONVERT_TO_ENGINE,
    phase.REFIT,
    phase.TRACE,
    phase.EXPORT,
    phase.EXPORT_DECOMPOSE,
)
"""Work whose operators run on tensors without data, or prepare a graph: they are counted."""

_LONGEST_S = 1e9
"""Seconds. The library takes 64 bits of nanoseconds."""


class OperatorRoots(Listener):
    """Records the operators below roots. The library is loaded at the first one. It follows the span writer, which says what is sampled.

    Args:
        load: Returns the library. Raises an exception whose text is one line where there is none.
        mode: `TORCHSPAN_OPERATORS`. Blocks of `torchspan.operators` are roots in each mode.
        capture: `TORCHSPAN_CAPTURE`.

    Attributes:
        emitted: Number of operators that were handed on as spans.
    """

    name = "recording operators"

    def __init__(self, load: Callable[[], Any], mode: str, capture: str) -> None:
        self._load: Callable[[], Any] | None = load  # None from the first attempt on
        self._mode, self._capture = mode, capture
        self.phases = frozenset(phase.ROOTS if mode != "off" else (phase.OPERATORS,))
        self._library: Any = None
        self._lost_before: dict[str, int] = {}
        self._failure: Exception | None = None
        self._names: dict[int, str] = {}
        self.emitted = 0

    def prepare(self) -> None:
        """Load the library now, if PyTorch is imported, so that the first root does not wait for it."""
        if import_hooks.is_imported("torch"):
            self._try()

    def lost(self, reason: str) -> int:
        """Operators lost since the library was loaded: `ring`, because they came too fast; `late`, after their root's end."""
        if self._library is None:
            return 0
        now = int(self._library.counts()[reason])
        return max(0, now - self._lost_before[reason])  # a forked child's counts begin at 0

    # --- roots ----------------------------------------------------------------------------------------------------
    def open(self, event: Event) -> int:
        """Begin to record. Returns the library's number of the root; 0: nothing is recorded."""
        if not self._is_root(event):
            return 0
        library = self._loaded()
        if library is None:
            return 0
        facts = event.attributes
        depth = facts.get(semconv.OPERATORS_DEPTH, DEPTH)
        min_ns = int(min(facts.get(semconv.OPERATORS_MIN_DURATION, MIN_DURATION_S), _LONGEST_S) * 1e9)
        return int(library.begin(depth, min_ns, facts.get(semconv.OPERATORS_SHAPES, False)))

    def _is_root(self, event: Event) -> bool:
        if not (event.is_sampled and event.placement.is_current):
            return False
        is_asked = (
            event.phase is phase.OPERATORS or self._mode == "on" or (self._mode == "sampled" and event.follows_sampled)
        )
        return is_asked and event.nearest(*COMPILING) is None

    def leave(self, event: Event, token: int) -> None:
        """End to record, in the thread of the root."""
        if token and event.was_here:
            self._library.end(token)

    def close(self, event: Event, token: int) -> None:
        """Put what was recorded on the event."""
        number = token
        if not number:
            return
        library, handle = self._library, event.handle
        library.end(number)  # once more, if the event was closed in another context
        events, links, shapes, table, count, folded, suppressed = library.finish(
            number, handle.trace_id.to_bytes(16, "big"), handle.span_id
        )
        if suppressed:
            event.additions[semconv.OPERATORS_SUPPRESSED] = suppressed
        if not count:
            return
        if semconv.OPERATORS_DEPTH not in event.attributes:  # no block asked for one
            event.additions[semconv.OPERATORS_DEPTH] = DEPTH
        event.additions.update(self._table(table))
        event.additions[semconv.OPERATORS_COUNT] = count
        event.additions[semconv.OPERATORS_FOLDED] = folded
        self.emitted += count - folded
        event.scratch[OPERATORS] = RecordedOperators(
            events, links, shapes, event.anchor.offset_ns, library, self._name, self._capture
        )

    def _table(self, table: list[tuple[int, int, int, int, int]]) -> dict[str, Any]:
        if not table:
            return {}
        numbers, counts, totals, own, longest = zip(*table, strict=True)
        return {
            semconv.OPERATORS_NAMES: [self._name(number) for number in numbers],
            semconv.OPERATORS_COUNTS: list(counts),
            semconv.OPERATORS_DURATIONS: [nanoseconds / 1e9 for nanoseconds in totals],
            semconv.OPERATORS_SELF: [nanoseconds / 1e9 for nanoseconds in own],
            semconv.OPERATORS_LONGEST: [nanoseconds / 1e9 for nanoseconds in longest],
        }

    def _name(self, number: int) -> str:
        """The name of an operator by its number in the library."""
        if number not in self._names:
            first = len(self._names)
            for place, (name, overload) in enumerate(self._library.names(first), first):
                self._names[place] = operator_name(name.decode("utf-8", "replace"), overload.decode("utf-8", "replace"))
        return self._names[number]

    def suppress(self, is_suppressed: bool) -> bool:
        """Count the operators of this thread, or record them again. Returns whether the library is loaded."""
        if self._library is None:
            return False
        self._library.suppress(is_suppressed)
        return True

    # --- the library ----------------------------------------------------------------------------------------------
    def _loaded(self) -> Any:
        self._try()
        if self._failure is not None:
            logger.warning("torchspan: operators are not recorded: %s", self._failure)
            self._failure = None
        return self._library

    def _try(self) -> None:
        if self._load is None:
            return
        load, self._load = self._load, None
        try:
            library = load()
            self._lost_before = library.counts()  # of an earlier `instrument()` of this process
            self._library = library
        except Exception as error:
            self._failure = error  # the first root logs it


class OperatorsOfCompilations(Listener):
    """Has the operators of compilations counted, and not recorded."""

    name = "counting the operators of compilations"
    phases = frozenset(COMPILING)

    def __init__(self, roots: OperatorRoots) -> None:
        self._roots = roots

    def open(self, event: Event) -> bool:
        """See `Listener`."""
        return event.placement.is_current and self._roots.suppress(True)

    def leave(self, event: Event, token: bool) -> None:
        """See `Listener`."""
        if token and event.was_here:
            self._roots.suppress(False)
