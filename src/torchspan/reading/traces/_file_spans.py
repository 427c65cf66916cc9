# SPDX-License-Identifier: Apache-2.0
"""Spans as plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Attributes = dict[str, Any]
"""Keys to values: `str`, `bool`, `int`, `float`, lists and dictionaries of these; `bytes` become the text `"20 bytes"`.

An `int` has at most 64 bits. A value that OTLP cannot represent, such as a larger integer, is None.
"""


@dataclass(frozen=True, slots=True)
class SpanEvent:
    """Something that happened at one moment of a span.

    Attributes:
        name: The event's name.
        attributes: Its attributes.
        time_ns: Nanoseconds since 1970; 0 if the file does not have the time.
    """

    name: str
    attributes: Attributes
    time_ns: int = 0


@dataclass(frozen=True, slots=True)
class Link:
    """A link from a span to another one, in this trace or in another trace.

    Attributes:
        trace_id: The other span's trace id, in lower-case hexadecimal.
        span_id: The other span's id, in lower-case hexadecimal.
        attributes: The link's attributes.
    """

    trace_id: str
    span_id: str
    attributes: Attributes


@dataclass(frozen=True, slots=True, eq=False)
class Span:
    """One span. Its strings are those of the file; nothing in them is escaped.

    Attributes:
        trace_id: The trace's id, in lower-case hexadecimal.
        span_id: The span's id, in lower-case hexadecimal.
        parent_id: The parent's id, in lower-case hexadecimal; empty for a root.
        name: The span's name.
        start_ns: Its start, in nanoseconds since 1970.
        end_ns: Its end, in nanoseconds since 1970. It may be before `start_ns` if a clock was set back.
        attributes: The span's attributes.
        events: Its events, in the order of the file.
        is_error: Whether its status is an error.
        status_message: The description of its status.
        scope: The name of the instrumentation scope.
        resource: The attributes of the process that recorded the span.
        links: Its links to other spans.
        kind: `internal`, `server`, `client`, `producer` or `consumer`; empty if the file does not have the kind.
        texts: The whole texts of messages and guards (`TORCHSPAN_CAPTURE=local`), by the keys of their attributes. The key of an
            event's attribute follows `events.`, the event's index and a dot. Only the file of `torchspan run` and `capture()` have
            them. They are not part of the `repr`, which test runners print.
    """

    trace_id: str
    span_id: str
    parent_id: str
    name: str
    start_ns: int
    end_ns: int
    attributes: Attributes
    events: tuple[SpanEvent, ...] = ()
    is_error: bool = False
    status_message: str = ""
    scope: str = ""
    resource: Attributes = field(default_factory=dict)
    links: tuple[Link, ...] = ()
    kind: str = ""
    texts: Attributes = field(default_factory=dict, repr=False)

    @property
    def duration_ns(self) -> int:
        """The duration in nanoseconds; 0 if a clock was set back."""
        return max(self.end_ns - self.start_ns, 0)


@dataclass(frozen=True, slots=True)
class Running:
    """What was running at a heartbeat.

    Attributes:
        name: The innermost work, with its engine.
        for_ns: How long it had been running, in nanoseconds.
        seen_ns: The time of the heartbeat, in nanoseconds since 1970.
    """

    name: str
    for_ns: int
    seen_ns: int


@dataclass(frozen=True, slots=True, eq=False)
class UnfinishedSpan(Span):
    """A span that did not arrive, made from the spans inside it.

    Its id, name and start are its own. `end_ns` is the last moment at which it is known to have been open, so the duration
    is a lower bound, and never less than that of a span inside it. With the attribute `torchspan.incomplete`, only heartbeats
    are known: the span may have ended and been lost, and its parent is not known. Without the attribute, the span was open
    when its process wrote for the last time. The attributes of the class are those of `Span`, and one more.

    Attributes:
        running: What was running at the last heartbeat; None if the spans inside show more.
    """

    running: Running | None = None
