# SPDX-License-Identifier: Apache-2.0
"""Torch-TensorRT: applies its rows once it is there. The TensorRT below it is hooked by `adapters.tensorrt`."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from functools import partial
from typing import Any

from torchspan import phase, semconv
from torchspan._base.patches import Patches
from torchspan.adapters._machinery.apply import Maker, apply_rows
from torchspan.adapters._machinery.resolve import ResolvedProbe, resolve, version_of
from torchspan.adapters._machinery.wrap import Wrapping
from torchspan.adapters.engine_runs import Execution
from torchspan.adapters.torch_tensorrt.log import wrap_log
from torchspan.adapters.torch_tensorrt.observers import wrap_observe
from torchspan.adapters.torch_tensorrt.passes import wrap_pass_manager
from torchspan.engine import Engine, Undo
from torchspan.probes import SUPPORTED, Action, Probe, parse_version
from torchspan.probes.torch_tensorrt import PROBES

LIBRARY = "torch_tensorrt"


def install(engine: Engine, *, detail: str = "stages", late: bool = False) -> Undo:
    """Hook into Torch-TensorRT, which has been imported. Returns the undo.

    detail: `stages`, or `passes`: each lowering pass is recorded, rather than told to those of the user's who listen.
    late: other modules may have taken names from the library already.
    """
    patches = Patches(LIBRARY, everywhere=late)
    engine.guard.call("hooking into Torch-TensorRT", _hook, engine, patches, detail)
    return patches.undo


def resolve_probes(probes: Iterable[Probe] = PROBES) -> list[ResolvedProbe]:
    """Every row and what became of it with the library as it is loaded now; imports and changes nothing."""
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


def _hook(engine: Engine, patches: Patches, detail: str) -> None:
    wrapping = Wrapping(engine, dict.fromkeys(phase.ENTRIES, _version_facts()))
    apply_rows(engine, patches, resolve_probes(), _makers(wrapping, records_passes=detail == "passes"))


def _makers(wrapping: Wrapping, *, records_passes: bool) -> dict[Action, Maker]:
    return {
        Action.EVENT: wrapping.event,
        Action.FACTS: wrapping.facts,
        Action.STEP: wrapping.step,
        Action.TALLY: wrapping.tally,
        Action.PASSES: partial(wrap_pass_manager, wrapping, recorded=records_passes),
        Action.MAKES: wrapping.makes,
        Action.LINES: partial(wrap_log, wrapping),
        Action.OBSERVES: partial(wrap_observe, wrapping),
        Action.EXECUTE: partial(_wrap_execution, wrapping),
    }


def _wrap_execution(wrapping: Wrapping, probe: Probe, original: Any) -> Any:
    if wrapping.engine.hot is None:
        return original
    execution = Execution(wrapping, probe, wrapping.engine.hot)
    return execution.wrap_operator(original) if probe.module == "torch.ops" else execution.wrap_module(original)


def _version_facts() -> dict[str, Any]:
    package = tensorrt_package()
    facts = {
        semconv.TORCH_VERSION: version_of(sys.modules.get("torch")),
        semconv.TORCH_TENSORRT_VERSION: version_of(sys.modules.get(LIBRARY)),
        semconv.TENSORRT_PACKAGE: package,
        semconv.TENSORRT_VERSION: version_of(sys.modules.get(package or "")),
    }
    return {key: value for key, value in facts.items() if value is not None}
