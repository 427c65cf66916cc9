# SPDX-License-Identifier: Apache-2.0
"""Runs work on another thread and waits for it."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable

NAME = "torchspan-file"
"""The thread's name."""


def aside(function: Callable[[], object]) -> None:
    """Call `function` on a new thread and wait for it.

    A signal handler of the program may run on the main thread between any two steps. If it shuts the SDK down, it waits for
    locks of the SDK and of exporters, so no frame below it may hold one. If Python refuses to start a thread, the function is
    called on the current thread.
    """
    thread = threading.Thread(target=function, name=NAME, daemon=True)
    try:
        # Without the caller's context: instrumentation that propagates contexts would propagate the caller's span.
        contextvars.Context().run(thread.start)
    except RuntimeError:
        function()
    else:
        thread.join()
