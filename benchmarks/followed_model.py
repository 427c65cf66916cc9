# SPDX-License-Identifier: Apache-2.0
"""The module that `followed_inputs.py` calls: `TORCHSPAN_INPUTS` names it."""

import torch


class Model(torch.nn.Module):
    """Returns its argument."""

    def forward(self, x):
        return x
