# SPDX-License-Identifier: Apache-2.0
"""torch.export: applies its rows once its tracer is there, which torch_tensorrt and the first export import.

What drafts an export is in a module of its own, which the first draft imports.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

from torchspan._base.patching import Patches
from torchspan.adapters._machinery.apply import Wrappers, apply_probes
from torchspan.adapters._machinery.provenance import Provenance
from torchspan.adapters._machinery.resolve import ResolvedProbe, resolve, version_of
from torchspan.adapters._machinery.wrap import Follow, WrapperFactory
from torchspan.engine import Engine, Undo
from torchspan.probes import Probe
from torchspan.probes.export import PROBES

_TRACER, _DRAFTS = LIBRARIES = ("torch.export._trace", "torch.export._draft_export")
"""The modules with which rows arrive."""


def install(engine: Engine, provenance: Provenance, library: str, *, follow: Follow | None = None) -> Undo:
    """Hook into the part of torch.export that came with `library`, which has been imported. Returns the undo.

    follow: receives modules of programs with engines, if their calls are to be followed.
    """
    patches = Patches("torch")
    engine.guard.call("hooking into torch.export", _hook, engine, provenance, patches, library, follow)
    return patches.undo


def resolve_probes(probes: Iterable[Probe] = PROBES) -> list[ResolvedProbe]:
    """Every row and what happened to it in the PyTorch that is loaded; imports and changes nothing."""
    version = version_of(sys.modules.get("torch"))
    return [resolve(probe, version if _arrives_with(probe) in sys.modules else None, None) for probe in probes]


def _hook(engine: Engine, provenance: Provenance, patches: Patches, library: str, follow: Follow | None) -> None:
    wrappers = Wrappers(factory=WrapperFactory(engine, provenance, follow=follow))
    arrived = [probe for probe in PROBES if _arrives_with(probe) == library]
    apply_probes(engine, patches, resolve_probes(arrived), wrappers)


def _arrives_with(probe: Probe) -> str:
    return _DRAFTS if probe.target.module == _DRAFTS else _TRACER
