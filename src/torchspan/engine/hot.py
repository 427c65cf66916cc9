# SPDX-License-Identifier: Apache-2.0
"""Hot paths: work that happens thousands of times a second."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable
from typing import Any, Protocol

from torchspan.phase import Phase

Observe = Callable[[tuple[Any, ...], dict[str, Any]], Any]
"""Given the arguments of a call: makes the call, and an event of it where that is due."""

Switch = Callable[[Callable[[Any, Any], Any] | None], None]
"""Given what to call for a run that nobody wants an event of; None has every run pass, for good."""


class HotPath(Protocol):
    """What the privileged listener knows that decides about frequent events."""

    def is_wanted(self) -> bool:
        """Whether an event would be recorded where we are."""

    def closure(
        self, original: Callable[[Any, Any], Any], observe: Observe, fresh: Collection[Any]
    ) -> tuple[Callable[[Any, Any], Any], Switch]:
        """A pair: a function of two arguments that stands for `original`, and its switch.

        The first calls `original` at once, unless an event is wanted or `fresh` holds anything: then `observe`.
        The switch puts something else in the place of `original` there.
        """

    def trace(self) -> Hashable | None:
        """What identifies the surrounding trace if an event would be recorded in it, else None."""

    def count(self, duration_s: float, phase: Phase) -> None:
        """Count a run of that many seconds where it belongs, without an event of that phase."""
