# SPDX-License-Identifier: Apache-2.0
"""The origins of objects: the compilation of an engine, the export of a program, the network of a parser."""

from __future__ import annotations

import contextlib
import weakref
from typing import Any

from torchspan._base.by_identity import ByIdentity
from torchspan.adapters._machinery.engine_ids import EngineIds
from torchspan.engine import Event, FreshObjects
from torchspan.phase import COMPILE
from torchspan.probes import Call, Creates


class Provenance:
    """One bridge's knowledge of observed objects. It keeps no object alive and stores nothing on objects.

    ids: the ids of engines. fresh: objects that have not run since they were made.
    """

    def __init__(self) -> None:
        self.ids = EngineIds()
        self.fresh = FreshObjects()
        self._origins: ByIdentity[Any] = ByIdentity()
        self._networks: ByIdentity[weakref.ref[Any]] = ByIdentity()

    # --- what runs --------------------------------------------------------------------------------------------
    def created(self, creates: Creates, call: Call, event: Event | None) -> None:
        """Record that `call`, inside `event`, has made an object that runs later."""
        made = creates.made(call)
        if made is None:
            return
        self.ids.made(made, creates.serialized(call))
        compilation = None if event is None else event.nearest(COMPILE)
        self.made(made, None if compilation is None else compilation.handle)

    def made(self, made: Any, origin: Any) -> None:
        """Record that `made` will run. origin: represents the event that made it in links; None without such an event."""
        self.fresh.add(made)
        self.remember(made, origin)

    # --- where it came from -----------------------------------------------------------------------------------
    def remember(self, thing: Any, origin: Any) -> None:
        """Record that `origin` represents the event that made `thing` in links."""
        if origin is not None:
            self._origins[thing] = origin

    def origin(self, thing: Any) -> Any:
        """The object that represents the event that made `thing` in links; None if that event was not observed."""
        return self._origins.get(thing)

    # --- parsers ----------------------------------------------------------------------------------------------
    def fills(self, parser: Any, network: Any) -> None:
        """Record that `parser` parses into `network`. TensorRT's parser does not expose its network."""
        with contextlib.suppress(TypeError):  # an object that cannot be referenced weakly is not TensorRT's own
            self._networks[parser] = weakref.ref(network)

    def network_of(self, parser: Any) -> Any:
        """The network that `parser` fills; None if that was not observed."""
        network = self._networks.get(parser)
        return None if network is None else network()
