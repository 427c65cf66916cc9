# SPDX-License-Identifier: Apache-2.0
"""Where the graph broke: three ways to lose a part of the graph, and a model that keeps all of it.

Look at the lines `graph break at graph_breaks.py:…` below the frames: a condition on values, a `print`, and `.item()`. `Whole` does the same
with `torch.where`, without the print, and has one frame and no graph break.
"""

import torch


class Broken(torch.nn.Module):
    def forward(self, rows):
        rows = torch.relu(rows)
        if rows.max() > 1:
            rows = rows / rows.max()
        print("rows are scaled")
        return rows * rows.sum().item()


class Whole(torch.nn.Module):
    def forward(self, rows):
        rows = torch.relu(rows)
        rows = torch.where(rows.max() > 1, rows / rows.max(), rows)
        return rows * rows.sum()


rows = torch.linspace(-1, 2, 12).reshape(3, 4)
broken = torch.compile(Broken(), backend="aot_eager")(rows)
whole = torch.compile(Whole(), backend="aot_eager", fullgraph=True)(rows)
print(f"the same rows: {torch.allclose(broken, whole)}")
