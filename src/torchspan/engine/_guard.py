# SPDX-License-Identifier: Apache-2.0
"""The one place that catches what an observer raises."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any, TypeVar

logger = logging.getLogger("torchspan")

T = TypeVar("T")

FAILED: Any = object()
"""What stands for the result of an observer that has none."""

FAILURES_BEFORE_DISABLING = 3
"""An observer that failed this often is not called again: it would go on failing, and cost time."""


class Guard:
    """Calls observers so that what they raise never reaches the observed program.

    Only `Exception` is caught: KeyboardInterrupt, SystemExit and cancellation belong to the program. Each observer
    is known by a `name`; its first failure is logged with the traceback and the consequence, later ones are
    counted, and after `FAILURES_BEFORE_DISABLING` it is left out.
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
            elif count == FAILURES_BEFORE_DISABLING:
                logger.error("%s failed %d times and has been disabled.", name, count)  # noqa: TRY400 - said once
            return FAILED

    def _count_failure(self, name: str) -> int:
        with self._lock:
            self._failures[name] = self._failures.get(name, 0) + 1
            return self._failures[name]
