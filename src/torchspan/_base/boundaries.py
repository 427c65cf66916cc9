# SPDX-License-Identifier: Apache-2.0
"""What torchspan's own code raises: caught at a boundary, and logged by class and place.

It is logged at WARNING with the class of the exception and the place in torchspan. Text and traceback are logged at DEBUG, because
they may contain values of the program, and log records may be exported.
"""

# Every Python that an instrumented program starts imports this; `errors`, which observers need, takes three times as long.

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from torchspan._base import reading
from torchspan._base.logs import Log

logger = Log("torchspan")

T = TypeVar("T")

_CATCHING = (__name__, "torchspan._base.errors")
"""Modules that every exception passes, wherever it comes from."""


def log_failure(message: str, *args: Any) -> None:
    """Log the exception that is being handled, which torchspan's own code raised.

    Args:
        message, args: The consequence, as `logging` takes them. It is logged at WARNING with the class of the exception
            and the place, and at DEBUG with the text and the traceback.
    """
    error = sys.exc_info()[1]
    if error is not None:
        with contextlib.suppress(Exception):  # near the limit of recursion, this fails too
            consequence = message % args
            logger.warning("%s Cause: %s. The traceback is logged at DEBUG.", consequence, cause(error))
            logger.debug("%s", consequence, exc_info=error)


def undo_all(actions: Iterable[Callable[[], object]]) -> None:
    """Run each action, whatever the others raise. What one raises is logged, because its part stays installed."""
    for action in actions:
        try:
            action()
        except Exception:
            log_failure("A part of torchspan could not be removed. The others are.")


def cause(error: BaseException) -> str:
    """The class of an exception, and the innermost place in torchspan that it passed: `ValueError in torchspan.phase, line 3`."""
    return f"{kind_of(error)} in {_place(error)}"


def kind_of(error: BaseException) -> str:
    """The name of the class of an exception; `?` if it is not an identifier."""
    name = reading.class_name(type(error))
    return name if reading.is_identifier(name) else "?"


def _place(error: BaseException) -> str:
    place, entry = "code that torchspan calls", reading.traceback_of(error)
    while entry is not None:
        module = entry.tb_frame.f_globals.get("__name__")
        if type(module) is str and module.startswith("torchspan.") and module not in _CATCHING:
            place = f"{module}, line {entry.tb_lineno}"
        entry = entry.tb_next
    return place


class ErrorBoundary:
    """Calls torchspan's code so that none of its exceptions reaches the program. The first one is logged.

    It differs from `torchspan._base.errors.Guard` in the meaning of a failure. A `Guard` pauses an observer that keeps failing. Code
    behind a boundary fails for a reason that may pass, such as a full disk or a context that one propagator cannot write. So it is
    tried again at the next call.

    Args:
        consequence: The log message.
    """

    def __init__(self, consequence: str) -> None:
        self._consequence = consequence
        self._has_failed = False
        self.is_open = True
        """False after `close`."""

    def attempt(self, function: Callable[..., T], *args: Any) -> T | None:
        """Return what `function(*args)` returns; None if it raised an `Exception`, or after `close`."""
        if not self.is_open:
            return None
        try:
            return function(*args)
        except Exception:
            if not self._has_failed:
                self._has_failed = True
                log_failure(self._consequence)
            return None

    def close(self) -> None:
        """Call nothing from now on."""
        self.is_open = False
