# SPDX-License-Identifier: Apache-2.0
"""What another thread runs now."""

import gc
import sys


def innermost_frame(thread):
    """The innermost frame of a thread; None before its start and after its end.

    Up to Python 3.11 a collection inside `sys._current_frames` may wait for itself forever (python/cpython issue 106883).
    """
    was_collecting = gc.isenabled()
    gc.disable()
    try:
        return sys._current_frames().get(thread.ident)
    finally:
        if was_collecting:
            gc.enable()
