# SPDX-License-Identifier: Apache-2.0
"""PyTorch's operators below roots: where recording begins and ends, and what becomes of what was recorded."""

from torchspan._operators._block import operators
from torchspan._operators._roots import OperatorRoots

__all__ = ["OperatorRoots", "operators"]
