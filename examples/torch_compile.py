# SPDX-License-Identifier: Apache-2.0
"""Compiles with torch.compile: the first call contains the compilation, and the second one does not."""

import time

import torch
import torch_tensorrt  # noqa: F401 - registers the backend


class ConvNet(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.features = torch.nn.Conv2d(3, 8, 3)
        self.classify = torch.nn.Linear(8 * 14 * 14, 10)

    def forward(self, image):
        return self.classify(torch.relu(self.features(image)).flatten(1))


torch.manual_seed(0)
model = ConvNet().eval().cuda()
compiled = torch.compile(model, backend="tensorrt", options={"min_block_size": 1})

with torch.no_grad():
    for call in ("first", "second"):
        start = time.perf_counter()
        compiled(torch.randn(2, 3, 16, 16, device="cuda"))
        print(f"{call} call: {time.perf_counter() - start:.3f} s")
