# SPDX-License-Identifier: Apache-2.0
"""Captures the graph after each stage of a compilation, with the official observers. This needs no backend."""

from torchspan import TorchspanInstrumentor, observers

TorchspanInstrumentor().instrument()

import torch  # noqa: E402
import torch_tensorrt  # noqa: E402


class Smooth(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.before = torch.nn.Conv2d(3, 8, 3)
        self.after = torch.nn.Linear(8, 4)

    def forward(self, image):
        smoothed = torch.special.i1e(torch.relu(self.before(image)))
        return self.after(smoothed.mean((2, 3)))


graphs = {}


def capture(stage):
    def after(context):
        result = context.return_value
        module = result[0] if isinstance(result, tuple) else getattr(result, "graph_module", result)
        graphs[stage] = [str(node.target) for node in module.graph.nodes if node.op in {"call_function", "call_module"}]

    return after


torch.manual_seed(0)
model, image = Smooth().eval().cuda(), torch.randn(2, 3, 16, 16, device="cuda")
stages = ("trace", "decompose", "lower", "partition")
added = [getattr(observers.torch_tensorrt, stage).post.add(capture(stage)) for stage in stages]
with torch.no_grad():
    torch_tensorrt.compile(model, ir="dynamo", arg_inputs=[image], min_block_size=1)
for each in added:
    each.remove()

for stage, operators in graphs.items():
    print(f"{stage}: {len(operators)} calls, {', '.join(operators)}")
