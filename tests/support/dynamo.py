# SPDX-License-Identifier: Apache-2.0
"""What tests of code that Dynamo traces share: a module around a function, a clean Dynamo, what it broke at.

Imports torch: to be imported below what is to be decorated before that.
"""

import contextlib

import torch


class Net(torch.nn.Module):
    """A module whose forward calls one function, between two operators."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x.sin()).cos()


@contextlib.contextmanager
def clean_dynamo():
    """Inside, nothing has been compiled yet; afterwards nothing has been."""
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    try:
        yield
    finally:
        torch._dynamo.reset()


def breaks():
    """Graph breaks, and what Dynamo gave up on, since `clean_dynamo` began."""
    counters = torch._dynamo.utils.counters
    return dict(counters["graph_break"]), dict(counters["unimplemented"])
