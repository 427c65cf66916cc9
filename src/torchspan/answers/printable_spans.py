# SPDX-License-Identifier: Apache-2.0
"""Spans whose texts can be given to a terminal: nothing in a file acts on it, and no text fills it."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Iterable, Iterator
from typing import Any

from torchspan import semconv
from torchspan.answers.lines import is_printable, printable
from torchspan.traces import Attributes, Span, SpanEvent, UnfinishedSpan

LONGEST = 4_096
"""Characters of a text that are drawn: twice what torchspan records of one, since nothing bounds those of a program."""


def printable_spans(spans: Iterable[Span]) -> Iterator[Span]:
    """The spans with their texts written out (`printable`), cut off at LONGEST, and of each message the first line alone.

    A span whose texts can be drawn as they are is the same object.
    """
    resources: dict[int, tuple[Attributes, Attributes]] = {}
    for span in spans:
        # Spans of a process share their resource: each is looked at once. It is kept alongside its copy, so that no
        # other object gets the same identity meanwhile.
        if id(span.resource) not in resources:
            resources[id(span.resource)] = (span.resource, _mapping(span.resource))
        yield _printable(span, resources[id(span.resource)][1])


def _printable(span: Span, resource: Attributes) -> Span:
    name, message, scope = _text(span.name), _first_line(span.status_message), _text(span.scope)
    attributes = _mapping(span.attributes)
    events = tuple(map(_event, span.events)) if span.events else ()
    if isinstance(span, UnfinishedSpan) and span.running is not None and not _is_text(span.running.name):
        running = dataclasses.replace(span.running, name=_text(span.running.name))
        span = dataclasses.replace(span, running=running)
    before = (span.name, span.status_message, span.scope, span.attributes, span.resource, *span.events)
    if all(map(operator.is_, (name, message, scope, attributes, resource, *events), before)):
        return span
    changed = dataclasses.replace(span, name=name, status_message=message, scope=scope)
    return dataclasses.replace(changed, attributes=attributes, events=events, resource=resource)


def _event(event: SpanEvent) -> SpanEvent:
    name, attributes = _text(event.name), event.attributes
    message = attributes.get(semconv.EXCEPTION_MESSAGE)
    if isinstance(message, str) and "\n" in message:
        attributes = {**attributes, str(semconv.EXCEPTION_MESSAGE): _first_line(message)}
    attributes = _mapping(attributes)
    if name == event.name and attributes is event.attributes:
        return event
    return dataclasses.replace(event, name=name, attributes=attributes)


def _first_line(text: str) -> str:
    if _is_text(text):
        return text
    return _text(next((line for line in text.splitlines() if line.strip()), ""))


def _text(text: str) -> str:
    if _is_text(text):
        return text
    return printable(text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…")


def _is_text(text: str) -> bool:
    return len(text) <= LONGEST and is_printable(text)


def _mapping(attributes: Attributes) -> Attributes:
    for key, value in attributes.items():  # plain loops: this looks at every value of a file
        if not _is_text(key) or not _is_value(value):
            return {_text(key): _value(value) for key, value in attributes.items()}
    return attributes


def _is_value(value: Any) -> bool:
    if isinstance(value, str):
        return _is_text(value)
    if isinstance(value, list):
        return all(map(_is_value, value))
    return not isinstance(value, dict)


def _value(value: Any) -> Any:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, list):
        return [_value(item) for item in value]
    return _mapping(value) if isinstance(value, dict) else value
