# SPDX-License-Identifier: Apache-2.0
"""Replaces the targets of probes that resolved."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from torchspan.base.logs import Log
from torchspan.base.patching import Patches, in_use
from torchspan.engine import Engine
from torchspan.hooks.adapters.machinery.resolve import ResolvedProbe
from torchspan.hooks.adapters.machinery.wrap import WrapperFactory
from torchspan.hooks.probes import (
    Annotate,
    CustomOperator,
    Function,
    InnerName,
    Lock,
    Method,
    Probe,
    Record,
    Runs,
    Step,
    Tally,
    Tap,
    Target,
)

logger = Log("torchspan")

Wrap = Callable[[Probe, Any], Any]
"""Takes a probe and the original. Returns the replacement."""


def _no_run(target: Target, _action: Runs, _original: Any) -> Any:
    raise TypeError(f"{target} runs an engine, and its adapter has no wrapper for that: pass `run` to Wrappers")


@dataclass(frozen=True, kw_only=True, slots=True)
class Wrappers:
    """Makes the wrappers of one library's probes, with the factory or with functions of the adapter.

    Args:
        around: The adapter's functions for `Record.around`, by name.
        taps: Its functions for `Tap.handler`, by name.
        run: Its function for `Runs`, of a library that runs engines.
    """

    factory: WrapperFactory
    around: Mapping[str, Callable[[Target, Record, Any], Any]] = field(default_factory=dict)
    taps: Mapping[str, Callable[[Target, Any], Any]] = field(default_factory=dict)
    run: Callable[[Target, Runs, Any], Any] = _no_run

    def __call__(self, probe: Probe, original: Any) -> Any:
        """The replacement for `original`."""
        target, action = probe.target, probe.action
        match action:
            case Record():
                wrap = self.factory.record if action.around is None else self.around[action.around]
                return wrap(target, action, original)
            case Annotate():
                return self.factory.annotate(target, action, original)
            case Step():
                return self.factory.step(target, action, original)
            case Tally():
                return self.factory.tally(target, action, original)
            case Tap():
                return self.taps[action.handler](target, original)
            case Runs():
                return self.run(target, action, original)


def apply_probes(engine: Engine, patches: Patches, probes: Iterable[ResolvedProbe], wrap: Wrap) -> None:
    """Replace the target of each probe that resolved. Log a debug line for each probe that did not resolve."""
    functions = _Functions([], [])
    for resolved in probes:
        probe = resolved.probe
        if resolved.status != "resolved":
            reason = ", ".join(filter(None, (resolved.status, resolved.detail)))
            logger.debug("Not hooked: %s (%s)", probe.target, reason)
        else:
            name = f"hooking {probe.target}"
            engine.guard.call(name, _replace, patches, functions, resolved, partial(wrap, probe))
    patches.replace_functions(functions.of_library, everywhere=functions.of_torch)


@dataclass(frozen=True, slots=True)
class _Functions:
    """Pairs (original, wrapper) of functions that are replaced together."""

    of_library: list[tuple[Any, Any]]
    of_torch: list[tuple[Any, Any]]


def _replace(patches: Patches, functions: _Functions, resolved: ResolvedProbe, wrap: Callable[[Any], Any]) -> None:
    """Replace the target, unless it is a function: a function is added to `functions` instead."""
    target = resolved.probe.target
    match target:
        case CustomOperator():
            # The packet and its overload each have the entry. Loaded programs call the overload.
            for holder in (resolved.holder, resolved.holder.default):
                patches.replace_attribute(holder, resolved.name, wrap)
        case InnerName():
            inner, name = target.path
            patches.replace_in_module(sys.modules[target.module], inner, name, wrap)
        case Method() | Lock():
            patches.replace_attribute(resolved.holder, resolved.name, wrap)
        case Function():
            of_torch = target.module.partition(".")[0] == "torch"
            pairs = functions.of_torch if of_torch else functions.of_library
            pairs.append((resolved.original, wrap(in_use(resolved.original))))
        case _:
            raise TypeError(f"{target} cannot be replaced: it is a {type(target).__name__}")
