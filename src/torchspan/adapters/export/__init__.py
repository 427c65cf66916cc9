# SPDX-License-Identifier: Apache-2.0
"""torch.export: applies its probes once its tracer is imported, by torch_tensorrt or by the first export.

Draft exports have a separate module, which the first draft imports.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

from torchspan._base.errors import guarded
from torchspan._base.patching import Patches
from torchspan.adapters.machinery.apply import Wrappers, apply_probes
from torchspan.adapters.machinery.provenance import Provenance
from torchspan.adapters.machinery.resolve import ResolvedProbe, resolve, version_of
from torchspan.adapters.machinery.wrap import Follow, WrapperFactory
from torchspan.engine import Engine, Undo
from torchspan.probes import Probe
from torchspan.probes.export import PROBES

_TRACER, _DRAFTS = LIBRARIES = ("torch.export._trace", "torch.export._draft_export")
"""The modules whose import makes probes resolvable."""


def install(engine: Engine, provenance: Provenance, library: str, *, follow: Follow | None = None) -> Undo:
    """Hook into the part of torch.export that `library` defines, which has been imported. Returns the undo.

    Args:
        follow: Receives the modules of exported programs with engines, if their calls are to be followed.
    """
    patches = Patches("torch")
    _hook(engine, provenance, patches, library, follow)
    return patches.undo


def resolve_probes(probes: Iterable[Probe] = PROBES) -> list[ResolvedProbe]:
    """Every probe, resolved in the PyTorch that is loaded. Imports and changes nothing."""
    version = version_of(sys.modules.get("torch"))
    return [resolve(probe, version if _arrives_with(probe) in sys.modules else None, None) for probe in probes]


@guarded("hooking into torch.export", "guard")
def _hook(engine: Engine, provenance: Provenance, patches: Patches, library: str, follow: Follow | None) -> None:
    wrappers = Wrappers(factory=WrapperFactory(engine, provenance, follow=follow))
    arrived = [probe for probe in PROBES if _arrives_with(probe) == library]
    apply_probes(engine, patches, resolve_probes(arrived), wrappers)


def _arrives_with(probe: Probe) -> str:
    return _DRAFTS if probe.target.module == _DRAFTS else _TRACER
