# SPDX-License-Identifier: Apache-2.0
"""Dynamic shapes: a size that changes compiles the model a second time, unless the program marks it before the first call.

Look at the frames: `plain` has two, the second with the reason `size mismatch`, and `marked` has one.
"""

import torch


def plain(rows):
    return torch.softmax(rows @ rows.T, dim=-1).sum()


def marked(rows):
    return torch.softmax(rows @ rows.T, dim=-1).sum()


for function in (plain, marked):
    compiled = torch.compile(function, backend="aot_eager")
    for size in (4, 6, 9):
        rows = torch.ones(size, 8)
        if function is marked:
            torch._dynamo.mark_dynamic(rows, 0, min=2, max=64)
        print(f"{function.__name__} {size}: {compiled(rows):.1f}")
