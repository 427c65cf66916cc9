# SPDX-License-Identifier: Apache-2.0
"""Copies of files without the whole texts of messages."""

from __future__ import annotations

import json
import os
from typing import IO, Any

from torchspan.cli._command import CommandError
from torchspan.reading.answers.lines import printable
from torchspan.reading.traces._input import documents, opened
from torchspan.reading.traces._otlp import UnreadableError
from torchspan.words import semconv

HELP = "show the whole texts of messages, if the file has them, also where the output is not a terminal"


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
