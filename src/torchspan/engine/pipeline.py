# SPDX-License-Identifier: Apache-2.0
"""Who listens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torchspan.engine.event import Event
from torchspan.phase import Phase


@dataclass(frozen=True, eq=False, slots=True)
class Callback:
    """A start and an end that run as a pair, as `at::RecordFunctionCallback` has them (ATen/record_function.h).

    What `start` returns is handed to `end`; an event whose start ran always has its end run, also when the
    callback was removed in between. `phases` empty means all.
    """

    name: str
    start: Callable[[Event], Any]
    end: Callable[[Event, Any], None]
    phases: frozenset[Phase] = frozenset()
