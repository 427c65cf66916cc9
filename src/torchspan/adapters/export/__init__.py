# SPDX-License-Identifier: Apache-2.0
"""torch.export: applies its rows once its tracer is there, which torch_tensorrt and the first export import."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from torchspan._base.patching import Patches
from torchspan.adapters._machinery.apply import Wrappers, apply_probes
from torchspan.adapters._machinery.provenance import Provenance
from torchspan.adapters._machinery.resolve import ResolvedProbe, resolve, version_of
from torchspan.adapters._machinery.wrap import WrapperFactory
from torchspan.engine import Engine, Undo
from torchspan.probes import Probe
from torchspan.probes.export import PROBES

LIBRARY = "torch.export._trace"


def install(engine: Engine, provenance: Provenance) -> Undo:
    """Hook into torch.export, whose tracer has been imported, in every module. Returns the undo."""
    patches = Patches("torch")
    engine.guard.call("hooking into torch.export", _hook, engine, provenance, patches)
    return patches.undo


def resolve_probes(probes: Iterable[Probe] = PROBES) -> list[ResolvedProbe]:
    """Every row and what became of it in the PyTorch that is loaded; imports and changes nothing."""
    version = version_of(sys.modules.get("torch")) if LIBRARY in sys.modules else None
    return [resolve(probe, version, None) for probe in probes]


def _hook(engine: Engine, provenance: Provenance, patches: Patches) -> None:
    wrappers = Wrappers(factory=WrapperFactory(engine, provenance))
    apply_probes(engine, patches, resolve_probes(), wrappers)
