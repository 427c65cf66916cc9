# SPDX-License-Identifier: Apache-2.0
"""From rows that resolved to names that are replaced."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from torchspan.adapters._patching import Patches
from torchspan.adapters._resolve import ResolvedProbe
from torchspan.engine import Engine
from torchspan.probes import Action, Probe

logger = logging.getLogger("torchspan")

Maker = Callable[[Probe, Any], Any]
"""Given a row and the original: what takes its place."""


def apply_rows(engine: Engine, patches: Patches, rows: Iterable[ResolvedProbe], makers: Mapping[Action, Maker]) -> None:
    """Replace the target of each row that resolved and whose action has a maker; the others are one debug line each."""
    functions: list[tuple[Any, Any]] = []
    for resolved in rows:
        probe = resolved.probe
        if resolved.status != "resolved":
            reason = ", ".join(filter(None, (resolved.status, resolved.detail)))
            logger.debug("Not hooked: %s (%s)", probe.target, reason)
        elif probe.action in makers:
            maker = partial(makers[probe.action], probe)
            engine.guard.call(f"hooking {probe.target}", _replace, patches, functions, resolved, maker)
    patches.replace_functions(functions)


def _replace(
    patches: Patches, functions: list[tuple[Any, Any]], resolved: ResolvedProbe, maker: Callable[[Any], Any]
) -> None:
    """Replace a method at once; a function is added to `functions`, which are replaced together."""
    if resolved.probe.module == "torch.ops":
        # The packet and its overload hold the entry each; loaded programs call the overload.
        for holder in (resolved.holder, resolved.holder.default):
            patches.replace_attribute(holder, resolved.name, maker)
    elif len(resolved.probe.path) > 1:
        patches.replace_attribute(resolved.holder, resolved.name, maker)
    else:
        functions.append((resolved.original, maker(resolved.original)))
