# SPDX-License-Identifier: Apache-2.0
"""Exceptions of observers, torchspan's own and the user's: they are caught, counted and logged (see `boundaries`)."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from torchspan._base.boundaries import kind_of, log_failure
from torchspan._base.forks import renewed

logger = logging.getLogger("torchspan")

T = TypeVar("T")

FAILED: Any = object()
"""Returned in place of an observer's result if there is none."""

FAILURES_BEFORE_DISABLING = 3
"""An observer that failed this often is not called again: it would fail again, and cost time."""

NAMES_LIMIT = 1_000
"""Names whose failures a `Guard` counts. Beyond that, the one that failed longest ago is forgotten."""

NAME_LENGTH_LIMIT = 256
"""Characters of the name of a callback, which contains the name of a function of the program."""


@dataclass(frozen=True)
class ErrorPolicy:
    """How exceptions that a callback raises are handled.

    Args:
        rethrow: Raise the exception in the observed call, after the other callbacks have run. Such a callback is never
            disabled. Meant for tests.
        disable_after: After how many failures the callback is disabled, which is logged once as an error. None: never.
        level: The logging level at which each failure is logged, with its traceback. Without a policy that is INFO, with
            a WARNING for the first failure of each callback.

    Raises:
        TypeError: A value has the wrong type.
        ValueError: `disable_after` is less than 1.
    """

    rethrow: bool = False
    disable_after: int | None = FAILURES_BEFORE_DISABLING
    level: int = logging.INFO

    def __post_init__(self) -> None:
        if not isinstance(self.rethrow, bool):
            raise TypeError(f"rethrow must be True or False, not {self.rethrow!r}")
        if not _is_int(self.level):
            name = str(self.level).upper()
            hint = f" (did you mean logging.{name}?)" if isinstance(logging.getLevelName(name), int) else ""
            raise TypeError(f"level must be an int, such as logging.INFO, not {self.level!r}{hint}")
        if self.disable_after is not None and not _is_int(self.disable_after):
            raise TypeError(f"disable_after must be an int or None, not {self.disable_after!r}")
        if self.disable_after is not None and self.disable_after < 1:
            raise ValueError(f"disable_after must be 1 or more, or None, not {self.disable_after!r}")


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


class Guard:
    """Calls torchspan's own observers so that what they raise never reaches the observed program.

    Only `Exception` is caught: KeyboardInterrupt, SystemExit and cancellation belong to the program. Each observer is known
    by a `name`. Its first failure is logged with the consequence, and later ones are counted. After
    `FAILURES_BEFORE_DISABLING` failures it is not called any more.
    """

    def __init__(self) -> None:
        self._failures: OrderedDict[str, int] = OrderedDict()
        self._lock = renewed(self, "_lock", threading.Lock)
        self.total = 0
        """How often observers failed, including those whose names are forgotten."""

    @property
    def failures(self) -> dict[str, int]:
        """How often each observer failed, by name, for the last `NAMES_LIMIT` names."""
        return dict(self._failures)

    def call(self, name: str, observer: Callable[..., T], *args: Any) -> T | None:
        """Return what `observer(*args)` returns; None if it raised or is disabled."""
        result = self.begin(name, observer, *args)
        return None if result is FAILED else result

    def begin(self, name: str, observer: Callable[..., T], *args: Any) -> T | Any:
        """Return what `observer(*args)` returns; `FAILED` if it raised or is disabled."""
        if self._failures and self._failures.get(name, 0) >= FAILURES_BEFORE_DISABLING:
            return FAILED
        return self.finish(name, observer, *args)

    def finish(self, name: str, observer: Callable[..., T], *args: Any) -> T | Any:
        """As `begin`, but also call a disabled observer: it ends what it began before."""
        try:
            return observer(*args)
        except Exception:
            count = self._count_failure(name)
            if count == 1:
                log_failure("%s failed; the program continues, with less telemetry.", name)
            _log_disabled(name, count, FAILURES_BEFORE_DISABLING)
            return FAILED

    def _count_failure(self, name: str) -> int:
        with self._lock:
            self.total += 1
            count = self._failures[name] = self._failures.pop(name, 0) + 1
            if len(self._failures) > NAMES_LIMIT:
                self._failures.popitem(last=False)
            return count


class Guarded:
    """A callback of the user, as a `CallbackGuard` knows it. Its failures are counted here, so the count is freed with the callback.

    name: for the log, cut to `NAME_LENGTH_LIMIT` characters. failures: how often it failed.
    """

    __slots__ = ("failures", "name")

    def __init__(self, name: str) -> None:
        self.name = name if len(name) <= NAME_LENGTH_LIMIT else f"{name[: NAME_LENGTH_LIMIT - 1]}…"
        self.failures = 0


class CallbackGuard:
    """Calls callbacks of the user so that what they raise reaches neither the observed call nor another callback.

    It catches what `Guard` catches. Each failure is logged at INFO with its traceback: it is the user's own code, in the
    user's own log. The first failure of a callback is logged at WARNING as well, without the exception's message. An `ErrorPolicy`
    replaces both records.
    """

    def __init__(self) -> None:
        self._lock = renewed(self, "_lock", threading.Lock)
        self.total = 0
        """How often callbacks failed."""

    def call(self, callback: Guarded, function: Callable[..., T], *args: Any) -> T | None:
        """Return what `function(*args)` returns; None if it raised or the callback is disabled."""
        result = self.begin(callback, function, *args)
        return None if result is FAILED else result

    def begin(self, callback: Guarded, function: Callable[..., T], *args: Any) -> T | Any:
        """Return what `function(*args)` returns; `FAILED` if it raised or the callback is disabled."""
        if callback.failures >= FAILURES_BEFORE_DISABLING:
            return FAILED
        return self.finish(callback, function, *args)

    def finish(self, callback: Guarded, function: Callable[..., T], *args: Any) -> T | Any:
        """As `begin`, but also call a disabled callback: it ends what it began before."""
        try:
            return function(*args)
        except Exception as error:
            count = self._count_failure(callback)
            _log_traceback(callback, logging.INFO)
            if count == 1:
                _warn_of_first(callback, function, error)
            _log_disabled(callback.name, count, FAILURES_BEFORE_DISABLING)
            return FAILED

    def call_under(
        self, policy: ErrorPolicy, callback: Guarded, function: Callable[..., Any], *args: Any
    ) -> Exception | None:
        """Call `function(*args)` under a policy of the user. Returns the exception that it raised, if that is to be rethrown."""
        limit = None if policy.rethrow else policy.disable_after
        if limit is not None and callback.failures >= limit:
            return None
        try:
            function(*args)
        except Exception as error:
            _log_traceback(callback, policy.level)
            if policy.rethrow:  # not counted: under another policy, later, it would be skipped silently
                return error
            _log_disabled(callback.name, self._count_failure(callback), limit)
        return None

    def _count_failure(self, callback: Guarded) -> int:
        with self._lock:
            self.total += 1
            callback.failures += 1
            return callback.failures


def _log_traceback(callback: Guarded, level: int) -> None:
    """Log the exception that is being handled, which a callback of the user raised."""
    logger.log(level, "%s failed; the program continues.", callback.name, exc_info=True)


def _warn_of_first(callback: Guarded, function: object, error: Exception) -> None:
    from torchspan._base import source_places  # every Python that an instrumented program starts imports this module

    place = source_places.of_failure(error, function)
    logger.warning(
        "%s failed: %s%s. The program continues. %d more failures disable it. The traceback is logged at INFO.",
        callback.name,
        kind_of(error),
        f" in {place}" if place else "",
        FAILURES_BEFORE_DISABLING - 1,
    )


def _log_disabled(name: str, count: int, limit: int | None) -> None:
    if count == limit:
        logger.error("%s failed %d times and has been disabled.", name, count)


PROCESS_GUARD = Guard()
"""Guards what torchspan does for the process and not for one engine: its hooks into Dynamo, starts and ends of ranges."""

CALLBACK_GUARD = CallbackGuard()
"""Guards the user's callbacks and observers, which live as long as the process."""
