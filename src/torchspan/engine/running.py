# SPDX-License-Identifier: Apache-2.0
"""Which engine is at work in this process, for what a program calls by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torchspan.engine.dispatch import Engine


class Running:
    """engine: the one that the bridge has made; None before that and after its end."""

    engine: Engine | None = None

    def start(self, engine: Engine) -> None:
        """`engine` is at work until it stops."""
        self.engine = engine
        engine.at_stop(self._forget)

    def _forget(self) -> None:
        self.engine = None


RUNNING = Running()
"""There is one bridge in a process."""
