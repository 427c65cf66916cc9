# SPDX-License-Identifier: Apache-2.0
"""The recorder of calls of observed functions, and of observers that fire: the bridge, while it is enabled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from torchspan.base.by_identity import ByIdentity
from torchspan.base.errors import Guard
from torchspan.engine.subscribers.callback_registry import REGISTRY

Undo = Callable[[], None]

BEGINNING, BEING_RECORDED = "beginning an observed call", "recording observed functions"
"""The names by which the guard of the process knows the start of every observed call, and that of the recorder its part in it."""


class Recorder(Protocol):
    """Makes events of what is observed.

    guard: counts what `begin` raises, and pauses it.
    """

    guard: Guard

    def begin(self, site: Any, call: Any, resumes: bool) -> Any:
        """A call of an observed function begins. Returns what `end` receives; None if the end is not to be recorded.

        Args:
            site: The function, an `ObservableSite`. What is remembered of it can be kept in `site.recorded_as`.
            call: The call, an `Observed`.
            resumes: It is the call of a generator, whose body is left and entered again.
        """

    def end(self, begun: Any, error: BaseException | None, result: Any) -> None:
        """The call has ended: it raised `error`, or returned `result`."""

    def missed(self) -> None:
        """A call does not begin, because this thread is inside a callback, or inside what records another one."""

    def fired(self, observer: Any) -> None:
        """An observer that is not part of a function's pair has fired."""


class Recordable(Protocol):
    """An observed function, or an observer."""

    def _changed(self) -> None:
        """`RECORDING.recorder` has changed."""


class Recording:
    """The recorder, if there is one. Recordable objects are informed of changes, and are not kept alive."""

    def __init__(self) -> None:
        self.recorder: Recorder | None = None
        self._recordable: ByIdentity[bool] = ByIdentity()

    def add(self, recordable: Recordable) -> None:
        """Inform `recordable` now, and at each change."""
        with REGISTRY.changing():
            self._recordable[recordable] = True
            recordable._changed()

    def install(self, recorder: Recorder) -> Undo:
        """Have `recorder` record from now on. The returned function stops that."""
        self._change_to(recorder)

        def undo() -> None:
            if self.recorder is recorder:
                self._change_to(None)

        return undo

    def _change_to(self, recorder: Recorder | None) -> None:
        with REGISTRY.changing():
            self.recorder = recorder
            for observer in self._recordable:
                observer._changed()


RECORDING = Recording()
"""The process's."""
