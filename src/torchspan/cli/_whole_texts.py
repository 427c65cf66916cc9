# SPDX-License-Identifier: Apache-2.0
"""The whole texts of messages in the user's own file: shown in place of what may leave, or left out."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import IO, Any

from torchspan import semconv
from torchspan.cli._command import CommandError
from torchspan.cli._terminal import printable
from torchspan.traces import Span
from torchspan.traces._input import documents, opened
from torchspan.traces._otlp import UnreadableError

HELP = "show the whole texts of messages, if the file has them, also where the output is not a terminal"


def with_texts(spans: Iterable[Span]) -> Iterator[Span]:
    """The spans with the whole texts in place of what exporters get of them, where the file has them."""
    for span in spans:
        if not span.texts:
            yield span
            continue
        texts = {key: text for key, text in span.texts.items() if not key.startswith(semconv.EVENT_TEXTS)}
        events = tuple(
            dataclasses.replace(
                event, attributes=event.attributes | _of_event(span.texts, semconv.event_text_key(index, ""))
            )
            for index, event in enumerate(span.events)
        )
        yield dataclasses.replace(span, attributes=span.attributes | texts, events=events)


def _of_event(texts: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    return {key.removeprefix(prefix): text for key, text in texts.items() if key.startswith(prefix)}


def write_redacted(source: str, target: str) -> int:
    """Write a copy of a file of traces without the whole texts. Returns the number of places that could not be read.

    Raises CommandError if the source cannot be read, or the target exists or cannot be written.
    """
    unread = 0
    try:
        with opened(source) as original, _new(target) as file:
            for _, document in documents(original):
                if isinstance(document, UnreadableError):
                    unread += 1
                    continue
                _remove_texts(document)
                file.write(f"{json.dumps(document, separators=(',', ':'))}\n")
    except OSError as error:
        name = printable(str(error.filename or target))
        raise CommandError(
            f"cannot write {printable(target)} from {printable(source)}: {name}: {error.strerror}", 2
        ) from None
    return unread


def _new(path: str) -> IO[str]:
    """A file that did not exist, which only its owner may read."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8")


def _remove_texts(part: Any) -> None:
    """Remove, in place, each attribute whose key is that of a whole text."""
    waiting = [part]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            attributes = part.get("attributes")
            if isinstance(attributes, list):
                attributes[:] = [entry for entry in attributes if not _is_text(entry)]
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part


def _is_text(attribute: Any) -> bool:
    return isinstance(attribute, dict) and str(attribute.get("key")).startswith(semconv.LOCAL)
