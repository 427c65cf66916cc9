# SPDX-License-Identifier: Apache-2.0
"""How large an attribute may be: 2 KiB, lists counted whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

VALUE_LIMIT = 2048
"""Bytes of the longest attribute value, text as UTF-8 and numbers of eight bytes each."""

ENTRIES_LIMIT = VALUE_LIMIT // 8
"""Entries of the longest list, whatever they are: lists that belong together are cut to the same length."""

_MARK = "…"
_MARK_BYTES = len(_MARK.encode())


def bounded(attributes: dict[str, Any]) -> dict[str, Any]:
    """The attributes under plain keys, with no value larger than `VALUE_LIMIT` bytes."""
    return {str(key): _bounded(value) for key, value in attributes.items()}


def _bounded(value: Any) -> Any:
    if isinstance(value, str):
        return _cut(value, VALUE_LIMIT)
    if isinstance(value, (bytes, bytearray)):
        return bytes(value[:VALUE_LIMIT])
    if not isinstance(value, Sequence):
        return value
    entries = list(value[:ENTRIES_LIMIT])
    if not any(isinstance(each, (str, bytes)) for each in entries):
        return entries
    if sum(len(_encoded(each)) for each in entries) <= VALUE_LIMIT:
        return [_cut(each, VALUE_LIMIT) for each in entries]
    room = VALUE_LIMIT // len(entries)  # each shortened, none dropped
    return [_cut(each, room) for each in entries]


def _encoded(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    return value.encode("utf-8", "replace") if isinstance(value, str) else b"8 bytes."


def _cut(value: Any, limit: int) -> Any:
    """The value in at most `limit` bytes, cut between characters; what UTF-8 cannot hold becomes `?`."""
    if isinstance(value, bytes):
        return value[:limit]
    if not isinstance(value, str):
        return value
    text = _encoded(value)
    if len(text) <= limit:
        return text.decode()
    return text[: limit - _MARK_BYTES].decode("utf-8", "ignore") + _MARK
