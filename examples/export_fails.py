# SPDX-License-Identifier: Apache-2.0
"""An export that fails, and why: a condition on the values of a tensor; and an export of the same model that works.

Look at `failed.reason` of the first `torch.export`: it names the operator and the line of the model.
"""

import torch


class Clipped(torch.nn.Module):
    def forward(self, rows):
        if rows.norm() > 1:
            return rows / rows.norm()
        return rows


class ClippedInGraph(torch.nn.Module):
    def forward(self, rows):
        return torch.where(rows.norm() > 1, rows / rows.norm(), rows)


rows = torch.ones(2, 8)
for model in (Clipped(), ClippedInGraph()):
    try:
        program = torch.export.export(model, (rows,))
    except torch.fx.experimental.symbolic_shapes.GuardOnDataDependentSymNode as error:
        print(f"{type(model).__name__}: {type(error).__name__}")
    else:
        print(f"{type(model).__name__}: {len(program.graph.nodes)} nodes")
