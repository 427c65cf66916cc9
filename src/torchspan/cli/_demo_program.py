# SPDX-License-Identifier: Apache-2.0
"""The program of `torchspan demo`: compiles a small transformer and a convolutional net, and runs each once."""

from __future__ import annotations

import contextlib
import logging
import sys
import time
from collections.abc import Iterator

import torch
from opentelemetry import trace
from torch import nn

from torchspan.testing import is_without_gpu, without_gpu

_WIDTH, _HEADS, _LENGTH = 64, 4, 16


class Attention(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        # Not one projection cut in three: TensorRT-RTX 1.5 does not build that without a GPU (a check in Myelin fails).
        self.query, self.key, self.value = (nn.Linear(_WIDTH, _WIDTH) for _ in range(3))
        self.project_out = nn.Linear(_WIDTH, _WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        projected = (projection(x) for projection in (self.query, self.key, self.value))
        q, k, v = (part.view(x.shape[0], _LENGTH, _HEADS, -1).transpose(1, 2) for part in projected)
        weights = torch.softmax(q @ k.transpose(-2, -1) / (_WIDTH // _HEADS) ** 0.5, dim=-1)
        return self.project_out((weights @ v).transpose(1, 2).reshape(x.shape))


class Block(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.attention, self.norm_1 = Attention(), nn.LayerNorm(_WIDTH)
        self.mlp = nn.Sequential(nn.Linear(_WIDTH, 4 * _WIDTH), nn.GELU(), nn.Linear(4 * _WIDTH, _WIDTH))
        self.norm_2 = nn.LayerNorm(_WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm_1(x))
        return x + self.mlp(self.norm_2(x))


class SmallTransformer(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.Sequential(Block(), Block())
        self.head = nn.Linear(_WIDTH, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(x))


class ConvNetWithBessel(nn.Module):  # type: ignore[misc]
    """`special_i1e`, a Bessel function, has no converter: the net falls apart into two engines around it."""

    def __init__(self) -> None:
        super().__init__()
        self.before = nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 16, 3), nn.ReLU())
        self.after = nn.Sequential(nn.Conv2d(16, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 10 * 10, 10))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.after(torch.special.i1e(self.before(x)))


def main() -> None:
    has_gpu = not is_without_gpu() and torch.cuda.is_available()
    if has_gpu:
        say(f"on {torch.cuda.get_device_name()}")
    else:
        say("without a GPU: engines are built for real, a stand-in runs them")
        without_gpu()
    say("importing torch_tensorrt …")
    logging.disable(
        logging.WARNING
    )  # only while importing: packages that it would like are not news to a first-time user
    import torch_tensorrt

    logging.disable(logging.NOTSET)
    device = torch.device("cuda" if has_gpu else "cpu")
    torch.manual_seed(0)
    tracer = trace.get_tracer("torchspan.demo")
    with tracer.start_as_current_span("small transformer"), _step("a small transformer"), torch.no_grad():
        model, inputs = SmallTransformer().eval().to(device), (torch.randn(1, _LENGTH, _WIDTH, device=device),)
        program = torch_tensorrt.dynamo.trace(model, arg_inputs=inputs)
        torch_tensorrt.dynamo.compile(program, arg_inputs=inputs, min_block_size=1)(*inputs)
    with tracer.start_as_current_span("conv net"), _step("a convolutional net"), torch.no_grad():
        model, inputs = ConvNetWithBessel().eval().to(device), (torch.randn(1, 3, 16, 16, device=device),)
        torch_tensorrt.compile(model, ir="dynamo", arg_inputs=list(inputs), min_block_size=1)(*inputs)


@contextlib.contextmanager
def _step(what: str) -> Iterator[None]:
    say(f"compiling {what} …")
    start = time.monotonic()
    yield
    say(f"compiled and run in {time.monotonic() - start:.1f} s")


def say(message: str) -> None:
    """Print a line about the progress, on standard error."""
    encoding = sys.stderr.encoding or "utf-8"
    print(f"demo: {message}".encode(encoding, "replace").decode(encoding), file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
