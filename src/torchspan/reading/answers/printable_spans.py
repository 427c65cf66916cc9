# SPDX-License-Identifier: Apache-2.0
"""Spans whose texts can be given to a terminal: nothing in a file acts on it, and no text fills it."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from torchspan.reading.answers.lines import is_printable, printable
from torchspan.reading.traces import Attributes, Span, SpanEvent, UnfinishedSpan
from torchspan.words import semconv

LONGEST = 4_096
"""Characters of a text that are drawn: twice what torchspan records of one, since nothing bounds those of a program."""


def printable_spans(spans: Iterable[Span], encoding: str = "utf-8") -> Iterator[Span]:
    """The spans with their texts written out (`printable`), cut off at LONGEST, and of each message the first line alone.

    A span whose texts can be drawn as they are is the same object.

    Args:
        encoding: That of what is drawn.
    """
    write = _PrintableTexts(encoding)
    resources: dict[int, tuple[Attributes, Attributes]] = {}
    for span in spans:
        # Spans of a process share their resource: each is looked at once. It is kept alongside its copy, so that no
        # other object gets the same identity meanwhile.
        if id(span.resource) not in resources:
            resources[id(span.resource)] = (span.resource, write.mapping(span.resource))
        yield write.span(span, resources[id(span.resource)][1])


@dataclass(frozen=True)
class _PrintableTexts:
    """Writes out texts for an encoding."""

    encoding: str

    def span(self, span: Span, resource: Attributes) -> Span:
        name, message, scope = self.text(span.name), self.first_line(span.status_message), self.text(span.scope)
        attributes = self.mapping(span.attributes)
        events = tuple(map(self.event, span.events)) if span.events else ()
        if isinstance(span, UnfinishedSpan) and span.running is not None and not self.is_text(span.running.name):
            running = dataclasses.replace(span.running, name=self.text(span.running.name))
            span = dataclasses.replace(span, running=running)
        before = (span.name, span.status_message, span.scope, span.attributes, span.resource, *span.events)
        if all(map(operator.is_, (name, message, scope, attributes, resource, *events), before)):
            return span
        changed = dataclasses.replace(span, name=name, status_message=message, scope=scope)
        return dataclasses.replace(changed, attributes=attributes, events=events, resource=resource)

    def event(self, event: SpanEvent) -> SpanEvent:
        name, attributes = self.text(event.name), event.attributes
        message = attributes.get(semconv.EXCEPTION_MESSAGE)
        if isinstance(message, str) and "\n" in message:
            attributes = {**attributes, str(semconv.EXCEPTION_MESSAGE): self.first_line(message)}
        attributes = self.mapping(attributes)
        if name == event.name and attributes is event.attributes:
            return event
        return dataclasses.replace(event, name=name, attributes=attributes)

    def first_line(self, text: str) -> str:
        if self.is_text(text):
            return text
        return self.text(next((line for line in text.splitlines() if line.strip()), ""))

    def text(self, text: str) -> str:
        if self.is_text(text):
            return text
        return printable(text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…", self.encoding)

    def is_text(self, text: str) -> bool:
        return len(text) <= LONGEST and is_printable(text, self.encoding)

    def mapping(self, attributes: Attributes) -> Attributes:
        written = {self.text(key): self.value(value) for key, value in attributes.items()}
        return attributes if written == attributes else written

    def value(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.value(item) for item in value]
        return self.mapping(value) if isinstance(value, dict) else value
