# SPDX-License-Identifier: Apache-2.0
"""Which names are operators: those in PyTorch's own registry.

The registry is asked, not the spelling: anything can be written behind `aten::`. PyTorch is looked up in `sys.modules`
and is never imported; where it is not loaded, no name is an operator.
"""

from __future__ import annotations

import re
import sys
from functools import lru_cache
from typing import Any

_SPELLINGS = re.compile(
    r"(?:torch\._?ops\.)?(?P<namespace>[A-Za-z_]\w{0,63})(?:::|\.)(?P<name>[A-Za-z_]\w{0,127})(?:\.(?P<overload>[A-Za-z_]\w{0,127}))?",
    re.ASCII,
)


def is_operator(name: str) -> bool:
    """Whether PyTorch knows an operator of this name: `aten::add`, `aten.add.Tensor` or `torch.ops.aten.add.Tensor`.

    Custom operators count once they are registered, with `default` for the overload without a name.
    """
    spelling = _SPELLINGS.fullmatch(name)
    native = sys.modules.get("torch._C")
    if spelling is None or native is None:
        return False
    try:
        return _is_registered(native, spelling["namespace"], spelling["name"], spelling["overload"])
    except Exception:  # a PyTorch that is half imported, or one without these functions
        return False


def _is_registered(native: Any, namespace: str, name: str, overload: str | None) -> bool:
    if namespace == "higher_order":
        return overload is None and name in sys.modules["torch._ops"]._higher_order_ops
    full_name = f"{namespace}::{name}"
    if overload == "default" or overload is None:
        return bool(native._dispatch_has_kernel(full_name)) or (overload is None and full_name in _packets(native))
    return not overload.startswith("__") and bool(native._dispatch_has_kernel(f"{full_name}.{overload}"))


def _packets(native: Any) -> frozenset[str]:
    """The names without overloads, those of TorchScript's interpreter included."""
    ops, library = sys.modules["torch._ops"], sys.modules["torch.library"]
    return _packets_after(native, len(library._defs), len(ops.ops.loaded_libraries))


@lru_cache(maxsize=1)
def _packets_after(native: Any, _defined: int, _loaded: int) -> frozenset[str]:
    """One reading of the registry, repeated after a program defined an operator or loaded a library of them (20 ms)."""
    interpreted = (schema.name for schema in native._jit_get_all_schemas())
    return frozenset([*interpreted, *(name.partition(".")[0] for name in native._dispatch_get_all_op_names())])
