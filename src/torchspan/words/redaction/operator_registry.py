# SPDX-License-Identifier: Apache-2.0
"""Which names are operators: those in PyTorch's own registry.

The registry decides, not the spelling, because anything can be written after `aten::`. PyTorch is looked up in `sys.modules`
and is never imported. If it is not loaded, no name is an operator.
"""

from __future__ import annotations

import re
import sys
from functools import lru_cache
from typing import Any

_SPELLING = re.compile(
    r"(?P<namespace>[A-Za-z_]\w{0,63})(?:::|\.)(?P<name>[A-Za-z_]\w{0,127})(?:\.(?P<overload>[A-Za-z_]\w{0,127}))?",
    re.ASCII,
)


def is_operator(name: str) -> bool:
    """Whether PyTorch knows an operator of this name: `aten::add`, `aten.add.Tensor` or `torch.ops.aten.add.Tensor`.

    Custom operators count once they are registered. `default` is the overload without a name.
    """
    ops: Any = sys.modules.get("torch._ops")
    spelled = name.removeprefix("torch.ops.")
    namespace = spelled.partition("::" if "::" in spelled else ".")[0]
    try:
        return (namespace in vars(ops.ops) or namespace == "prim") and _is_registered(spelled, namespace, ops)
    except Exception:  # no PyTorch, one that is half imported, or one without these functions
        return False


def _is_registered(spelled: str, namespace: str, ops: Any) -> bool:
    """Whether it is in the registry. The namespace is one that the program has used, or TorchScript's."""
    spelling = _SPELLING.fullmatch(spelled)
    if spelling is None:
        return False
    native = ops.torch._C
    name, overload = f"{namespace}::{spelling['name']}", spelling["overload"]
    if namespace == "higher_order":
        return overload is None and spelling["name"] in ops._higher_order_ops
    if overload is None:
        return bool(native._dispatch_has_kernel(name)) or name in _read(ops)
    if overload == "default":
        return bool(native._dispatch_has_kernel(name))
    return not overload.startswith("__") and bool(native._dispatch_has_kernel(f"{name}.{overload}"))


def _read(ops: Any) -> frozenset[str]:
    return _read_after(ops.torch._C, len(sys.modules["torch.library"]._defs), len(ops.ops.loaded_libraries))


@lru_cache(maxsize=1)
def _read_after(native: Any, _defined: int, _loaded: int) -> frozenset[str]:
    """Operators without their overloads, those of TorchScript's interpreter included.

    They are read again after a program has defined an operator or loaded a library of them (20 ms).
    """
    names = {schema.name for schema in native._jit_get_all_schemas()}
    names.update(name.partition(".")[0] for name in native._dispatch_get_all_op_names())
    return frozenset(names)
