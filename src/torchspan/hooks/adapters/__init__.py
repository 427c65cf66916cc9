# SPDX-License-Identifier: Apache-2.0
"""The hooks into each observed library: one adapter per library, each with `install(engine, ...) -> undo`.

Adapters never import a library. An adapter is installed once the program has imported its library.
"""

import sys

from torchspan.hooks.adapters import dynamo, export, tensorrt, torch_tensorrt
from torchspan.hooks.adapters.imports import Imports
from torchspan.hooks.adapters.machinery.ports import Ports
from torchspan.hooks.adapters.machinery.provenance import Provenance
from torchspan.hooks.adapters.machinery.resolve import ResolvedProbe, version_of
from torchspan.hooks.adapters.torch_tensorrt import is_supported


def resolve_probes() -> list[ResolvedProbe]:
    """Every probe of every library, resolved against the modules that are loaded now. Imports and changes nothing."""
    libraries = (dynamo, torch_tensorrt, export, tensorrt)
    return [row for library in libraries for row in library.resolve_probes()]


def versions() -> dict[str, str]:
    """The loaded libraries that are observed, and torch, by import name."""
    modules = {"torch": sys.modules.get("torch"), torch_tensorrt.LIBRARY: sys.modules.get(torch_tensorrt.LIBRARY)}
    versions = {name: version_of(module) for name, module in {**modules, **tensorrt.loaded()}.items()}
    return {name: version for name, version in versions.items() if version is not None}


__all__ = [
    "Imports",
    "Ports",
    "Provenance",
    "ResolvedProbe",
    "is_supported",
    "resolve_probes",
    "versions",
]
