# SPDX-License-Identifier: Apache-2.0
"""Which object came from what: the compilation of an engine, the export of a program, the network of a parser."""

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
    """What one bridge remembers of observed objects. It keeps none of them alive and stores nothing on them.

    ids: the ids of engines. fresh: objects that have not run since they were made.
    """

    def __init__(self) -> None:
        self.ids = EngineIds()
        self.fresh = FreshObjects()
        self._origins: ByIdentity[Any] = ByIdentity()
        self._networks: ByIdentity[weakref.ref[Any]] = ByIdentity()

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
        if origin is not None:
            self._origins[thing] = origin

    def origin(self, thing: Any) -> Any:
        """What stands for the event that made `thing`; None where it was not seen."""
        return self._origins.get(thing)

    # --- parsers ----------------------------------------------------------------------------------------------
    def fills(self, parser: Any, network: Any) -> None:
        """`parser` parses into `network`, which TensorRT's parser does not tell."""
        with contextlib.suppress(TypeError):  # not TensorRT's own, if it cannot be referred to weakly
            self._networks[parser] = weakref.ref(network)

    def network_of(self, parser: Any) -> Any:
        """The network that `parser` fills; None where that was not seen."""
        network = self._networks.get(parser)
        return None if network is None else network()
