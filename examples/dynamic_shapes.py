# SPDX-License-Identifier: Apache-2.0
"""Compiles a model once for batches of 2 to 8 and runs three sizes."""

import torch
import torch_tensorrt


class Classifier(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = torch.nn.Linear(32, 64)
        self.out = torch.nn.Linear(64, 10)

    def forward(self, x):
        return self.out(torch.relu(self.hidden(x)))


torch.manual_seed(0)
model = Classifier().eval().cuda()
batch = torch_tensorrt.Input(min_shape=(2, 32), opt_shape=(4, 32), max_shape=(8, 32), dtype=torch.float32)

with torch.no_grad():
    compiled = torch_tensorrt.compile(model, ir="dynamo", inputs=[batch], min_block_size=1)
    for size in (2, 4, 7):
        scores = compiled(torch.randn(size, 32, device="cuda"))
        print(f"batch of {size}: {tuple(scores.shape)}")
