# SPDX-License-Identifier: Apache-2.0
"""Spans as plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Attributes = dict[str, Any]
"""Keys to values: `str`, `bool`, `int`, `float`, lists and dictionaries of these; `bytes` read `"20 bytes"`.

An `int` has at most 64 bits. What OTLP has no value for, a larger integer among it, is None.
"""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened at one moment of a span. time_ns: since 1970; 0 where the file does not say it."""

    name: str
    attributes: Attributes
    time_ns: int = 0


@dataclass(frozen=True, slots=True)
class Link:
    """Another span that a span names, of this trace or of another one. Ids are lower-case hexadecimal."""

    trace_id: str
    span_id: str
    attributes: Attributes


@dataclass(frozen=True, slots=True, eq=False)
class Span:
    """One span. Its texts are those of the file: nothing in them is escaped.

    trace_id, span_id, parent_id: lower-case hexadecimal; parent_id is empty for a root.
    start_ns, end_ns: nanoseconds since 1970; `end_ns` may lie before `start_ns`.
    scope: name of the instrumentation scope. resource: attributes of the process that recorded the span.
    kind: `internal`, `server`, `client`, `producer`, `consumer`; empty where the file does not say it.
    """

    trace_id: str
    span_id: str
    parent_id: str
    name: str
    start_ns: int
    end_ns: int
    attributes: Attributes
    events: tuple[Event, ...] = ()
    is_error: bool = False
    status_message: str = ""
    scope: str = ""
    resource: Attributes = field(default_factory=dict)
    links: tuple[Link, ...] = ()
    kind: str = ""

    @property
    def duration_ns(self) -> int:
        """Never negative: clocks that were set back give 0."""
        return max(self.end_ns - self.start_ns, 0)


@dataclass(frozen=True, slots=True)
class Running:
    """What a heartbeat saw. name: of the innermost work, with its engine. for_ns: how long it had been running.

    seen_ns: when the heartbeat was, in nanoseconds since 1970.
    """

    name: str
    for_ns: int
    seen_ns: int


@dataclass(frozen=True, slots=True, eq=False)
class UnfinishedSpan(Span):
    """A span that did not arrive, made from what spans inside it say about it: its id, name and start are its own.

    `end_ns` is the last moment at which it is known to have been open, so the duration is a lower bound, and never
    less than that of a span inside it. With `torchspan.incomplete` only heartbeats are known: the span may have ended
    and be lost, and its parent is not known. Without it, it was open when its process wrote for the last time.

    running: what the last heartbeat saw; None where spans say more.
    """

    running: Running | None = None
