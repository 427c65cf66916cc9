# SPDX-License-Identifier: Apache-2.0
"""torch.export: applies its probes once its tracer is imported, by torch_tensorrt or by the first export."""

from __future__ import annotations

import sys

from torchspan.base.patching import Patches
from torchspan.engine import Engine, Undo
from torchspan.hooks.adapters.machinery.apply import Wrappers, apply_probes
from torchspan.hooks.adapters.machinery.provenance import Provenance
from torchspan.hooks.adapters.machinery.resolve import ResolvedProbe, resolve, version_of
from torchspan.hooks.adapters.machinery.wrap import Follow, WrapperFactory
from torchspan.hooks.probes.export import PROBES

LIBRARY = "torch.export._trace"
"""The module whose import makes the probes resolvable."""


def install(engine: Engine, provenance: Provenance, *, follow: Follow | None = None) -> Undo:
    """Hook into torch.export, whose tracer has been imported. Returns the undo.

    Args:
        follow: Receives the modules of exported programs with engines, if their calls are to be followed.
    """
    patches = Patches("torch")
    engine.at_stop(patches.undo)  # an interrupt may stop this function before it returns
    engine.guard.call("hooking into torch.export", _hook, engine, provenance, patches, follow)
    return patches.undo


def resolve_probes() -> list[ResolvedProbe]:
    """Every probe, resolved in the PyTorch that is loaded. Imports and changes nothing."""
    version = version_of(sys.modules.get("torch")) if LIBRARY in sys.modules else None
    return [resolve(probe, version, None) for probe in PROBES]


def _hook(engine: Engine, provenance: Provenance, patches: Patches, follow: Follow | None) -> None:
    wrappers = Wrappers(factory=WrapperFactory(engine, provenance, follow=follow))
    apply_probes(engine, patches, resolve_probes(), wrappers)
