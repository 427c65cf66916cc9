# SPDX-License-Identifier: Apache-2.0
"""Plain values of Python as JSON and back, with their classes: keys of containers, and what pytree needs to build an object."""

from __future__ import annotations

import ast
import re
from collections.abc import Hashable
from typing import Any

from torchspan.inputs.written.hidden_values import DIGITS, WithheldKey, digest
from torchspan.inputs.written.portable import class_named, is_common, name_of

LONGEST = 1 << 16
"""Characters of the longest literal that is read."""

_DIGEST = re.compile(f"[0-9a-f]{{{DIGITS}}}")
_NUMBERS = {"inf": float("inf"), "-inf": float("-inf"), "nan": float("nan")}


class UnwritableError(Exception):
    """The value has an object in it that cannot be written."""


def key(hashable: Hashable) -> Any:
    """A key as JSON; one that is not a plain value by its digest."""
    if isinstance(hashable, WithheldKey):
        return {"digest": hashable.digest}
    try:
        return plain(hashable)
    except UnwritableError:
        return {"digest": digest(hashable)}


def read_key(document: Any) -> Hashable:
    """The key that was written. Raises ValueError, TypeError or KeyError for anything else."""
    if isinstance(document, dict) and "digest" in document:
        if not _DIGEST.fullmatch(document["digest"]):
            raise ValueError(document)
        return WithheldKey(document["digest"])
    key: Hashable = read_plain(document)
    hash(key)
    return key


def plain(hashable: Any) -> Any:
    """A value as JSON: numbers, strings, tuples, lists and dictionaries of them, and Python's own classes."""
    kind = type(hashable)
    if hashable is None or kind in {bool, int, str}:
        return hashable
    if kind in {float, complex, bytes}:
        return {kind.__name__: repr(hashable)}
    if kind in {list, tuple}:
        return {kind.__name__: [plain(element) for element in hashable]}
    if kind is dict:
        return {"dict": [[plain(name), plain(value)] for name, value in hashable.items()]}
    if kind is type and is_common(hashable):
        return {"type": name_of(hashable)}
    raise UnwritableError(name_of(kind))


def read_plain(document: Any) -> Any:
    """The value that was written. Raises ValueError, TypeError or KeyError for anything else."""
    if document is None or isinstance(document, (bool, int, str)):
        return document
    ((name, value),) = document.items()
    if name in {"float", "complex", "bytes"}:
        return read_text({"float": float, "complex": complex, "bytes": bytes}[name], value)
    if name in {"list", "tuple"}:
        elements = [read_plain(element) for element in value]
        return elements if name == "list" else tuple(elements)
    if name == "dict":
        return {read_plain(one): read_plain(other) for one, other in value}
    if name == "type" and is_common(class_named(value)):
        return class_named(value)
    raise ValueError(name)


def read_text(kind: type, text: str) -> Any:
    """The value of a class of Python's with this `repr`. Raises ValueError, SyntaxError or MemoryError for any other text."""
    if len(text) > LONGEST:
        raise ValueError(text[:20])
    if kind is float and text in _NUMBERS:
        return _NUMBERS[text]
    number = complex(text) if kind is complex else ast.literal_eval(text)
    if type(number) is not kind:
        raise ValueError(text[:20])
    return number
