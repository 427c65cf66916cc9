# SPDX-License-Identifier: Apache-2.0
"""Finds every distinct string in files of OTLP JSON, with its place.

Nothing is left out: a string in a field that OTLP does not have is found as well. Nothing here recurses.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from torchspan.reading.traces._fields import (
    ANYWHERE,
    ATTRIBUTES,
    MESSAGES,
    OF_ATTRIBUTES,
    SCOPED,
    TEXTS,
    WITHOUT_TEXT,
    Part,
)
from torchspan.reading.traces._input import Source, every_document
from torchspan.reading.traces._otlp import UnreadableError
from torchspan.reading.traces._read import FileContent


class Place(NamedTuple):
    """The place of strings in a document.

    Attributes:
        scope: The name of the instrumentation scope; empty for a resource.
        part: The part of the document.
        key: The key of an attribute, or the field of `Part.OTHER`; otherwise empty.
    """

    scope: str
    part: Part
    key: str = ""


@dataclass
class FileStrings(FileContent):
    """The distinct strings of one or several files, by their place.

    A place without strings is an attribute that has only numbers or booleans, or a field that OTLP does not have. Times, counts,
    hexadecimal ids, and the names of OTLP's own fields are left out.

    Attributes:
        problems: The first 100 places that could not be read.
        unread: The number of places that could not be read.
        is_empty: Whether the files have no content at all.
        texts: The strings, by their place.
    """

    texts: dict[Place, set[str]] = field(default_factory=dict)


def strings(*sources: Source) -> FileStrings:
    """Find every distinct string of files.

    The files are those that `read` reads. Metrics and logs are read as well. A document with a duplicate field is a
    problem, because readers would disagree about it.

    Args:
        *sources: Paths, or files that are open in binary mode.

    Returns:
        The strings, by their place.

    Raises:
        OSError: A source cannot be opened or read, or is a device without an end.
        TypeError: A source is neither a path nor a file in binary mode.
    """
    result = FileStrings()
    for name, place, document in every_document(sources, partial(json.loads, object_pairs_hook=_mapping)):
        result.is_empty = False
        if isinstance(document, UnreadableError):
            result._add_problem(name, place, document)
            continue
        for where, text in _walk(document):
            texts = result.texts.setdefault(where, set())
            if text is not None:
                texts.add(text)
    return result


def _mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        raise UnreadableError("a field occurs twice")
    return mapping


Found = tuple[Place, str | None]
"""A string and where it stands; None for an attribute without one."""

_NUMBER = re.compile(r"-?[0-9]{1,20}|NaN|-?Infinity")
_ID = re.compile(r"(?:[0-9a-fA-F]{16}){0,2}")


def _walk(document: Any) -> Iterator[Found]:
    pending: list[tuple[Any, str, str]] = [(document, "", "")]
    while pending:
        value, within, scope = pending.pop()
        if isinstance(value, list):
            pending += [(item, within, scope) for item in value]
        elif isinstance(value, dict):
            scope = _scope_name(value) if within in SCOPED else scope
            for key, item in value.items():
                if key in MESSAGES:
                    pending.append((item, key, scope))
                else:
                    yield from _of_field(item, key, within, scope)
        else:
            yield from _others(value, within, scope)


def _scope_name(value: Mapping[str, Any]) -> str:
    scope = value.get("scope")
    name = scope.get("name") if isinstance(scope, dict) else None
    return name if isinstance(name, str) else ""


def _of_field(value: Any, name: str, within: str, scope: str) -> Iterator[Found]:
    part = TEXTS.get((within, name), ANYWHERE.get(name))
    if name in OF_ATTRIBUTES and within in ATTRIBUTES:
        yield from _attributes(value, ATTRIBUTES[within], scope)
    elif part is None:
        yield from _others(value, name, scope)
    elif part is not Part.ID or not (isinstance(value, str) and _ID.fullmatch(value)):
        yield from ((Place(scope, part), text) for text in _texts(value) if text)


def _attributes(value: Any, part: Part, scope: str) -> Iterator[Found]:
    for item in value if isinstance(value, list) else [value]:
        key = item.get("key") if isinstance(item, dict) else None
        if not isinstance(key, str):
            yield from _others(item, "attributes", scope)
            continue
        place = Place(scope, part, key)
        yield place, None
        for name, child in item.items():
            if name == "value":
                yield from ((place, text) for text in _texts(child))
            elif name != "key":
                yield from _others(child, name, scope)


_OF_NUMBERS = frozenset({"intValue", "doubleValue", "boolValue"})
_OF_VALUES = _OF_NUMBERS | {"stringValue", "bytesValue", "arrayValue", "kvlistValue", "values", "key", "value"}


def _texts(value: Any, *, is_number: bool = False) -> Iterator[str]:
    """The strings of a value, keys of its key-value lists and names of unknown fields among them.

    Args:
        value: A value of any type.
        is_number: Whether it is that of a field for numbers, which may be written as strings.
    """
    pending: list[tuple[Any, bool]] = [(value, is_number)]
    while pending:
        item, is_number = pending.pop()
        if isinstance(item, str):
            if not is_number or not _NUMBER.fullmatch(item):
                yield item
        elif isinstance(item, list):
            pending += [(child, is_number) for child in item]
        elif isinstance(item, dict):
            for key, child in item.items():
                if key not in _OF_VALUES:
                    yield key
                pending.append((child, key in _OF_NUMBERS))


def _others(value: Any, field_name: str, scope: str) -> Iterator[Found]:
    """The strings of a field that has none by OTLP's schema, and the name of the field if it is not one of OTLP's."""
    place, is_known = Place(scope, Part.OTHER, field_name), field_name in WITHOUT_TEXT
    if value is not None and field_name and not is_known:
        yield place, None
    yield from ((place, text) for text in _texts(value, is_number=is_known))
