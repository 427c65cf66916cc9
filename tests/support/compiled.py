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


@torch.compiler.disable(reason="ulterior secret of the program")
def disabled(x):
    return x + 1


def calls_a_disabled_function(x):
    return disabled(x) * 2


def asks_for_a_value(x):
    return x + x.sum().item()


def prints(x):
    print("ulterior secret of the program")
    return x + 1


def breaks_with_a_message(x):
    torch._dynamo.graph_break("ulterior secret of the program")
    return x + 1


def opens_a_file(x):
    with open("/dev/null"):
        return x + 1


def at_most(x, limit):
    return torch.clamp(x, max=limit)


def length_of_a_text(y, t):
    return y + len(t)


def depends_on_a_setting(x, settings):
    return x + 1 if settings["ulterior"] == "secret of the program" else x - 1


def halves(x):
    return x / 2


def square(x):
    """Inductor's code for it calls an operator: no C++ is compiled."""
    return x @ x


def depends_on_two_dictionaries(x, G, L):
    return x + G["ulterior"] + L["ulterior"]


SCALE = torch.ones(3, 3)


def scales(x):
    return x * SCALE


class Scaling(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(3))

    def forward(self, x):
        return x * self.scale
