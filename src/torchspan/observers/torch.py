# SPDX-License-Identifier: Apache-2.0
"""Observers of what PyTorch does on the way to a compilation."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from torchspan import phase
from torchspan.observers._observable import CallableObservers
from torchspan.observers._official import missing, official

__all__ = [
    "export",
]

export: CallableObservers = official("torch.export", phase.EXPORT)
"""`torch.export.export`, by Torch-TensorRT or by the program itself."""

if not TYPE_CHECKING:  # a type checker knows the names

    def __getattr__(name: str) -> NoReturn:
        missing(__name__, name)
