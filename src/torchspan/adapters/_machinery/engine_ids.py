# SPDX-License-Identifier: Apache-2.0
"""Which id an engine that runs has, for as long as it lives."""

from __future__ import annotations

import weakref
from typing import Any

from torchspan.probes.describe.identity import engine_id


class EngineIds:
    """The ids of engines by the object that runs; nothing is stored on it, and nothing keeps it alive.

    A refit in place makes an id stale before the new bytes are there to be read. From then on the engine has none
    until its bytes have another one, so that no id is ever that of what the engine was before.
    """

    def __init__(self) -> None:
        self._ids: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self._stale: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()

    def made(self, engine: Any, serialized: Any) -> None:
        """`engine` was set up from these bytes. An object that cannot be remembered has no id."""
        found = engine_id(serialized)
        try:
            self._stale.pop(engine, None)
            if found is None:
                self._ids.pop(engine, None)
            else:
                self._ids[engine] = found
        except TypeError:  # neither hashable nor weakly referable
            return

    def changing(self, handle: Any) -> None:
        """TensorRT's engine `handle` is about to be changed in place."""
        for engine in list(self._ids):
            if handle is not None and _handle(engine) is handle:
                self._stale[engine] = self._ids.pop(engine)

    def get(self, engine: Any) -> str | None:
        """The id of the engine as it is now; None where that is not known."""
        try:
            before = self._stale.get(engine)
            if before is not None:
                now = engine_id(getattr(engine, "serialized_engine", None))
                if now is None or now == before:
                    return None
                self._ids[engine] = now
                del self._stale[engine]
            return self._ids.get(engine)
        except (TypeError, KeyError):  # not remembered; another thread came first
            return None


def _handle(engine: Any) -> Any:
    """TensorRT's own object: `TRTEngine` calls it `cuda_engine`, the older runtime's module `engine`."""
    return getattr(engine, "cuda_engine" if hasattr(engine, "cuda_engine") else "engine", None)
