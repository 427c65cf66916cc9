# SPDX-License-Identifier: Apache-2.0
"""Compiles a model with an operator that has no converter: it becomes two engines, with PyTorch between them."""

import torch
import torch_tensorrt


class WithBessel(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.before = torch.nn.Conv2d(3, 8, 3)
        self.after = torch.nn.Linear(8, 4)

    def forward(self, image):
        smoothed = torch.special.i1e(torch.relu(self.before(image)))
        return self.after(smoothed.mean((2, 3)))


torch.manual_seed(0)
model = WithBessel().eval().cuda()
image = torch.randn(2, 3, 16, 16, device="cuda")

with torch.no_grad():
    compiled = torch_tensorrt.compile(model, ir="dynamo", arg_inputs=[image], min_block_size=1)
    print(f"result: {tuple(compiled(image).shape)}")
