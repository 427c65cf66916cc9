# SPDX-License-Identifier: Apache-2.0
"""The running engine of this process, for functions that the program itself calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torchspan.engine.dispatch import Engine


class Running:
    """engine: the one that the bridge has made. None before that, and after its end."""

    engine: Engine | None = None

    def start(self, engine: Engine) -> None:
        """Make `engine` the running one, until it stops."""
        self.engine = engine
        engine.at_stop(self._forget)

    def _forget(self) -> None:
        self.engine = None


RUNNING = Running()
"""There is one bridge in a process."""
