# SPDX-License-Identifier: Apache-2.0
"""Functions that tests compile. The tests name lines of this file: what is added comes last."""

import torch


def plain(x):
    return x.sin() + 1


def product(x):
    return (x @ x).sum()


def breaks_twice(x):
    x = x.sin()
    torch._dynamo.graph_break()
    if x.sum() > 0:
        x = x + 1
    return x.cos()


def breaks_in_a_loop(x):
    for _ in range(2):
        x = x.sin()
        torch._dynamo.graph_break()
    return x


def adds(x, number):
    return x + number


def without_a_tensor(_x):
    return 3


def raises(x):
    raise ValueError("ulterior secret of the program")


def misfits(x):
    return x + torch.ones(7)
