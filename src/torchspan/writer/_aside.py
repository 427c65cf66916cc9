# SPDX-License-Identifier: Apache-2.0
"""Work on another thread that is waited for."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable

NAME = "torchspan-file"
"""Of the thread."""


def aside(function: Callable[[], object]) -> None:
    """Call `function` on a thread of its own and wait for it.

    A signal handler of the program's runs on the main thread, between any two steps there. Where it shuts the SDK down, it
    waits for locks of the SDK and of exporters, so that no frame below it may hold one. Where Python refuses new threads the
    function is called here.
    """
    thread = threading.Thread(target=function, name=NAME, daemon=True)
    try:
        # Without the caller's context: instrumentation that hands contexts down would hand down its span.
        contextvars.Context().run(thread.start)
    except RuntimeError:
        function()
    else:
        thread.join()
