# SPDX-License-Identifier: Apache-2.0
"""PyTorch's operators below roots: where recording begins and ends, and what is written of the operators."""

# `torchspan.operators` is in `_block`, whose import sets the bridge to work: the bridge imports this.

from torchspan.hooks.operators._roots import OperatorRoots, OperatorsOfCompilations

BLOCKS = "torchspan.hooks.operators._block"
"""The module of `torchspan.operators`."""

__all__ = ["BLOCKS", "OperatorRoots", "OperatorsOfCompilations"]
