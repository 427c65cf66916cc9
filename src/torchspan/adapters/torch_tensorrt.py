# SPDX-License-Identifier: Apache-2.0
"""Torch-TensorRT and the TensorRT below it: applies the rows once the library is there."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable
from functools import partial
from types import ModuleType
from typing import Any, NamedTuple

from torchspan import phase, semconv
from torchspan.adapters._execute import Execution
from torchspan.adapters._log import wrap_log
from torchspan.adapters._memory import memory_callbacks
from torchspan.adapters._passes import wrap_pass_manager
from torchspan.adapters._patching import Patches
from torchspan.adapters._resolve import ResolvedProbe, resolve
from torchspan.adapters._wrap import Wrapping
from torchspan.adapters.tensorrt import wrap_build
from torchspan.engine import Engine, Undo
from torchspan.probes import PROBES, SUPPORTED, Action, Probe, parse_version

logger = logging.getLogger("torchspan")

LIBRARY = "torch_tensorrt"
DETAILS = ("stages", "passes")
"""Detail levels, each including those before it."""


def install(
    engine: Engine,
    *,
    detail: str = "stages",
    tensorrt_phases: Callable[[str | None], bool] = lambda _package: False,
    late: bool = False,
) -> Undo:
    """Hook into Torch-TensorRT, which has been imported. Returns the undo.

    detail: `stages` or `passes`.
    tensorrt_phases: given the package (`tensorrt`, `tensorrt_rtx`), whether to chain a monitor into engine builds.
    late: other modules may have taken names from the library already.
    """
    patches = Patches(LIBRARY, everywhere=late)
    engine.guard.call(
        "hooking into Torch-TensorRT", _hook, engine, patches, detail, tensorrt_phases(tensorrt_package())
    )
    return patches.undo


def resolve_probes(probes: Iterable[Probe] = PROBES) -> list[ResolvedProbe]:
    """Every row and what became of it with the libraries that are loaded now; imports and changes nothing."""
    version, package = _version(LIBRARY), tensorrt_package()
    return [resolve(probe, version, package) for probe in probes]


def tensorrt_package() -> str | None:
    """`tensorrt` or `tensorrt_rtx`, whichever Torch-TensorRT uses; None before it is imported."""
    proxy = sys.modules.get("torch_tensorrt._TensorRTProxyModule")
    return getattr(proxy, "package_name", None) or None


def _version(library: str) -> str | None:
    module = sys.modules.get(library)
    return None if module is None else str(getattr(module, "__version__", "unknown"))


def versions() -> dict[str, str]:
    """The loaded libraries that a compilation depends on, by import name."""
    names = ("torch", LIBRARY, tensorrt_package() or "tensorrt")
    found = {name: _version(name) for name in names}
    return {name: version for name, version in found.items() if version is not None}


def is_supported(version: str) -> bool:
    """Whether torchspan is tested with this version of Torch-TensorRT."""
    number = parse_version(version)
    return number is not None and SUPPORTED[0] <= number <= SUPPORTED[1]


class Functions(NamedTuple):
    """Pairs (original, wrapper) of functions, which are replaced together."""

    of_library: list[tuple[Any, Any]]
    of_torch: list[tuple[Any, Any]]


def _hook(engine: Engine, patches: Patches, detail: str, phases: bool) -> None:
    for callback in memory_callbacks():
        engine.register(callback)
    wrapping = Wrapping(engine, dict.fromkeys(phase.ENTRIES, _version_facts()))
    makers = _makers(wrapping, tensorrt_phases=phases)
    functions = Functions([], [])
    for resolved in resolve_probes():
        probe = resolved.probe
        if resolved.status != "resolved":
            logger.debug(
                "Not hooked: %s (%s)", probe.target, ", ".join(filter(None, (resolved.status, resolved.detail)))
            )
        elif DETAILS.index(probe.detail) <= DETAILS.index(detail) and probe.action in makers:
            maker = partial(makers[probe.action], probe)
            engine.guard.call(f"hooking {probe.target}", _replace, patches, functions, resolved, maker)
    patches.replace_functions(functions.of_library)
    patches.replace_functions(functions.of_torch, everywhere=True)


Maker = Callable[[Probe, Any], Any]


def _makers(wrapping: Wrapping, *, tensorrt_phases: bool) -> dict[Action, Maker]:
    return {
        Action.EVENT: wrapping.event,
        Action.FACTS: wrapping.facts,
        Action.STEP: wrapping.step,
        Action.TALLY: wrapping.tally,
        Action.PASSES: partial(wrap_pass_manager, wrapping),
        Action.BUILD: partial(wrap_build, wrapping, phases=tensorrt_phases),
        Action.MAKES: wrapping.makes,
        Action.LINES: partial(wrap_log, wrapping),
        Action.EXECUTE: partial(_wrap_execution, wrapping),
    }


def _wrap_execution(wrapping: Wrapping, probe: Probe, original: Any) -> Any:
    if wrapping.engine.hot is None:
        return original
    execution = Execution(wrapping, probe, wrapping.engine.hot)
    return execution.wrap_operator(original) if probe.module == "torch.ops" else execution.wrap_module(original)


def _replace(patches: Patches, functions: Functions, resolved: ResolvedProbe, maker: Callable[[Any], Any]) -> None:
    """Replace a method, or what a module of others holds, at once; a function is added to `functions`, which are replaced together."""
    if resolved.probe.module == "torch.ops":
        # The packet and its overload hold the entry each; loaded programs call the overload.
        for holder in (resolved.holder, resolved.holder.default):
            patches.replace_attribute(holder, resolved.name, maker)
    elif isinstance(resolved.holder, ModuleType) and len(resolved.probe.path) > 1:
        inner, name = resolved.probe.path
        patches.replace_in_module(sys.modules[resolved.probe.module], inner, name, maker)
    elif len(resolved.probe.path) > 1:
        patches.replace_attribute(resolved.holder, resolved.name, maker)
    else:
        of_library = resolved.probe.module.partition(".")[0] == LIBRARY
        found = functions.of_library if of_library else functions.of_torch
        found.append((resolved.original, maker(resolved.original)))


def _version_facts() -> dict[str, Any]:
    package = tensorrt_package()
    facts = {
        semconv.TORCH_VERSION: _version("torch"),
        semconv.TORCH_TENSORRT_VERSION: _version(LIBRARY),
        semconv.TENSORRT_PACKAGE: package,
        semconv.TENSORRT_VERSION: None if package is None else _version(package),
    }
    return {key: value for key, value in facts.items() if value is not None}


__all__ = ["DETAILS", "install", "is_supported", "resolve_probes", "tensorrt_package", "versions"]
