# SPDX-License-Identifier: Apache-2.0
"""Fields of Protocol Buffers as bytes.

Format: https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

import functools
import struct

_64_BITS = 2**64 - 1
_VARINT, _EIGHT_BYTES, _LENGTH = 0, 1, 2
"""Wire types."""
_SHORT = tuple(bytes((number,)) for number in range(0x80))


@functools.lru_cache(maxsize=16_384)
def integer(field: int, number: int) -> bytes:
    """A field of a type int32, int64, uint64, bool or enum.

    Args:
        field: The field's number.
        number: At most 64 bits; a negative number is written as two's complement.

    Most of them are references to texts, which repeat.
    """
    return _varint(field << 3 | _VARINT) + _varint(number & _64_BITS)


def fixed(field: int, number: int) -> bytes:
    """A field of the type fixed64."""
    return _varint(field << 3 | _EIGHT_BYTES) + struct.pack("<Q", number)


def double(field: int, number: float) -> bytes:
    """A field of the type double."""
    return _varint(field << 3 | _EIGHT_BYTES) + struct.pack("<d", number)


def message(field: int, content: bytes) -> bytes:
    """A field that is a message, given its encoded fields; the field's number is below 128."""
    size = len(content)
    return _TAGS[field] + (_SHORT[size] if size < 0x80 else _varint(size)) + content


def text(field: int, content: str) -> bytes:
    """A field of the type string; a character that UTF-8 does not have becomes a question mark."""
    return message(field, content.encode("utf-8", "replace"))


def _varint(number: int) -> bytes:
    if number < 0x80:
        return _SHORT[number]
    encoded = bytearray()
    while number >= 0x80:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


_TAGS = tuple(_varint(field << 3 | _LENGTH) for field in range(128))
"""What a message begins with, by its field."""
