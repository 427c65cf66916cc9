# SPDX-License-Identifier: Apache-2.0
"""What `torchspan run` hands to the processes below it, in one environment variable."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from torchspan.words.environment_variables import TORCHSPAN_RUN

_TRACEPARENT = re.compile(r"(?!ff)([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")


class RunSettings(NamedTuple):
    """One run of `torchspan run`, as its processes know it.

    Attributes:
        id: 16 hexadecimal digits, which distinguish the spans of this run from others in the same file.
        file: Template of an absolute path, `%p` allowed: where the processes write their spans.
        reports: The folder for their reports.
        span: The W3C traceparent of the span that the process was started in: `torchspan.run`, or a span of the
            process below `run` that started it.
        started_ns: When `torchspan.run` starts, in nanoseconds since 1970.
        exit_s: Seconds after its own end for which a program may wait for exporters that `run` made.
        inputs: The classes whose calls are observed, `module:Class`.
    """

    # A frozen dataclass would take longer to make than everything else that is loaded here.

    id: str
    file: str
    reports: str
    span: str
    started_ns: int
    exit_s: float = 2.0
    inputs: tuple[str, ...] = ()

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> RunSettings | None:
        """The settings in TORCHSPAN_RUN; None if this process does not run under `torchspan run`.

        Args:
            environ: Read instead of this process's environment. A value that is not the text of settings counts as not
                set.
        """
        text = (os.environ if environ is None else environ).get(TORCHSPAN_RUN)
        if not text:
            return None
        import json

        try:
            values = json.loads(text)
            return cls(*(read(values[name]) for name, read in zip(cls._fields, _READ, strict=True)))
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            return None

    def to_text(self) -> str:
        """The value of TORCHSPAN_RUN: JSON in ASCII."""
        import json

        return json.dumps(self._asdict(), separators=(",", ":"))


def _paths(values: Iterable[object]) -> tuple[str, ...]:
    return tuple(map(str, values))


def _path(value: object) -> str:
    """The value as a path. Raises ValueError for a path that no file system accepts."""
    text = str(value)
    if b"\0" in os.fsencode(text):
        raise ValueError(text)
    return text


def _seconds(value: Any) -> float:
    seconds = float(value)
    if not 0 <= seconds < float("inf"):
        raise ValueError(value)
    return seconds


_READ: tuple[Callable[[Any], Any], ...] = (str, _path, _path, str, int, _seconds, _paths)
"""What makes each field of `RunSettings` of its value in JSON. Any error means that the text is none of settings."""


def parse_traceparent(text: str | None) -> tuple[int, int, int] | None:
    """Trace id, span id and flags of a W3C traceparent; None if the text is not one (Trace Context, 3.2)."""
    match = _TRACEPARENT.fullmatch(text.strip()) if text else None
    if match is None or (match[1] == "00" and match[5]):
        return None
    trace_id, span_id = int(match[2], 16), int(match[3], 16)
    return (trace_id, span_id, int(match[4], 16)) if trace_id and span_id else None


def new_span(caller: str | None) -> str:
    """The traceparent of a new span: in the trace of `caller` and sampled like it, or in a new trace.

    Args:
        caller: The TRACEPARENT of the process that starts the span. Any other text counts as none.
    """
    import secrets

    parent = parse_traceparent(caller)
    trace_id, flags = (parent[0], parent[2] & 1) if parent else (secrets.randbits(128) or 1, 1)
    return f"00-{trace_id:032x}-{secrets.randbits(64) or 1:016x}-{flags:02x}"
