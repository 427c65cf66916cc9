# SPDX-License-Identifier: Apache-2.0
"""Collects the shapes that each engine is built for, from the arguments of the conversions, in every thread."""

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


shapes = []


def collect(context):
    _module, inputs = context.args[:2]
    shapes.append((context.kwargs["name"], [each.shape for each in inputs]))


torch.manual_seed(0)
model, image = Smooth().eval().cuda(), torch.randn(2, 3, 16, 16, device="cuda")
batches = torch_tensorrt.Input(min_shape=(1, 3, 16, 16), opt_shape=(2, 3, 16, 16), max_shape=(8, 3, 16, 16))
with torch.no_grad(), observers.torch_tensorrt.convert.pre.add(collect):
    torch_tensorrt.compile(model, ir="dynamo", arg_inputs=[image], min_block_size=1)
    torch_tensorrt.compile(model, ir="dynamo", arg_inputs=[batches], min_block_size=1)

BOUNDS = ("min_shape", "opt_shape", "max_shape")
for engine, (shape,) in shapes:
    is_range = isinstance(shape, dict)
    print(f"{engine}:", "..".join(str(tuple(shape[bound])) for bound in BOUNDS) if is_range else shape)
