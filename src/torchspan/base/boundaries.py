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
from types import FrameType, TracebackType
from typing import Any, NoReturn, TypeVar

from torchspan.base import reading
from torchspan.base.logs import Log

logger = Log("torchspan")

T = TypeVar("T")

_CATCHING = (__name__, "torchspan.base.errors", "torchspan.base.dynamo_safety", "torchspan.engine.listener")
"""Modules that every exception passes, wherever it comes from."""


def log_failure(message: str, *args: Any) -> None:
    """Log the exception that is being handled, which torchspan's own code raised.

    Args:
        message, args: The consequence, as `logging` takes them. It is logged at WARNING with the class of the exception
            and the place, and at DEBUG with the text and the traceback.
    """
    error = sys.exc_info()[1]
    if error is not None:
        with OwnFailures():  # near the limit of recursion, this fails too
            consequence = message % args
            logger.warning("%s Cause: %s. The traceback is logged at DEBUG.", consequence, cause(error))
            logger.debug("%s", consequence, exc_info=error)


class Failures:
    """The failures of torchspan's own code in this process that no `Guard` counts.

    before: those until torchspan was last disabled, which the metric has. It gets the others when torchspan is enabled.
    """

    total = 0
    before = 0


def failed(message: str, *args: Any) -> None:
    """Count the exception that is being handled, and log it as `log_failure` does."""
    Failures.total += 1
    log_failure(message, *args)


def undisturbed(function: Callable[..., T], *args: Any) -> T:
    """Return what `function(*args)` returns. `torchspan.base.dynamo_safety` replaces it once Dynamo looks at each frame that begins."""
    return function(*args)


def keep_apart() -> None:
    """Call it when a wrapper has been imported late. `torchspan.base.dynamo_safety` replaces it, as above."""


def rethrow(error: BaseException) -> NoReturn:
    """Raise in the observed call what a callback of the user raised. No guard and no boundary catches it."""
    try:
        raise error
    finally:
        del error


def is_programs(error: BaseException) -> bool:
    """Whether `error`, which is being handled, belongs to the program: `rethrow` has raised it, or a signal handler, such as a timeout.

    Python calls a handler with the frame that it has interrupted.
    """
    entry = reading.traceback_of(error)
    while entry is not None:
        if entry.tb_frame.f_code is rethrow.__code__:
            return True
        interrupted, entry = entry.tb_frame, entry.tb_next
        if entry is not None:
            # Here and not in `_handles`: near the limit of recursion, each frame of torchspan's counts.
            module = entry.tb_frame.f_globals.get("__name__")
            is_own = type(module) is str and module.startswith("torchspan.")
            if not is_own and _handles(entry.tb_frame, interrupted):
                return True
    return False


_CO_VARARGS = 4
"""`inspect.CO_VARARGS`."""


def _handles(handler: FrameType, interrupted: FrameType) -> bool:
    """Whether `handler` was called with the frame `interrupted`."""
    code = handler.f_code
    count = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & _CO_VARARGS)
    given = [handler.f_locals.get(name) for name in code.co_varnames[:count]]
    return any(
        value is interrupted for argument in given for value in (argument if type(argument) is tuple else (argument,))
    )


class OwnFailures(contextlib.suppress):
    """A `with` statement that catches what torchspan's own code raises, and nothing of the program's (`is_programs`)."""

    def __init__(self) -> None:
        super().__init__(Exception)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        """See `contextlib.suppress`."""
        return super().__exit__(kind, error, traceback) and not (error is not None and is_programs(error))


def undo_all(actions: Iterable[Callable[[], object]]) -> None:
    """Run each action, whatever the others raise. One that fails or is interrupted runs once more.

    If it fails again, that is logged, because its part stays installed. An interrupt passes when all have run.
    """
    left = [(action, 2) for action in actions]
    while left:
        action, attempts = left.pop(0)
        try:
            action()
        except BaseException as error:
            if not isinstance(error, Exception) or is_programs(error):
                undo_all([action, *(action for action, _ in left)])
                raise
            if attempts == 1:
                failed("A part of torchspan could not be removed. The others are.")
            else:
                left.insert(0, (action, 1))


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

    It differs from `torchspan.base.errors.Guard` in the meaning of a failure. A `Guard` pauses an observer that keeps failing. Code
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
        return self._attempt(function, *args)

    def end(self, function: Callable[..., object], *args: Any) -> None:
        """As `attempt`, also after `close`, for what ends something: it is called once more where it failed or was interrupted."""
        has_ended = False

        def ending() -> None:
            nonlocal has_ended
            function(*args)
            has_ended = True

        try:
            self._attempt(ending)
        finally:
            if not has_ended:
                self._attempt(ending)

    def _attempt(self, function: Callable[..., T], *args: Any) -> T | None:
        try:
            return undisturbed(function, *args)
        except Exception as error:
            if is_programs(error):
                raise
            Failures.total += 1
            if not self._has_failed:
                self._has_failed = True
                log_failure(self._consequence)
            return None

    def close(self) -> None:
        """Call nothing from now on."""
        self.is_open = False
