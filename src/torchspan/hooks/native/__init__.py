# SPDX-License-Identifier: Apache-2.0
"""The C++ library that records PyTorch's operators: `python -m torchspan.native build` builds it for the installed PyTorch."""

from __future__ import annotations

from typing import Any

from torchspan.hooks.native._manifest import COMMAND, UnavailableError, check_installed

__all__ = ["COMMAND", "UnavailableError", "check_installed", "library"]

_library: Any = None


def library() -> Any:
    """The library's module, which a process loads once; its forked children use the same.

    With TORCHSPAN_NATIVE_BUILD=on the library is built first where none fits. Imports torch.

    Raises:
        UnavailableError: There is no library that fits the imported PyTorch.
    """
    global _library
    if _library is None:
        from torchspan.hooks.native._load import load

        _library = load()
    return _library
