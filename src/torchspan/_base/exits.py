# SPDX-License-Identifier: Apache-2.0
"""What runs when the program ends."""

from __future__ import annotations

import atexit
import contextlib
import threading
from collections.abc import Callable


def at_exit(function: Callable[[], None]) -> None:
    """Call `function` when the main thread has ended, and again when the last thread has ended.

    In `atexit` functions Python refuses to start threads, so an SDK that has not been imported yet does not work there, and one that
    registered later has been shut down. If the main thread has already ended, nothing can be registered with `threading`.
    """
    atexit.register(function)
    with contextlib.suppress(AttributeError, RuntimeError):
        threading._register_atexit(function)  # type: ignore[attr-defined]
