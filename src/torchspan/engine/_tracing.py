# SPDX-License-Identifier: Apache-2.0
"""What has to be known of a tracer that reads our code instead of running it.

The engine knows no such tracer. `adapters/dynamo.py` puts functions here once torch is imported; who calls them looks them
up at each call, so that what was decorated before is safe as well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def _never() -> bool:
    return False


def _nothing_is(_values: tuple[Any, ...]) -> bool:
    return False


def _call(function: Callable[..., Any], *args: Any) -> Any:
    return function(*args)


is_tracing: Callable[[], bool] = _never
"""Whether this very code is being read by a tracer, which folds the answer: where True, nothing of ours may happen."""

is_symbolic: Callable[[tuple[Any, ...]], bool] = _nothing_is
"""Whether a call with these values is run for a tracer alone, with stand-ins for data: then it is no event."""

undisturbed: Callable[..., Any] = _call
"""`undisturbed(function, *args)` calls it so that no tracer reads what runs inside: our bookkeeping, and callbacks."""
