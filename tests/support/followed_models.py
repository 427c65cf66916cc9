# SPDX-License-Identifier: Apache-2.0
"""A model whose class tests name in `TORCHSPAN_INPUTS`."""

import torch


class Model(torch.nn.Module):
    """Returns its first argument."""

    def forward(self, x, *, mask=None, **others):
        return x


class Scaled(torch.nn.Module):
    """Has something to compile."""

    def forward(self, x):
        return x * 2
