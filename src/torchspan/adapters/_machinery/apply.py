# SPDX-License-Identifier: Apache-2.0
"""From rows that resolved to names that are replaced."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import ModuleType
from typing import Any, NamedTuple

from torchspan._base.patches import Patches
from torchspan.adapters._machinery.resolve import ResolvedProbe
from torchspan.engine import Engine
from torchspan.probes import Action, Probe

logger = logging.getLogger("torchspan")

Maker = Callable[[Probe, Any], Any]
"""Given a row and the original: what takes its place."""


def apply_rows(engine: Engine, patches: Patches, rows: Iterable[ResolvedProbe], makers: Mapping[Action, Maker]) -> None:
    """Replace the target of each row that resolved and whose action has a maker; the others are one debug line each."""
    functions = _Functions([], [])
    for resolved in rows:
        probe = resolved.probe
        if resolved.status != "resolved":
            reason = ", ".join(filter(None, (resolved.status, resolved.detail)))
            logger.debug("Not hooked: %s (%s)", probe.target, reason)
        elif probe.action in makers:
            maker = partial(makers[probe.action], probe)
            engine.guard.call(f"hooking {probe.target}", _replace, patches, functions, resolved, maker)
    patches.replace_functions(functions.of_library)
    patches.replace_functions(functions.of_torch, everywhere=True)


class _Functions(NamedTuple):
    """Pairs (original, wrapper) of functions, which are replaced together."""

    of_library: list[tuple[Any, Any]]
    of_torch: list[tuple[Any, Any]]


def _replace(patches: Patches, functions: _Functions, resolved: ResolvedProbe, maker: Callable[[Any], Any]) -> None:
    """Replace a method, or what a module of others holds, at once; a function is added to `functions`."""
    probe = resolved.probe
    if probe.module == "torch.ops":
        # The packet and its overload hold the entry each; loaded programs call the overload.
        for holder in (resolved.holder, resolved.holder.default):
            patches.replace_attribute(holder, resolved.name, maker)
    elif isinstance(resolved.holder, ModuleType) and len(probe.path) > 1:
        inner, name = probe.path
        patches.replace_in_module(sys.modules[probe.module], inner, name, maker)
    elif len(probe.path) > 1:
        patches.replace_attribute(resolved.holder, resolved.name, maker)
    else:
        of_torch = probe.module.partition(".")[0] == "torch"
        found = functions.of_torch if of_torch else functions.of_library
        found.append((resolved.original, maker(resolved.original)))
