# SPDX-License-Identifier: Apache-2.0
"""The id of an engine, which is made from its bytes and is the same in every process."""

from __future__ import annotations

import hashlib
from array import array
from mmap import mmap
from typing import Any

from torchspan._base import reading

BLOCKS, BLOCK_BYTES = 64, 1024
"""The number and size of the blocks that are read of an engine, including its first and last bytes. A smaller engine is read whole."""


def engine_id(serialized: Any) -> str | None:
    """16 hexadecimal digits for a serialized engine; None for an object without bytes, or with bytes in several pieces.

    Engines have gigabytes and their ids are computed often. So the id is a digest of the length and of blocks at even distances,
    read through the buffer protocol without a copy. The time does not depend on the size. Equal ids mean equal lengths and
    blocks. Two different builds differ in their plan's first blocks or nearly everywhere. A refit of a few weights may fall
    between the blocks.

    serialized: bytes, TensorRT's IHostMemory, or another contiguous buffer of Python's or of a library's. (Since Python 3.12 a
    class may define `__buffer__`.)
    """
    if not reading.exactly(serialized, *_BUFFERS) and not reading.is_of_library(type(serialized)):
        return None
    try:
        with memoryview(serialized) as held, held.cast("B") as view:
            return _digest(view) if view.nbytes else None
    except (TypeError, ValueError, BufferError):
        return None


_BUFFERS = (bytes, bytearray, memoryview, array, mmap)


def _digest(view: memoryview) -> str:
    size = view.nbytes
    digest = hashlib.blake2b(size.to_bytes(8, "little"), digest_size=8)
    if size <= BLOCKS * BLOCK_BYTES:
        digest.update(view)
    else:
        for index in range(BLOCKS):
            start = index * (size - BLOCK_BYTES) // (BLOCKS - 1)
            digest.update(view[start : start + BLOCK_BYTES])
    return digest.hexdigest()
