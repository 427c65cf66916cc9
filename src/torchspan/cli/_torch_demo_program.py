# SPDX-License-Identifier: Apache-2.0
"""The program of `torchspan demo` where Torch-TensorRT is not installed: a short training with torch.compile, on the CPU.

Its graph breaks at a condition on the values of a tensor, and the last batch, which is smaller, has it compiled again.
"""

from __future__ import annotations

import os
import shutil
import sysconfig
import time
from pathlib import Path

import torch
from opentelemetry import trace
from torch import nn

from torchspan.cli._demo_program import say

_BATCHES = (8, 8, 8, 5)
_COMPILERS = ("g++", "clang++", "c++")


class Classifier(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(16, 32), nn.ReLU())
        self.head = nn.Linear(32, 4)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        features = self.encoder(rows)
        if features.abs().max() > 1000:  # the graph breaks here: Dynamo does not know the values
            features = features.clamp(-1000, 1000)
        return self.head(features)


def backend() -> str:
    """`inductor`, or `aot_eager` where Inductor has no C++ compiler or no headers of Python. Names the compiler in CXX."""
    compiler = next(filter(None, map(shutil.which, filter(None, (os.environ.get("CXX"), *_COMPILERS)))), None)
    has_headers = Path(sysconfig.get_path("include"), "Python.h").exists()
    if compiler is None or not has_headers:
        lacks = "C++ compiler" if compiler is None else "Python.h"
        say(f"no {lacks} found, which Inductor needs: compiling with the backend aot_eager")
        return "aot_eager"
    os.environ["CXX"] = compiler  # Inductor itself looks for one name only
    return "inductor"


def main() -> None:
    name = backend()
    say(f"training with torch.compile on the CPU, backend {name} …")
    start = time.monotonic()
    torch.manual_seed(0)
    model = Classifier()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with trace.get_tracer("torchspan.demo").start_as_current_span("training"):
        compiled = torch.compile(model, backend=name)
        for size in _BATCHES:
            loss = compiled(torch.randn(size, 16)).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    say(f"{len(_BATCHES)} steps in {time.monotonic() - start:.1f} s")


if __name__ == "__main__":
    main()
