# SPDX-License-Identifier: Apache-2.0
"""Work whose own span never arrived, drawn from its progress spans."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from torchspan import phase, semconv
from torchspan.traces._spans import Attributes, Span

_KEPT = (
    semconv.KEEP,
    semconv.MODEL_CLASS,
    semconv.ENTRY_POINT,
    semconv.PROGRESS_RUNNING,
    semconv.PROGRESS_RUNNING_ELAPSED,
)


def settled(spans: Iterable[Span]) -> list[Span]:
    """The spans without those of progress: the span of the work says it all once it is there.

    Where it is not (the program was killed, or still runs), one span stands for it: as long as the work was seen,
    with the id of the span that never arrived, so that what is below that one is found below this one, and with the
    facts of the last heartbeat. Whose child it was is not known.
    """
    result: list[Span] = []
    by_work: dict[tuple[str, str], list[Span]] = {}
    for span in spans:
        if span.name == phase.PROGRESS.name and span.scope == semconv.SCOPE_NAME and span.parent_id:
            by_work.setdefault((span.trace_id, span.parent_id), []).append(span)
        else:
            result.append(span)
    arrived = {(span.trace_id, span.span_id) for span in result}
    return result + [_last_seen(told) for work, told in by_work.items() if work not in arrived]


def _last_seen(told: list[Span]) -> Span:
    last = max(told, key=lambda span: span.end_ns)
    attributes: Attributes = {str(key): last.attributes[key] for key in _KEPT if key in last.attributes}
    attributes[str(semconv.INCOMPLETE)] = True
    return dataclasses.replace(
        last,
        span_id=last.parent_id,
        parent_id="",
        name=str(last.attributes.get(semconv.PROGRESS_WORK) or last.name),
        start_ns=max(last.start_ns - _ns(last.attributes.get(semconv.PROGRESS_ELAPSED)), 0),
        attributes=attributes | _running(last.attributes),
        events=(),
    )


def _running(attributes: Attributes) -> Attributes:
    """What was running, with the engine: as an attribute of its own that would say the whole work was about it."""
    running, engine = attributes.get(semconv.PROGRESS_RUNNING), attributes.get(semconv.ENGINE_NAME)
    return {str(semconv.PROGRESS_RUNNING): f"{running} · {engine}"} if running and engine else {}


def _ns(seconds: Any) -> int:
    is_number = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
    return round(seconds * 1e9) if is_number and 0 <= seconds < 2**33 else 0
