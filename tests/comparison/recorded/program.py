# SPDX-License-Identifier: Apache-2.0
"""Compiles a small net by Torch-TensorRT, for the files in `torch_tensorrt_2.13/`.

They were recorded once, in an environment with torch-tensorrt-rtx 2.13.0, from a copy of this file in an empty folder:

    for number in 1 2 3 4; do
        torchspan run --without-gpu --quiet --redact --output $number.jsonl -- python program.py
    done
"""

import torch
import torch_tensorrt


class Net(torch.nn.Module):
    """One operator in the middle has no converter."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 8, 3)
        self.linear = torch.nn.Linear(8, 4)

    def forward(self, x):
        x = torch.special.i1e(torch.relu(self.conv(x)))
        return self.linear(x.mean((2, 3)))


def compile_net():
    """The compiled net."""
    torch.manual_seed(0)
    model, image = Net().eval().cuda(), torch.ones(2, 3, 16, 16).cuda()
    with torch.no_grad():
        return torch_tensorrt.compile(model, ir="dynamo", arg_inputs=[image], min_block_size=1)


if __name__ == "__main__":
    compile_net()
