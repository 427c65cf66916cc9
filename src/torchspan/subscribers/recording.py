# SPDX-License-Identifier: Apache-2.0
"""What records the calls of observed functions, and observers that fire: the bridge, while it is enabled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from torchspan._base.by_identity import ByIdentity
from torchspan.subscribers.registry import REGISTRY

Undo = Callable[[], None]


class Recorder(Protocol):
    """Makes events of what is observed. Never raises an `Exception`."""

    def begin(self, call: Any) -> Any:
        """A call begins, an `ObservedCall`. What is returned is handed to `end`."""

    def end(self, call: Any, begun: Any) -> None:
        """The call has ended."""

    def fired(self, observer: Any) -> None:
        """An observer fired that is not a part of a function's pair."""


class Recordable(Protocol):
    """An observed function, or an observer."""

    def recording_changed(self) -> None:
        """`RECORDING.recorder` is another one now."""


class Recording:
    """The recorder, if there is one. Whatever can be recorded is informed of changes, and kept by none of this."""

    def __init__(self) -> None:
        self.recorder: Recorder | None = None
        self._recordable: ByIdentity[bool] = ByIdentity()

    def add(self, recordable: Recordable) -> None:
        """Inform `recordable` now, and at each change."""
        with REGISTRY.changing():
            self._recordable[recordable] = True
            recordable.recording_changed()

    def install(self, recorder: Recorder) -> Undo:
        """Have `recorder` record from now on; the returned function ends that."""
        self._change_to(recorder)

        def undo() -> None:
            if self.recorder is recorder:
                self._change_to(None)

        return undo

    def _change_to(self, recorder: Recorder | None) -> None:
        with REGISTRY.changing():
            self.recorder = recorder
            for each in self._recordable:
                each.recording_changed()


RECORDING = Recording()
"""The process's."""
