# SPDX-License-Identifier: Apache-2.0
"""What each thread runs now."""

from __future__ import annotations

import gc
import sys
from operator import methodcaller
from types import FrameType
from typing import Any

_IS_SAFE = sys.version_info >= (3, 12)
_CALL: Any = methodcaller("__call__")


def current_frames() -> dict[int, FrameType]:
    """The innermost frame of each thread, by the thread's identifier, as `sys._current_frames` returns it.

    Up to Python 3.11 that function holds a lock of the interpreter while it makes objects. If that starts a garbage collection
    which frees a `threading.local`, the thread waits for itself forever (python/cpython issue 106883). So collections are disabled
    meanwhile.
    """
    if _IS_SAFE or not gc.isenabled():
        return sys._current_frames()
    try:
        # In one call of C code: no other thread runs in between, so none finds collections disabled.
        found: dict[int, FrameType] = list(map(_CALL, (gc.disable, sys._current_frames, gc.enable)))[1]
        return found
    except BaseException:
        gc.enable()
        raise
