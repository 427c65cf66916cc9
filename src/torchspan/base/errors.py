# SPDX-License-Identifier: Apache-2.0
"""Exceptions of observers, torchspan's own and the user's: they are caught, counted and logged (see `boundaries`)."""

from __future__ import annotations

import logging
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic  # the real one, also where a program replaces it later
from typing import Any, NamedTuple, TypeVar

from torchspan.base import boundaries
from torchspan.base.boundaries import OwnFailures, is_programs, kind_of, log_failure
from torchspan.base.forks import renewed, uncut
from torchspan.base.logs import Log

logger = Log("torchspan")

T = TypeVar("T")

FAILED: Any = object()
"""Returned in place of a callback's result if there is none."""

FAILURES_BEFORE_PAUSING = 3
"""An observer of torchspan's that failed this often in a row is paused: it would probably fail again, and cost time."""

FAILURES_BEFORE_DISABLING = 3
"""A callback of the user that failed this often is not called again, unless its `ErrorPolicy` says otherwise."""

NAMES_LIMIT = 1_000
"""Names whose failures a `Guard` counts. Beyond that, the one that failed longest ago is forgotten."""

NAME_LENGTH_LIMIT = 256
"""Characters of the name of a callback, which contains the name of a function of the program."""


FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 300.0


class Pause:
    """The pause before the next attempt at something that keeps failing, twice as long each time. Before the first `lengthen` there is none."""

    __slots__ = ("_until", "length_s")

    def __init__(self) -> None:
        self.length_s = 0.0
        """Seconds of the last pause."""
        self._until = 0.0

    def is_over(self) -> bool:
        """Whether the next attempt may be made."""
        return self.length_s == 0 or monotonic() >= self._until

    def lengthen(self) -> None:
        """An attempt has failed. A failure during a pause changes nothing."""
        if self.is_over():
            self.length_s = min(2 * self.length_s or FIRST_PAUSE_S, LONGEST_PAUSE_S)
            self._until = monotonic() + self.length_s


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
    """Calls torchspan's own code so that what it raises never reaches the observed program.

    Only `Exception` is caught: KeyboardInterrupt, SystemExit and cancellation belong to the program. So does what the policy of a
    callback rethrows, and what a signal handler raises (`is_programs`). The code is known by a `name`. Its first failure is
    logged with the consequence, and later ones are counted. After `FAILURES_BEFORE_PAUSING` failures in a row it is not called for
    a second. Each further failure doubles the pause, up to five minutes. A success ends the row. A name may stand for several
    steps, such as a start and an end: the step that failed must succeed.
    """

    def __init__(self) -> None:
        self.failing: OrderedDict[str, _Failing] = OrderedDict()
        """What has failed since its last success, by name. Mostly empty, so that a caller tests it before it asks `leaves_out`."""
        self._left_out: Counter[str] = Counter()
        self._logged: set[str] = set()
        self._lock = renewed(threading.RLock())
        self.total = 0
        """How often something failed, including what is forgotten."""

    @property
    def failures(self) -> dict[str, int]:
        """How often each name has failed since its last success, for the last `NAMES_LIMIT` names."""
        return {name: failing.failures for name, failing in list(self.failing.items())}

    @property
    def left_out(self) -> dict[str, int]:
        """How often each name was not called because of a pause, for `NAMES_LIMIT` names."""
        return dict(self._left_out)

    def call(self, name: str, function: Callable[..., T], *args: Any) -> T | None:
        """Return what `function(*args)` returns; None if it raised or is paused."""
        if self.failing and self.leaves_out(name):
            return None
        try:
            result = boundaries.undisturbed(function, *args)
        except Exception as error:
            if is_programs(error):
                raise
            self.caught(name, _step(function))
            return None
        if self.failing:
            self.worked(name, _step(function))
        return result

    def end(self, name: str, function: Callable[..., T], *args: Any) -> T | None:
        """As `call`, also during a pause, for what ends something that has begun.

        It is called once more where it failed or was interrupted, and does then what is left to do.
        """
        try:
            result = boundaries.undisturbed(function, *args)
        except BaseException as error:
            return self._end_again(name, function, args, error)
        if self.failing:
            self.worked(name, _step(function))
        return result

    def _end_again(
        self, name: str, function: Callable[..., T], args: tuple[Any, ...], error: BaseException
    ) -> T | None:
        """Do what is left to do after `error`, which is being handled. The two attempts are one failure."""
        is_failure = isinstance(error, Exception) and not is_programs(error)
        if is_failure:
            self.caught(name, _step(function))
        try:
            result = boundaries.undisturbed(function, *args)
        except Exception as again:
            if is_programs(again):
                raise
            result = None
            if not is_failure:
                self.caught(name, _step(function))
        if is_failure:
            return result
        raise error

    # --- for a caller that catches exceptions itself: a loop over listeners ----------------------------------------
    def leaves_out(self, name: str) -> bool:
        """Whether `name` is paused. Counts that it is not called."""
        failing = self.failing.get(name)
        if failing is None or failing.pause.is_over():
            return False
        with self._lock:
            if name in self._left_out or len(self._left_out) < NAMES_LIMIT:
                self._left_out[name] += 1
        return True

    def caught(self, name: str, step: object) -> None:
        """Count and log the exception that is being handled, which is not the program's (`is_programs`)."""
        with OwnFailures():  # near the limit of recursion, this fails too
            self._count_failure(name, step)

    def worked(self, name: str, step: object) -> None:
        """A step has succeeded while something is `failing`."""
        failing = self.failing.get(name)
        if failing is None or failing.step != step:
            return
        with self._lock:
            self.failing.pop(name, None)
        if failing.pause.length_s and self._is_first(f"{name} works"):
            logger.warning("%s works again, after %d calls were left out.", name, self._left_out[name])

    def _count_failure(self, name: str, step: object) -> None:
        with self._lock:
            self.total += 1
            failing = self.failing.pop(name, None) or _Failing()
            self.failing[name] = failing
            if len(self.failing) > NAMES_LIMIT:
                self.failing.popitem(last=False)
            failing.failures += 1
            failing.step = step
            is_paused = failing.failures >= FAILURES_BEFORE_PAUSING
            if is_paused:
                failing.pause.lengthen()
        # Without the lock: a log handler of the program's may wait for another thread.
        if self._is_first(f"{name} failed"):
            log_failure("%s failed; the program continues, with less telemetry.", name)
        if is_paused and self._is_first(f"{name} paused"):
            logger.error(
                "%s failed %d times in a row and is paused for %d s. It is tried again after each pause; each failure then "
                "doubles the pause, up to %d s.",
                name,
                failing.failures,
                failing.pause.length_s,
                LONGEST_PAUSE_S,
            )

    def _is_first(self, text: str) -> bool:
        with self._lock:
            if text in self._logged or len(self._logged) >= 3 * NAMES_LIMIT:
                return False
            self._logged.add(text)
            return True


class _Failing:
    """An observer that has failed since its last success: how often, in which step, and its pause."""

    __slots__ = ("failures", "pause", "step")

    def __init__(self) -> None:
        self.failures = 0
        self.step: object = None
        self.pause = Pause()


def _step(observer: object) -> object:
    return getattr(observer, "__name__", None)


class Rethrown(NamedTuple):
    """What a callback raised, and its policy wants raised in the observed call, after the other callbacks have run."""

    error: Exception


class UserCallback:
    """A callback of the user. It is called so that what it raises reaches neither the observed call nor another callback.

    It catches what `Guard` catches. Each failure is logged at INFO with its traceback: it is the user's own code, in the
    user's own log. The first failure is logged at WARNING as well, without the exception's message. An `ErrorPolicy` replaces
    both records. The failures are counted here, so that the count is freed with the callback.

    Args:
        name: For the log, cut to `NAME_LENGTH_LIMIT` characters.
    """

    __slots__ = ("failures", "name")

    total = 0
    """How often callbacks of this process failed."""

    def __init__(self, name: str) -> None:
        self.name = name if len(name) <= NAME_LENGTH_LIMIT else f"{name[: NAME_LENGTH_LIMIT - 1]}…"
        self.failures = 0

    def call(self, function: Callable[..., T], *args: Any, policy: ErrorPolicy | None = None) -> T | Any:
        """Return what `function(*args)` returns; `FAILED` if it raised or the callback is disabled. See `Rethrown`."""
        limit = _limit(policy)
        if limit is not None and self.failures >= limit:
            return FAILED
        return self.end(function, *args, policy=policy)

    def end(self, function: Callable[..., T], *args: Any, policy: ErrorPolicy | None = None) -> T | Any:
        """As `call`, also if the callback is disabled: it ends what it began before."""
        try:
            return boundaries.undisturbed(function, *args)
        except Exception as error:
            if is_programs(error):
                raise
            return self._failed(function, error, policy)

    def _failed(self, function: object, error: Exception, policy: ErrorPolicy | None) -> Any:
        level = logging.INFO if policy is None else policy.level
        logger.log(level, "%s failed; the program continues.", self.name, exc_info=True)
        if policy is not None and policy.rethrow:
            return Rethrown(error)  # not counted: under another policy, later, it would be skipped silently
        count = self._count_failure()
        if count == 1 and policy is None:
            self._warn_of_first(function, error)
        if count == _limit(policy):
            logger.error("%s failed %d times and has been disabled.", self.name, count)
        return FAILED

    def _count_failure(self) -> int:
        with _COUNTING:
            UserCallback.total += 1
            self.failures += 1
            return self.failures

    def _warn_of_first(self, function: object, error: Exception) -> None:
        with OwnFailures():  # near the limit of recursion, this fails too
            # Here, because every Python that an instrumented program starts imports this module.
            with uncut():
                from torchspan.base import source_places

            place = source_places.of_failure(error, function)
            logger.warning(
                "%s failed: %s%s. The program continues. %d more failures disable it. The traceback is logged at INFO.",
                self.name,
                kind_of(error),
                f" in {place}" if place else "",
                FAILURES_BEFORE_DISABLING - 1,
            )


_COUNTING = renewed(threading.RLock())


def _limit(policy: ErrorPolicy | None) -> int | None:
    """After how many failures a callback is disabled. None: never."""
    if policy is None:
        return FAILURES_BEFORE_DISABLING
    return None if policy.rethrow else policy.disable_after


PROCESS_GUARD = Guard()
"""Guards what torchspan does for the process and not for one engine: its hooks into Dynamo, starts and ends of ranges."""
