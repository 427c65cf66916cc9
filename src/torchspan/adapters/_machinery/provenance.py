# SPDX-License-Identifier: Apache-2.0
"""Which object came from what: the compilation of an engine, the export of a program, the network of a parser."""

from __future__ import annotations

import weakref
from collections.abc import MutableMapping
from typing import Any

from torchspan.adapters._machinery.engine_ids import EngineIds
from torchspan.engine import Event, FreshObjects
from torchspan.phase import COMPILE
from torchspan.probes import Call, Creates


class Provenance:
    """What one bridge remembers of observed objects. It keeps none of them alive and stores nothing on them.

    ids: the ids of engines. fresh: objects that have not run since they were made.
    """

    def __init__(self) -> None:
        self.ids = EngineIds()
        self.fresh = FreshObjects()
        self._origins: MutableMapping[Any, Any] = weakref.WeakKeyDictionary()
        self._networks: weakref.WeakKeyDictionary[Any, weakref.ref[Any]] = weakref.WeakKeyDictionary()

    # --- what runs --------------------------------------------------------------------------------------------
    def created(self, creates: Creates, call: Call, event: Event | None) -> None:
        """`call`, inside `event`, has made an object that runs later."""
        made = creates.made(call)
        if made is None:
            return
        self.ids.made(made, creates.serialized(call))
        compilation = None if event is None else event.nearest(COMPILE)
        self.made(made, None if compilation is None else compilation.handle)

    def made(self, made: Any, origin: Any) -> None:
        """`made` will run; `origin` stands in links for the event that made it, None where there is none."""
        self.fresh.add(made)
        self.remember(made, origin)

    # --- where it came from -----------------------------------------------------------------------------------
    def remember(self, thing: Any, origin: Any) -> None:
        """`origin` stands in links for the event that made `thing`."""
        try:
            if origin is not None:
                self._origins[thing] = origin
        except TypeError:  # neither hashable nor weakly referable
            return

    def origin(self, thing: Any) -> Any:
        """What stands for the event that made `thing`; None where it was not seen."""
        try:
            return self._origins.get(thing)
        except TypeError:  # then it was not remembered either
            return None

    # --- parsers ----------------------------------------------------------------------------------------------
    def fills(self, parser: Any, network: Any) -> None:
        """`parser` parses into `network`, which TensorRT's parser does not tell."""
        self._networks[parser] = weakref.ref(network)

    def network_of(self, parser: Any) -> Any:
        """The network that `parser` fills; None where that was not seen."""
        network = self._networks.get(parser)
        return None if network is None else network()
