# SPDX-License-Identifier: Apache-2.0
"""Which engine it is: an id made of its bytes, in every process the same."""

from __future__ import annotations

import hashlib
from array import array
from mmap import mmap
from typing import Any

from torchspan._base import reading

BLOCKS, BLOCK_BYTES = 64, 1024
"""What is read of an engine: this many blocks, the first and the last bytes among them. A smaller one is read whole."""


def engine_id(serialized: Any) -> str | None:
    """16 hexadecimal digits for a serialized engine; None for what has no bytes, or not in one piece.

    Engines have gigabytes and are looked at often, so the id is a digest of the length and of blocks at even distances,
    read through the buffer protocol without a copy: the time does not depend on the size. Equal ids mean
    equal lengths and blocks. Two builds that differ differ in their plan's first blocks or nearly everywhere; a refit of a
    few weights may fall between the blocks.

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
