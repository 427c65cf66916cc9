# SPDX-License-Identifier: Apache-2.0
"""Compiles a model for batches of 1 to 8, and serves batches of 3, and one that is too large."""

import torch
import torch_tensorrt
from opentelemetry import trace


class Classifier(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = torch.nn.Linear(32, 64)
        self.out = torch.nn.Linear(64, 10)

    def forward(self, x):
        return self.out(torch.relu(self.hidden(x)))


torch.manual_seed(0)
model = Classifier().eval().cuda()
batch = torch_tensorrt.Input(min_shape=(1, 32), opt_shape=(8, 32), max_shape=(8, 32), dtype=torch.float32)
tracer = trace.get_tracer("serving")

with torch.no_grad():
    compiled = torch_tensorrt.compile(model, ir="dynamo", inputs=[batch], min_block_size=1)
    with tracer.start_as_current_span("requests"):
        for _ in range(39):
            compiled(torch.randn(3, 32, device="cuda"))
        try:
            compiled(torch.randn(12, 32, device="cuda"))
        except RuntimeError:
            print("refused")  # by TensorRT, and by the stand-in for a GPU
print("40 requests")
