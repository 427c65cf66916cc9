# SPDX-License-Identifier: Apache-2.0
"""Models of the tests, each small enough to build in a second."""

from __future__ import annotations

import torch
from torch import nn

from torchspan.testing import is_without_gpu

GPU = torch.device("cpu") if is_without_gpu() else torch.device("cuda", 0)
"""Where a tensor is that was made on "cuda": without a GPU, the CPU stands in for it."""


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(8 * 64, 10),
        )

    def forward(self, x):
        return self.layers(x)


class Mlp(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.first, self.second = nn.Linear(width, 2 * width), nn.Linear(2 * width, 4)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


class WithFallback(nn.Module):
    """special_i1e has no converter: PyTorch runs it between two engines."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(16, 16), nn.Linear(16, 4)

    def forward(self, x):
        return self.second(torch.special.i1e(torch.relu(self.first(x))) + 1)


class Mixed(nn.Module):
    """Outputs of several types and ranks, and a constant made on the device in forward."""

    def forward(self, x):
        y = x * 2 + torch.arange(x.shape[-1], device=x.device, dtype=x.dtype)
        return y, y > 0, y.to(torch.int32), y.sum()


class MakesTensorsOnCuda(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(16, 16)

    def forward(self, x):
        x = x.to("cuda").cuda()
        ones = torch.ones(16, device=torch.device("cuda:0")) + torch.zeros(1, device="cuda")
        if torch.cuda.is_available():
            ones = ones + torch.full((16,), 2.0, device="cuda")
        return self.linear(x) + ones + torch.arange(x.shape[0], device=x.device)[:, None]


class Doubles(nn.Module):
    """Outputs whose sizes are multiples of the batch."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(16, 4)

    def forward(self, x):
        y = torch.relu(self.linear(x))
        return torch.cat([y, y]), y.flatten()


class ReturnsOneTensorTwice(nn.Module):
    """Both copies are one tensor of the network, which has two outputs where the graph has three."""

    def forward(self, x):
        y = x + 1
        first = torch.ops.aten._to_copy.default(y, dtype=torch.float)
        return first, torch.ops.aten._to_copy.default(y, dtype=torch.float), y * 2


class WritesToItsInput(nn.Module):
    """A KV-cache update: the engine writes to the memory of its input, and the graph does not return what it writes."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, cache, update):
        cache[:, :, 3:4, :] = self.linear(update)
        return cache.sum(-1)


class WritesToItsBuffers(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("keys", torch.zeros(2, 4, 16, 8))
        self.register_buffer("values", torch.zeros(2, 4, 16, 8))

    def forward(self, keys, values):
        self.keys[:, :, 3:4, :] = keys
        self.values[:, :, 5:7, :] = values
        return self.keys.sum() + self.values.sum()


def seeded(make):
    torch.manual_seed(0)
    return make().eval().cuda()


def assert_close(actual, expected, **tolerances):
    """`torch.testing.assert_close`; on a real GPU with what TensorRT's TF32 and other kernels may change."""
    torch.testing.assert_close(actual, expected, **(tolerances if is_without_gpu() else {"rtol": 0.02, "atol": 0.02}))


def engines(module):
    """The engine modules inside a compiled module."""
    return [m for m in module.modules() if hasattr(m, "serialized_engine")]
