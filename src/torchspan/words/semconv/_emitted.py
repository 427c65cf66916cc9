# SPDX-License-Identifier: Apache-2.0
"""The one gate through which names and attributes leave the process.

The gate enforces what each row of the table declares about its values: for spans, events, statuses, metrics and
resources. Links have no attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache, partial
from typing import Any

from torchspan.words.redaction import UNKNOWN
from torchspan.words.redaction.bounds import ENTRIES_LIMIT, VALUE_LIMIT, size
from torchspan.words.redaction.kinds_of_text import Kind, SpanName, is_name
from torchspan.words.redaction.messages import LibraryMessage
from torchspan.words.semconv._table import Attribute

_INT_LIMIT = 2**63
"""OTLP integers have 64 bits. A larger one would make the exporter lose the whole batch."""

Reduce = Callable[[Any], Any]
"""Returns the part of a value that may leave the process; None if nothing may."""


class EmissionGate:
    """Reduces attributes and names of events to what may leave the process, by the rows of a table."""

    def __init__(self, rows: Iterable[Attribute]) -> None:
        rows = tuple(rows)
        self._reduced = {str(row): (str(row), _reduction(row, capture_text=False)) for row in rows}
        self._whole = {str(row): (str(row), _reduction(row, capture_text=True)) for row in rows}
        self._local = frozenset(str(row) for row in rows if row.kind is not None and row.kind.is_local)
        self._events = frozenset(event for row in rows for event in row.events)
        self.left_out: set[str] = set()
        """Keys without a row that were about to be emitted, at most 100. They are mistakes; the tests look for them."""

    def emitted(self, attributes: Mapping[str, Any], *, capture_text: bool = False) -> dict[str, Any]:
        """The attributes as they may leave the process, under plain keys.

        Each value is reduced by the kind that its row names. A value has at most 2 KiB; for a list, this limit applies
        to the whole list. A list becomes a tuple and keeps its length up to 256 entries. A key without a row is left
        out, and so are a value whose type is not its row's, and a message of which nothing may leave.

        Args:
            capture_text: Whether texts are kept whole.
        """
        reductions = self._whole if capture_text else self._reduced
        emitted = {}
        for key, value in attributes.items():
            reduction = reductions.get(key)
            if reduction is None:
                self._leave_out(key)
                continue
            plain_key, reduce = reduction
            reduced = reduce(value)
            if reduced is not None:
                emitted[plain_key] = reduced
        return emitted

    def whole_texts(self, attributes: Mapping[str, Any]) -> dict[str, Any]:
        """The texts of which `emitted` lets only a part through, whole, under the keys of their rows.

        Only messages, guards and texts of the program have such texts. They are for the user's own file.
        """
        texts = {}
        for key in self._local.intersection(attributes):
            value = attributes[key]
            text = self._whole[key][1](value)
            if text is not None and text != self._reduced[key][1](value):
                texts[key] = text
        return texts

    def event_name(self, name: str) -> str:
        """`name` if the table contains an event of that name; `?` otherwise."""
        return name if name in self._events else UNKNOWN

    def _leave_out(self, key: str) -> None:
        if len(self.left_out) < 100:
            self.left_out.add(str(key))


_SPAN_NAME = SpanName()


@lru_cache(maxsize=2048)
def span_name(name: str) -> str:
    """The name of a span as it may leave the process: a phase's name, followed by the target if the phase has one.

    A target is an identifier, or one of TensorRT's phrases for a build phase. Anything else is `?`.
    """
    return _SPAN_NAME.reduced(name)


def identifier(name: Any) -> str:
    """The name of something that the program made, as it may leave the process; `?` if it is not an identifier.

    Args:
        name: The object found where a name is expected, of any type. None of its methods is called.
    """
    text = name if type(name) is str else _exact(name)
    return text if text is not None and is_name(text) else UNKNOWN


# --- by the type of a row --------------------------------------------------------------------------------------
def _reduction(row: Attribute, *, capture_text: bool) -> Reduce:
    kind = row.kind
    if kind is None:
        number, is_list = _NUMBERS[row.type]
        return partial(_numbers, number) if is_list else number
    reduce = partial(_string, kind, capture_text)
    return (
        partial(_strings, kind, reduce)
        if row.type == "string[]"
        else (partial(_known, reduce) if kind.is_left_out else reduce)
    )


def _known(reduce: Reduce, value: Any) -> str | None:
    """A text; None for a message of which nothing may leave."""
    text: str | None = reduce(value)
    return None if text == UNKNOWN and type(value) is LibraryMessage else text


def _string(kind: Kind, capture_text: bool, value: Any) -> str | None:
    if type(value) is LibraryMessage:  # reduced where it was read, because the code that raised it was known there
        return kind.whole(value.whole) if capture_text else kind.of_message(value)
    text = value if type(value) is str else _exact(value)
    if text is None:
        return None
    return kind.whole(text) if capture_text else kind.reduced(text)


def _strings(kind: Kind, reduce: Reduce, value: Any) -> tuple[str, ...] | None:
    entries = _entries(value)
    if entries is None:
        return None
    redacted = tuple([UNKNOWN if text is None else text for text in map(reduce, entries)])
    if len(redacted) > 1 and sum(map(size, redacted)) > VALUE_LIMIT:
        room = VALUE_LIMIT // len(redacted)  # each is shortened, none is dropped
        return tuple([element if size(element) <= room else kind.shortened(element, room) for element in redacted])
    return redacted


def _numbers(number: Reduce, value: Any) -> tuple[Any, ...] | None:
    """All numbers, or None: leaving one out would shift the others."""
    entries = _entries(value)
    if entries is None:
        return None
    redacted = tuple(map(number, entries))
    return None if None in redacted else redacted


def _entries(value: Any) -> tuple[Any, ...] | None:
    """The first entries of a list or tuple. Methods that a subclass overrides are not called."""
    if issubclass(type(value), list):
        return tuple(list.copy(value)[:ENTRIES_LIMIT])
    return tuple(tuple.__iter__(value))[:ENTRIES_LIMIT] if issubclass(type(value), tuple) else None


def _exact(value: Any) -> str | None:
    """The text of a string of a subclass. Methods that the subclass overrides are not called."""
    return str.__str__(value) if issubclass(type(value), str) else None


def _int(value: Any) -> int | None:
    if type(value) is not int:
        if type(value) is bool or not issubclass(type(value), int):
            return None
        value = int.__int__(value)
    return value if -_INT_LIMIT <= value < _INT_LIMIT else None


def _double(value: Any) -> float | None:
    if type(value) is float:
        return value
    if issubclass(type(value), float):
        return float.__float__(value)
    whole = _int(value)
    return None if whole is None else float(whole)


def _boolean(value: Any) -> bool | None:
    return value if type(value) is bool else None


_NUMBERS: dict[str, tuple[Reduce, bool]] = {
    "int": (_int, False),
    "double": (_double, False),
    "boolean": (_boolean, False),
    "int[]": (_int, True),
    "double[]": (_double, True),
}
"""Type of a row -> the function that reduces one number, and whether the row has a list of numbers."""
