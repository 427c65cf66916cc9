# SPDX-License-Identifier: Apache-2.0
"""What a bridge knows of objects: the id of an engine, its compilation, the export of a program, the network of a parser."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Mapping
from typing import Any

from torchspan.base.by_identity import ByIdentity
from torchspan.base.reading import attribute
from torchspan.engine import Event
from torchspan.hooks.probes import NAMES, Call
from torchspan.hooks.probes.describe.common import engine_id, handle_of
from torchspan.hooks.probes.describe.conversion import serialized_of
from torchspan.words.phase import COMPILE, CONVERT


class Provenance:
    """One bridge's knowledge of observed objects. It keeps no object alive and stores nothing on objects.

    ids: the ids of engines. names: facts that name engines. fresh: objects that have not run since they were made.
    """

    def __init__(self) -> None:
        self.ids = EngineIds()
        self.names: ByIdentity[Mapping[str, Any]] = ByIdentity()
        self.fresh: ByIdentity[bool] = ByIdentity()
        self._origins: ByIdentity[Any] = ByIdentity()
        self._networks: ByIdentity[weakref.ref[Any]] = ByIdentity()

    # --- what runs --------------------------------------------------------------------------------------------
    def created(self, runner: Any, call: Call, event: Event | None) -> None:
        """Record that `call`, inside `event`, has made an object that runs later."""
        if runner is None:
            return
        self.ids.set_up(runner, serialized_of(call))
        self.name(runner, None if event is None else event.nearest(CONVERT), self.names.get(call.get("self")))
        compilation = None if event is None else event.nearest(COMPILE)
        self.made_runner(runner, None if compilation is None else compilation.handle)

    def name(self, part: Any, conversion: Event | None, otherwise: Mapping[str, Any] | None = None) -> None:
        """Record what names `part`: the facts of its conversion; without one, `otherwise`."""
        attributes = {} if conversion is None else conversion.attributes
        named: dict[str, Any] = {key: attributes[key] for key in NAMES if key in attributes}
        names = named or otherwise
        if names:
            self.names[part] = names

    def made_runner(self, runner: Any, origin: Any) -> None:
        """Record that `runner` will run.

        Args:
            origin: Represents the event that made it in links; None without such an event.
        """
        self.fresh[runner] = True
        self.remember(runner, origin)

    # --- where it came from -----------------------------------------------------------------------------------
    def remember(self, part: Any, origin: Any) -> None:
        """Record that `origin` represents the event that made `part` in links."""
        if origin is not None:
            self._origins[part] = origin

    def origin(self, part: Any) -> Any:
        """The object that represents the event that made `part` in links; None if that event was not observed."""
        return self._origins.get(part)

    # --- parsers ----------------------------------------------------------------------------------------------
    def fills(self, parser: Any, network: Any) -> None:
        """Record that `parser` parses into `network`. TensorRT's parser does not expose its network."""
        with contextlib.suppress(TypeError):  # an object that cannot be referenced weakly is not TensorRT's own
            self._networks[parser] = weakref.ref(network)

    def network_of(self, parser: Any) -> Any:
        """The network that `parser` fills; None if that was not observed."""
        network = self._networks.get(parser)
        return None if network is None else network()


class EngineIds:
    """The ids of engines, by the object that runs. Nothing is stored on the object, and nothing keeps it alive.

    A refit in place makes an id stale before the new bytes can be read. From then on the engine has no id until its bytes
    result in another one, so an engine never has the id of its former bytes.
    """

    def __init__(self) -> None:
        self._ids: ByIdentity[str] = ByIdentity()
        self._stale: ByIdentity[str] = ByIdentity()

    def set_up(self, engine: Any, serialized: Any) -> None:
        """Record that `engine` was set up from these bytes. An object that cannot be referenced weakly has no id."""
        identity = engine_id(serialized)
        self._stale.pop(engine)
        if identity is None:
            self._ids.pop(engine)
        else:
            self._ids[engine] = identity

    def changing(self, handle: Any) -> None:
        """Record that TensorRT's engine `handle` is about to be changed in place."""
        for engine in self._ids:
            if handle is not None and handle_of(engine) is handle and (before := self._ids.pop(engine)) is not None:
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
