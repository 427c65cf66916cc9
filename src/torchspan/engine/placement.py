# SPDX-License-Identifier: Apache-2.0
"""Where an event lies: what its parent is, and whether it is the current one while it is open."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from torchspan.engine.event import Event


@dataclass(frozen=True, slots=True)
class Current:
    """Below the current event, and current itself until it is closed in the same frame."""

    is_current: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class Stacked:
    """Below the current event, and current itself until it is closed in another frame of the same thread.

    By then other events may have been opened and left open: it ceases to be current only if it is still on top.
    """

    is_current: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class Detached:
    """Below the current event, but never current itself: its body is left and entered again, as that of a generator."""

    is_current: ClassVar[bool] = False


@dataclass(frozen=True, slots=True)
class Below:
    """Below `parent`, wherever that was opened, and never current itself: its source reports from any thread."""

    parent: Event
    is_current: ClassVar[bool] = False


Placement = Current | Stacked | Detached | Below

CURRENT, STACKED, DETACHED = Current(), Stacked(), Detached()
