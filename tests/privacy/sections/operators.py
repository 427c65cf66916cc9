# SPDX-License-Identifier: Apache-2.0
"""PyTorch's operators: ranges and functions of autograd whose names the program has chosen."""

import torch

import torchspan


def plant(place):
    function = type(
        place("operators.function.name"),
        (torch.autograd.Function,),
        {"forward": staticmethod(lambda _context, x: x * 2), "backward": staticmethod(lambda _context, x: x)},
    )
    x = torch.ones(2, requires_grad=True)
    with torchspan.operators(min_duration=0):
        for name in ("operators.range.text", "operators.range.name"):
            with torch.profiler.record_function(place(name)):
                x + 1
        function.apply(x).sum().backward()
