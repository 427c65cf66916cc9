# SPDX-License-Identifier: Apache-2.0
"""The one place that catches what an observer raises."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

logger = logging.getLogger("torchspan")

T = TypeVar("T")

FAILED: Any = object()
"""What stands for the result of an observer that has none."""

FAILURES_BEFORE_DISABLING = 3
"""An observer that failed this often is not called again: it would go on failing, and cost time."""


@dataclass(frozen=True)
class ErrorPolicy:
    """What becomes of an exception that a callback raises.

    rethrow: it comes out of the observed call, once the other callbacks have run; such a callback is never left out. For
    tests. disable_after: after how many failures the callback is left out, which is logged once as an error; None: never.
    level: at which level of logging each failure is logged, with its traceback. Raises TypeError for a value of another
    type, ValueError for a number of failures below 1.
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
            raise TypeError(f"level must be an int, a level of logging, not {self.level!r}{hint}")
        if self.disable_after is not None and not _is_int(self.disable_after):
            raise TypeError(f"disable_after must be an int or None, not {self.disable_after!r}")
        if self.disable_after is not None and self.disable_after < 1:
            raise ValueError(f"disable_after is a number of failures, at least 1, or None: not {self.disable_after!r}")


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


class ErrorBoundary:
    """Calls torchspan's code so that no exception of it reaches the program. The first one is logged.

    It differs from `Guard` in what a failure means. A `Guard` disables an observer that keeps failing. What a boundary
    calls fails for a reason that may pass, such as a full disk or a context that one propagator cannot write: it is tried
    again at the next call.

    consequence: the log message.
    """

    def __init__(self, consequence: str) -> None:
        self._consequence = consequence
        self._has_failed = False
        self.is_open = True
        """False after `close`."""

    def attempt(self, function: Callable[..., T], *args: Any) -> T | None:
        """Return what `function(*args)` returns; None when it raised an `Exception`, or after `close`."""
        if not self.is_open:
            return None
        try:
            return function(*args)
        except Exception:
            if not self._has_failed:
                self._has_failed = True
                logger.exception(self._consequence)
            return None

    def close(self) -> None:
        """Call nothing from now on."""
        self.is_open = False


class Guard:
    """Calls observers so that what they raise never reaches the observed program.

    Only `Exception` is caught: KeyboardInterrupt, SystemExit and cancellation belong to the program. Each observer
    is known by a `name`; its first failure is logged with the traceback and the consequence, later ones are
    counted, and after `FAILURES_BEFORE_DISABLING` it is left out. An `ErrorPolicy` says otherwise for one call.
    """

    def __init__(self) -> None:
        self._failures: dict[str, int] = {}
        self._lock = threading.Lock()

    @property
    def failures(self) -> dict[str, int]:
        """How often each observer failed, by name."""
        return dict(self._failures)

    def call(self, name: str, observer: Callable[..., T], *args: Any) -> T | None:
        """What `observer(*args)` returns; None when it raised or is disabled."""
        result = self.begin(name, observer, *args)
        return None if result is FAILED else result

    def begin(self, name: str, observer: Callable[..., T], *args: Any) -> T | Any:
        """What `observer(*args)` returns; `FAILED` when it raised or is disabled."""
        if self._failures and self._failures.get(name, 0) >= FAILURES_BEFORE_DISABLING:
            return FAILED
        return self.finish(name, observer, *args)

    def finish(self, name: str, observer: Callable[..., T], *args: Any) -> T | Any:
        """As `begin`, also where the observer is disabled: the end of what it began before."""
        try:
            return observer(*args)
        except Exception:
            count = self._count_failure(name)
            if count == 1:
                logger.exception("%s failed; the program goes on, with less telemetry.", name)
            self._tell_disabled(name, count, FAILURES_BEFORE_DISABLING)
            return FAILED

    def call_under(self, policy: ErrorPolicy, name: str, observer: Callable[..., Any], *args: Any) -> Exception | None:
        """Call `observer(*args)` under a policy of its own. Returns what it raised, if the policy wants that raised again."""
        limit = None if policy.rethrow else policy.disable_after
        if limit is not None and self._failures.get(name, 0) >= limit:
            return None
        try:
            observer(*args)
        except Exception as error:
            logger.log(policy.level, "%s failed; the program goes on.", name, exc_info=True)
            if policy.rethrow:  # not counted: under another policy, later, it would be left out without a word
                return error
            self._tell_disabled(name, self._count_failure(name), limit)
        return None

    def _count_failure(self, name: str) -> int:
        with self._lock:
            self._failures[name] = self._failures.get(name, 0) + 1
            return self._failures[name]

    @staticmethod
    def _tell_disabled(name: str, count: int, limit: int | None) -> None:
        if count == limit:
            logger.error("%s failed %d times and has been disabled.", name, count)


PROCESS_GUARD = Guard()
"""Guards what belongs to the process and not to one engine: user callbacks, observers, and the care taken of Dynamo."""
