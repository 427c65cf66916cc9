# SPDX-License-Identifier: Apache-2.0
"""Work whose own span never arrived, made from what other spans say about it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from torchspan.reading.traces._file_spans import Attributes, Running, Span, UnfinishedSpan
from torchspan.words import phase, semconv

_Key = tuple[str, str]
"""Trace id and span id."""

_FACTS = (semconv.KEEP, semconv.MODEL_CLASS, semconv.ENTRY_POINT, *semconv.OF_WORK)
_PHASES = frozenset(row.name for row in phase.PHASES)


def settled(spans: Iterable[Span]) -> list[Span]:
    """The spans without those of progress: the span of the work says it all once it is there.

    Where it is not, an UnfinishedSpan stands for it, with the id of the span that never arrived, so that what is below
    that one is found below this one.

    - In the file of `torchspan run` each span names the open spans around it. What is named and not there was open
      when its process wrote for the last time: name, start and parent are its own.
    - Elsewhere the last heartbeat of the work, or the record of its start, is all there is. Whose child the work was is
      not known, nor whether it ended: the span may be lost (`torchspan.incomplete`).
    """
    result: list[Span] = []
    progress: dict[_Key, list[Span]] = {}
    every = list(spans)
    for span in every:
        if span.name == phase.PROGRESS.name and span.scope == semconv.SCOPE_NAME and span.parent_id:
            progress.setdefault((span.trace_id, span.parent_id), []).append(span)
        else:
            result.append(span)
    arrived = {(span.trace_id, span.span_id) for span in result}
    named = _named(every, arrived)
    last_writes = _last_writes(every) if named else {}
    result += [_open(key, record, progress.get(key, []), last_writes) for key, record in named.items()]
    result += [_last_seen(reports) for key, reports in progress.items() if key not in arrived and key not in named]
    return result


@dataclass(slots=True)
class _Named:
    """What spans say about an open span around them.

    Args:
        by: The one that was written last.
        parent_id: Empty if unknown.
    """

    by: Span
    name: str
    start_ns: int
    parent_id: str = ""


def _named(spans: Iterable[Span], arrived: set[_Key]) -> dict[_Key, _Named]:
    """What is said about each span that was open and has not arrived."""
    result: dict[_Key, _Named] = {}
    for span in spans:
        for span_id, name, start_ns, parent_id in _ancestors(span):
            key = (span.trace_id, span_id)
            if key in arrived:
                continue
            previous = result.get(key)
            if previous is None:
                result[key] = _Named(span, name, start_ns, parent_id)
            else:
                previous.parent_id = previous.parent_id or parent_id
                if span.end_ns >= previous.by.end_ns:
                    previous.by, previous.name = span, name
    return result


def _ancestors(span: Span) -> Iterator[tuple[str, str, int, str]]:
    """Id, name, start and parent's id of each open ancestor; none where the lists are not what they should be."""
    a = span.attributes
    ids = a.get(semconv.OPEN_ANCESTOR_IDS)
    if span.scope != semconv.SCOPE_NAME or not isinstance(ids, list):
        return
    names, starts = a.get(semconv.OPEN_ANCESTOR_NAMES), a.get(semconv.OPEN_ANCESTOR_STARTS)
    if not isinstance(names, list) or not isinstance(starts, list) or not len(ids) == len(names) == len(starts):
        return
    parents = [*ids[1:], ""]
    for span_id, name, start_ns, parent_id in zip(ids, names, starts, parents, strict=True):
        is_time = isinstance(start_ns, int) and 0 <= start_ns < 2**64
        if is_time and isinstance(span_id, str) and span_id and isinstance(name, str):
            yield span_id, name, start_ns, parent_id if isinstance(parent_id, str) else ""


def _process(span: Span) -> tuple[Any, Any] | None:
    """Which process of which run wrote the span into its file; None where nothing records it."""
    run, pid = (span.resource.get(key) for key in (semconv.RUN_ID, semconv.PROCESS_PID))
    return (run, pid) if isinstance(run, str) and isinstance(pid, int) else None


def _last_writes(spans: Iterable[Span]) -> dict[tuple[Any, Any], int]:
    """Until when each process is known to have continued, in nanoseconds: what was open then had not ended.

    That is the end of its last span, since each was written as soon as it ended. The process that `torchspan run`
    itself started lasts until the end of the run.
    """
    result: dict[tuple[Any, Any], int] = {}
    for span in spans:
        process = _process(span)
        if process is not None and (span.name, span.scope) == (phase.RUN.name, semconv.SCOPE_NAME):
            process = (process[0], span.attributes.get(semconv.PROCESS_PID))
        if process is not None:
            result[process] = max(result.get(process, 0), span.end_ns)
    return result


def _open(key: _Key, named: _Named, reports: list[Span], last_writes: dict[tuple[Any, Any], int]) -> UnfinishedSpan:
    """The span that was open when its process wrote for the last time: had it ended, it would be there."""
    process = _process(named.by)
    last_ns = max(named.by.end_ns, last_writes.get(process, 0) if process is not None else 0)
    attributes: Attributes = {}
    heartbeats = _heartbeats(reports)
    for span in reports:
        # A heartbeat has the facts of what was running, the record at the start those of the work.
        facts = _FACTS if span in heartbeats else (*_FACTS, semconv.ENGINE_NAME)
        attributes |= {str(fact): span.attributes[fact] for fact in facts if fact in span.attributes}
    is_own = bool(reports) or named.name.partition(" ")[0] in _PHASES
    return UnfinishedSpan(
        trace_id=key[0],
        span_id=key[1],
        parent_id=named.parent_id,
        name=named.name,
        start_ns=named.start_ns,
        end_ns=max(last_ns, named.start_ns),
        attributes=attributes,
        scope=semconv.SCOPE_NAME if is_own else "",
        resource=named.by.resource,
        running=_running(heartbeats),
    )


def _last_seen(reports: list[Span]) -> UnfinishedSpan:
    last = max(reports, key=lambda span: span.end_ns)
    attributes: Attributes = {str(key): last.attributes[key] for key in _FACTS if key in last.attributes}
    attributes[str(semconv.INCOMPLETE)] = True
    return UnfinishedSpan(
        trace_id=last.trace_id,
        span_id=last.parent_id,
        parent_id="",
        name=str(last.attributes.get(semconv.PROGRESS_WORK) or last.name),
        start_ns=max(last.start_ns - _ns(last.attributes.get(semconv.PROGRESS_ELAPSED)), 0),
        end_ns=last.end_ns,
        attributes=attributes,
        scope=last.scope,
        resource=last.resource,
        running=_running(_heartbeats(reports)),
    )


def _heartbeats(reports: list[Span]) -> list[Span]:
    """Without the record of the start, which saw only that."""
    return [span for span in reports if span.attributes.get(semconv.PROGRESS_NUMBER) != 0]


def _running(heartbeats: list[Span]) -> Running | None:
    """What the last of them saw, with the engine: as an attribute it would say that the whole work was about it."""
    if not heartbeats:
        return None
    last = max(heartbeats, key=lambda span: span.end_ns)
    a = last.attributes
    name, engine, elapsed = (
        a.get(key) for key in (semconv.PROGRESS_RUNNING, semconv.ENGINE_NAME, semconv.PROGRESS_RUNNING_ELAPSED)
    )
    if not isinstance(name, str) or not name or elapsed is None:
        return None
    return Running(f"{name} · {engine}" if engine else name, _ns(elapsed), last.end_ns)


def _ns(seconds: Any) -> int:
    is_number = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
    return round(seconds * 1e9) if is_number and 0 <= seconds < 2**33 else 0


def lasting(span: UnfinishedSpan, end_ns: int, finished_ns: int, *, has_unfinished: bool) -> UnfinishedSpan:
    """The span, open at least until `end_ns`, when a span inside it was.

    Args:
        span: The span.
        end_ns: The earliest end, in nanoseconds since the epoch.
        finished_ns: When the last span inside it ended.
        has_unfinished: Whether there is a span inside it that did not end. What its heartbeats saw is left out where
            that says more, or something newer.
    """
    running = span.running
    if running is not None:
        is_exact = semconv.INCOMPLETE not in span.attributes
        is_known = is_exact and (has_unfinished or running.name.partition(" · ")[0] == span.name)
        if is_known or finished_ns > running.seen_ns:
            running = None
    if running is span.running and end_ns <= span.end_ns:
        return span
    return dataclasses.replace(span, end_ns=max(span.end_ns, end_ns), running=running)
