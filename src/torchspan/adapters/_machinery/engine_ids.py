# SPDX-License-Identifier: Apache-2.0
"""The ids of engines that run, for as long as they live."""

from __future__ import annotations

from typing import Any

from torchspan._base.by_identity import ByIdentity
from torchspan._base.reading import attribute, has
from torchspan.probes.describe.identity import engine_id


class EngineIds:
    """The ids of engines, by the object that runs. Nothing is stored on the object, and nothing keeps it alive.

    A refit in place makes an id stale before the new bytes can be read. From then on the engine has no id until its bytes
    result in another one, so an engine never has the id of its former bytes.
    """

    def __init__(self) -> None:
        self._ids: ByIdentity[str] = ByIdentity()
        self._stale: ByIdentity[str] = ByIdentity()

    def made(self, engine: Any, serialized: Any) -> None:
        """Record that `engine` was set up from these bytes. An object that cannot be referenced weakly has no id."""
        found = engine_id(serialized)
        self._stale.pop(engine)
        if found is None:
            self._ids.pop(engine)
        else:
            self._ids[engine] = found

    def changing(self, handle: Any) -> None:
        """Record that TensorRT's engine `handle` is about to be changed in place."""
        for engine in self._ids:
            if handle is not None and _handle(engine) is handle and (before := self._ids.pop(engine)) is not None:
                self._stale[engine] = before

    def get(self, engine: Any) -> str | None:
        """The id of the engine in its current state; None if it is not known."""
        before = self._stale.get(engine)
        if before is not None:
            now = engine_id(attribute(engine, "serialized_engine"))
            if now is None or now == before:
                return None
            self._ids[engine] = now
            self._stale.pop(engine)
        return self._ids.get(engine)


def _handle(engine: Any) -> Any:
    """TensorRT's own object: `cuda_engine` of a `TRTEngine`, `engine` of the older runtime's module."""
    return attribute(engine, "cuda_engine" if has(engine, "cuda_engine") else "engine")
