# SPDX-License-Identifier: Apache-2.0
"""Torch-TensorRT: applies its probes once it is imported. `adapters.tensorrt` hooks the TensorRT below it."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from functools import partial
from typing import Any

from torchspan.base import dynamo_safety
from torchspan.base.patching import Patches
from torchspan.engine import Engine, Undo
from torchspan.hooks.adapters.engine_runs import wrap_run
from torchspan.hooks.adapters.log_lines import tap_log
from torchspan.hooks.adapters.machinery.apply import Wrappers, apply_probes
from torchspan.hooks.adapters.machinery.ports import Ports
from torchspan.hooks.adapters.machinery.provenance import Provenance
from torchspan.hooks.adapters.machinery.resolve import ResolvedProbe, resolve, version_of
from torchspan.hooks.adapters.machinery.wrap import Follow, WrapperFactory
from torchspan.hooks.adapters.observed_functions import Observations
from torchspan.hooks.adapters.torch_tensorrt.observers import tap_observe
from torchspan.hooks.adapters.torch_tensorrt.passes import wrap_pass_manager
from torchspan.hooks.adapters.torch_tensorrt.recompiling import tap_engine, wrap_recompilation
from torchspan.hooks.probes import SUPPORTED, Probe, parse_version
from torchspan.hooks.probes.torch_tensorrt import PROBES
from torchspan.words import phase, semconv

LIBRARY = "torch_tensorrt"


def install(
    engine: Engine,
    provenance: Provenance,
    ports: Ports,
    observations: Observations,
    *,
    detail: str = "stages",
    follow: Follow | None = None,
    late: bool = False,
) -> Undo:
    """Hook into Torch-TensorRT, which has been imported. Returns the undo.

    Args:
        detail: `stages` or `passes`. With `passes`, each lowering pass is recorded; with `stages`, passes are events
            only for user callbacks and observers.
        follow: Receives each compiled module, if calls are to be followed.
        late: Whether other modules may have imported names from the library already.
    """
    patches = Patches(LIBRARY, everywhere=late)
    engine.at_stop(patches.undo)  # an interrupt may stop this function before it returns
    engine.guard.call(
        "hooking into Torch-TensorRT", _hook, engine, provenance, ports, observations, patches, detail, follow
    )
    return patches.undo


def resolve_probes(probes: Iterable[Probe] = PROBES) -> list[ResolvedProbe]:
    """Every probe, resolved in the library as it is loaded now. Imports and changes nothing."""
    version, package = version_of(sys.modules.get(LIBRARY)), tensorrt_package()
    return [resolve(probe, version, package) for probe in probes]


def tensorrt_package() -> str | None:
    """`tensorrt` or `tensorrt_rtx`, whichever Torch-TensorRT uses; None before it is imported."""
    proxy = sys.modules.get("torch_tensorrt._TensorRTProxyModule")
    return getattr(proxy, "package_name", None) or None


def is_supported(version: str) -> bool:
    """Whether torchspan is tested with this version of Torch-TensorRT."""
    number = parse_version(version)
    return number is not None and SUPPORTED[0] <= number <= SUPPORTED[1]


def _hook(
    engine: Engine,
    provenance: Provenance,
    ports: Ports,
    observations: Observations,
    patches: Patches,
    detail: str,
    follow: Follow | None,
) -> None:
    engine.guard.call("asking whether a call is traced", dynamo_safety.torch_arrived)
    factory = WrapperFactory(engine, provenance, dict.fromkeys(phase.ENTRIES, _version_facts()), follow=follow)
    wrappers = Wrappers(
        factory=factory,
        around={
            "passes": partial(wrap_pass_manager, factory, recorded=detail == "passes"),
            "recompiling": partial(wrap_recompilation, factory),
        },
        taps={
            "engines:made": partial(tap_engine, factory),
            "log:line": partial(tap_log, factory, ports.redact),
            "observers:observe": partial(tap_observe, factory, observations),
        },
        run=partial(wrap_run, factory, ports),
    )
    apply_probes(engine, patches, resolve_probes(), wrappers)


def _version_facts() -> dict[str, Any]:
    package = tensorrt_package()
    facts = {
        semconv.TORCH_VERSION: version_of(sys.modules.get("torch")),
        semconv.TORCH_TENSORRT_VERSION: version_of(sys.modules.get(LIBRARY)),
        semconv.TENSORRT_PACKAGE: package,
        semconv.TENSORRT_VERSION: version_of(sys.modules.get(package or "")),
    }
    return {key: value for key, value in facts.items() if value is not None}
