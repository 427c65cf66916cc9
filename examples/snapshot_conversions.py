# SPDX-License-Identifier: Apache-2.0
"""Takes a snapshot of each conversion's context: TensorRT's network as the converters left it, or the operator that failed."""

from collections import Counter

from torchspan import TorchspanInstrumentor, observers

TorchspanInstrumentor().instrument()

import torch  # noqa: E402
import torch_tensorrt  # noqa: E402


class Classifier(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 8, 3)
        self.linear = torch.nn.Linear(8, 4)

    def forward(self, image):
        return torch.softmax(self.linear(torch.relu(self.conv(image)).mean((2, 3))), 1)


def snapshot(context):
    interpreter = context.args[0]
    network = interpreter.ctx.net  # copy what you keep: the network does not outlive the conversion
    kinds = Counter(network.get_layer(index).type.name for index in range(network.num_layers))
    print(
        f"conversion {context.outcome}: {network.num_inputs} input, {network.num_outputs} output, {len(kinds)} kinds of layers"
    )
    for kind, count in sorted(kinds.items()):
        print(f"  {count} x {kind}")


torch.manual_seed(0)
model, image = Classifier().eval().cuda(), torch.randn(2, 3, 16, 16, device="cuda")
with torch.no_grad(), observers.torch_tensorrt.construct_network.post.add(snapshot):
    torch_tensorrt.compile(model, ir="dynamo", arg_inputs=[image], min_block_size=1)
