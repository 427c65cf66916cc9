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


def key(given: Hashable) -> Any:
    """A key as JSON; one that is not a plain value by its digest."""
    if isinstance(given, WithheldKey):
        return {"digest": given.digest}
    try:
        return plain(given)
    except UnwritableError:
        return {"digest": digest(given)}


def read_key(given: Any) -> Hashable:
    """The key that was written. Raises ValueError, TypeError or KeyError for anything else."""
    if isinstance(given, dict) and "digest" in given:
        if not _DIGEST.fullmatch(given["digest"]):
            raise ValueError(given)
        return WithheldKey(given["digest"])
    found: Hashable = read_plain(given)
    hash(found)
    return found


def plain(given: Any) -> Any:
    """A value as JSON: numbers, strings, tuples, lists and dictionaries of them, and Python's own classes."""
    kind = type(given)
    if given is None or kind in {bool, int, str}:
        return given
    if kind in {float, complex, bytes}:
        return {kind.__name__: repr(given)}
    if kind in {list, tuple}:
        return {kind.__name__: [plain(each) for each in given]}
    if kind is dict:
        return {"dict": [[plain(name), plain(value)] for name, value in given.items()]}
    if kind is type and is_common(given):
        return {"type": name_of(given)}
    raise UnwritableError(name_of(kind))


def read_plain(given: Any) -> Any:
    """The value that was written. Raises ValueError, TypeError or KeyError for anything else."""
    if given is None or isinstance(given, (bool, int, str)):
        return given
    ((name, value),) = given.items()
    if name in {"float", "complex", "bytes"}:
        return read_text({"float": float, "complex": complex, "bytes": bytes}[name], value)
    if name in {"list", "tuple"}:
        found = [read_plain(each) for each in value]
        return found if name == "list" else tuple(found)
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
    found = complex(text) if kind is complex else ast.literal_eval(text)
    if type(found) is not kind:
        raise ValueError(text[:20])
    return found
