# SPDX-License-Identifier: Apache-2.0
"""A training loop that compiles again at every step, and the fix.

Look at the frames of `Scaled.forward`: the first model has one for each step, with `self.step` as the reason, because Dynamo takes an int
of a module for a constant. The second model holds the step in a tensor, and has one frame.
"""

import torch


class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(16, 4)
        self.step = 0

    def forward(self, rows):
        return self.linear(rows) / (self.step + 1)


class ScaledByTensor(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(16, 4)
        self.register_buffer("step", torch.zeros((), dtype=torch.int64))

    def forward(self, rows):
        return self.linear(rows) / (self.step + 1)


def frames():
    return torch._dynamo.utils.counters["frames"]["total"]


torch.manual_seed(0)
for model in (Scaled(), ScaledByTensor()):
    before, compiled = frames(), torch.compile(model, backend="aot_eager")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(5):
        compiled(torch.randn(8, 16)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        model.step += 1
    print(f"{type(model).__name__}: compilations in 5 steps: {frames() - before}")
