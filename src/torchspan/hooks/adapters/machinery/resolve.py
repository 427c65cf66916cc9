# SPDX-License-Identifier: Apache-2.0
"""Finds the object that a probe names in the libraries that are loaded."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from torchspan.hooks.probes import CustomOperator, Probe


@dataclass(frozen=True, slots=True)
class ResolvedProbe:
    """A probe, and the result of looking for its target.

    Attributes:
        status: `resolved`, `absent` (the version should have the target and does not), `out of range` (the target
            is not expected in this version or package), `library not installed`.
        detail: One phrase for people.
        holder, name, original: The object and the name to which the target is bound, and the target. Empty unless
            resolved.
    """

    probe: Probe
    status: str
    detail: str = ""
    holder: Any = None
    name: str = ""
    original: Any = None


def resolve(probe: Probe, version: str | None, package: str | None, module: ModuleType | None = None) -> ResolvedProbe:
    """Find the probe's target. `version` is None if the library is not loaded. Nothing is imported.

    Args:
        module: The module to search, for a probe whose library has several names.
    """
    if version is None:
        return ResolvedProbe(probe, "library not installed")
    try:
        holder, name, original = _find(probe, module or sys.modules.get(probe.target.module))
    except LookupError as missing:
        if probe.holds_for(version, package):
            return ResolvedProbe(probe, "absent", f"{missing.args[0]} is missing")
        return ResolvedProbe(probe, "out of range", _expected(probe))
    return ResolvedProbe(probe, "resolved", "", holder, name, original)


def _expected(probe: Probe) -> str:
    parts = [f"{probe.package} only"] if probe.package else []
    if probe.since:
        parts.append(f"since {probe.since[0]}.{probe.since[1]}")
    if probe.until:
        parts.append(f"until {probe.until[0]}.{probe.until[1]}")
    return ", ".join(parts)


def version_of(module: Any) -> str | None:
    """The version of a loaded library; None if it is not loaded."""
    return None if module is None else str(getattr(module, "__version__", "unknown"))


def _find(probe: Probe, holder: Any) -> tuple[Any, str, Any]:
    if holder is None:
        raise LookupError(probe.target.module)
    if isinstance(probe.target, CustomOperator):  # __getattr__ makes namespaces and operators on access
        return _find_operator(holder, probe)
    for name in probe.target.path[:-1]:
        holder = _attribute(holder, name)
    last = probe.target.path[-1]
    return holder, last, _attribute(holder, last)


def _attribute(holder: Any, name: str) -> Any:
    if name in vars(holder):
        return vars(holder)[name]
    raise LookupError(name)


def _find_operator(operators: Any, probe: Probe) -> tuple[Any, str, Any]:
    namespace, name = probe.target.path
    packet = getattr(getattr(operators, namespace), name, None)
    if packet is None or not hasattr(packet, "_op") or not hasattr(getattr(packet, "default", None), "_op"):
        raise LookupError(f"torch.ops.{namespace}.{name}._op")
    return packet, "_op", packet._op
