# SPDX-License-Identifier: Apache-2.0
"""TensorRT and TensorRT-RTX, called by the program itself or by Torch-TensorRT."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import partial
from types import ModuleType
from typing import Any

from torchspan.base.patching import Patches
from torchspan.base.reading import is_a
from torchspan.engine import Engine, Undo
from torchspan.hooks.adapters.engine_runs import wrap_run
from torchspan.hooks.adapters.log_lines import LoggerFollower
from torchspan.hooks.adapters.machinery.apply import Wrappers, apply_probes
from torchspan.hooks.adapters.machinery.ports import Ports
from torchspan.hooks.adapters.machinery.provenance import Provenance
from torchspan.hooks.adapters.machinery.resolve import ResolvedProbe, resolve, version_of
from torchspan.hooks.adapters.machinery.wrap import BegunEvent, RecordedCalls, WrapperFactory, is_excluded
from torchspan.hooks.adapters.tensorrt.build import Builds, Parses, tap_parser
from torchspan.hooks.probes import Call, Probe, Record, Runs, Target
from torchspan.hooks.probes.tensorrt import PROBES
from torchspan.words import semconv
from torchspan.words.phase import BUILD_PHASE

PACKAGES = ("tensorrt", "tensorrt_rtx")

Hooked = set[tuple[Any, str]]
"""Holder and name of everything that is hooked. Packages may share a class, and may be imported more than once."""


def loaded() -> dict[str, ModuleType]:
    """The TensorRT packages that have been imported, by name.

    Torch-TensorRT registers a proxy as `tensorrt`, whichever package it uses. The package behind the proxy counts.
    """
    modules = (vars(sys.modules[name]).get("_target_module", sys.modules[name]) for name in PACKAGES if _is_there(name))
    return {module.__name__: module for module in modules}


def _is_there(name: str) -> bool:
    return is_a(sys.modules.get(name), ModuleType)  # None forbids an import


def resolve_probes(probes: Iterable[Probe] = PROBES) -> list[ResolvedProbe]:
    """Every probe, resolved in each package that is loaded. Imports and changes nothing."""
    packages: list[tuple[str | None, ModuleType | None]] = [*loaded().items()] or [(None, None)]
    return [resolve(probe, version_of(module), package, module) for probe in probes for package, module in packages]


def install(
    engine: Engine,
    provenance: Provenance,
    ports: Ports,
    package: str,
    *,
    hooked: Hooked,
    build_phases: bool = False,
    late: bool = False,
) -> Undo:
    """Hook into a package that has been imported. Names in `hooked` are skipped. Returns the undo.

    Args:
        hooked: The names that are hooked already. The names that are hooked now are added.
        build_phases: Chain a monitor into engine builds.
        late: Whether execution contexts may exist already.
    """
    patches = Patches(package)
    engine.at_stop(patches.undo)  # an interrupt may stop this function before it returns
    name = f"hooking into {package}"
    engine.guard.call(name, _hook, engine, provenance, ports, patches, package, hooked, build_phases, late)
    return patches.undo


def _hook(
    engine: Engine,
    provenance: Provenance,
    ports: Ports,
    patches: Patches,
    package: str,
    hooked: Hooked,
    build_phases: bool,
    late: bool,
) -> None:
    module = loaded().get(package)
    version = version_of(module)
    probes = [row for row in (resolve(row, version, package, module) for row in PROBES) if _claim(row, hooked)]
    runs = [probe for probe in probes if isinstance(probe.probe.action, Runs)]
    versions: dict[str, Any] = {semconv.TENSORRT_PACKAGE: package, semconv.TENSORRT_VERSION: version}
    factory = WrapperFactory(engine, provenance, of_roots=versions)
    loggers = LoggerFollower(factory, ports.redact, patches)
    hook_runs = _Once(lambda: apply_probes(engine, patches, runs, wrappers))
    wrappers = Wrappers(
        factory=factory,
        around={
            "build": partial(Builds.wrap, factory, loggers.follow, phases=build_phases),
            "parser": partial(Parses.wrap, factory),
            "contexts": partial(ContextCreation.wrap, factory, hook_runs),
        },
        taps={"parser:made": partial(tap_parser, factory)},
        run=partial(wrap_run, factory, ports),
    )
    apply_probes(engine, patches, [probe for probe in probes if probe not in runs], wrappers)
    if build_phases:
        engine.at_stop(engine.registry.add_source((BUILD_PHASE,)))
    if late:
        hook_runs()


def _claim(resolved: ResolvedProbe, hooked: Hooked) -> bool:
    """Whether this name is not hooked yet. From now on it counts as hooked."""
    key = (resolved.holder, resolved.name)
    if resolved.status == "resolved" and key in hooked:
        return False
    if resolved.status == "resolved":
        hooked.add(key)
    return True


class _Once:
    """Runs an action at the first call, whichever thread is first."""

    def __init__(self, action: Undo) -> None:
        self._action: Undo | None = action

    def __call__(self) -> None:
        action, self._action = self._action, None  # nothing is called in between: one thread gets it
        if action is not None:
            action()


# --- Execution contexts ---------------------------------------------------------------------------------------------
class ContextCreation(RecordedCalls):
    """`ICudaEngine.create_execution_context(...)` as an event.

    Args:
        hook_runs: Called before the first context is made. Contexts are instances of an extension type, so runs are
            hooked on the class, for all contexts. If Torch-TensorRT makes all contexts, nothing is hooked.
    """

    def __init__(
        self, factory: WrapperFactory, hook_runs: Callable[[], None], target: Target, action: Record, original: Any
    ) -> None:
        super().__init__(factory, target, action, original)
        self._hook = hook_runs

    def begin(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> BegunEvent | None:
        """See `RecordedCalls`. A context is remembered also where its creation is not an event."""
        if not self.engine.active or is_excluded(self.action.excluded_callers):
            return None
        self.engine.guard.call("hooking runs of contexts", self._hook)
        return super().begin(args, kwargs) or BegunEvent(Call(None, args, kwargs), None)

    def end(self, begun: BegunEvent, result: Any) -> None:
        """See `RecordedCalls`."""
        super().end(begun, result)
        if result is not None:
            self.factory.provenance.made_runner(result, None if begun.event is None else begun.event.handle)
