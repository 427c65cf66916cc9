# SPDX-License-Identifier: Apache-2.0
"""How large an attribute may be: 2 KiB, with lists counted as a whole."""

from __future__ import annotations

VALUE_LIMIT = 2048
"""Bytes of the longest attribute value, text as UTF-8 and numbers of eight bytes each."""

ENTRIES_LIMIT = VALUE_LIMIT // 8
"""Entries of the longest list, whatever their type: lists that belong together are cut to the same length."""

_MARK = "…"
_MARK_BYTES = len(_MARK.encode())


def size(text: str) -> int:
    """Bytes of the text as UTF-8. What UTF-8 cannot encode counts as `?`."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def cut(text: str, limit: int = VALUE_LIMIT) -> str:
    """The text in at most `limit` bytes of UTF-8, cut between characters. What UTF-8 cannot encode becomes `?`."""
    if text.isascii() and len(text) <= limit:
        return text
    encoded = text[: limit + 1].encode("utf-8", "replace")
    if len(encoded) <= limit:
        return encoded.decode()
    return encoded[: limit - _MARK_BYTES].decode("utf-8", "ignore") + _MARK
