# SPDX-License-Identifier: Apache-2.0
"""Compiles a small net by Torch-TensorRT, and writes a file for each compilation: `python program.py FOLDER`, in an empty folder.

The files in `torch_tensorrt_2.13/` were recorded once, in an environment with torch-tensorrt-rtx 2.13.0.
"""

import sys
from pathlib import Path

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from torchspan import testing
from torchspan.sdk import FileSpanExporter

RUNS = 4


def record(folder):
    """Write the files `1.jsonl` to `4.jsonl`. The first compilation of a process is slower, and not one of them."""
    testing.without_gpu()
    import torch
    import torch_tensorrt

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = torch.nn.Conv2d(3, 8, 3)
            self.linear = torch.nn.Linear(8, 4)

        def forward(self, x):
            x = torch.special.i1e(torch.relu(self.conv(x)))  # TensorRT has no converter for it
            return self.linear(x.mean((2, 3)))

    torch.manual_seed(0)
    model, image = Net().eval(), torch.ones(2, 3, 16, 16)
    for number in range(RUNS + 1):
        path = folder / f"{number}.jsonl"
        provider = TracerProvider(resource=Resource({"service.name": "program"}), shutdown_on_exit=False)
        provider.add_span_processor(BatchSpanProcessor(FileSpanExporter(path)))
        with testing.capture(tracer_provider=provider), torch.no_grad():
            torch_tensorrt.compile(model, ir="dynamo", arg_inputs=[image], min_block_size=1)
        provider.shutdown()
    (folder / "0.jsonl").unlink()


if __name__ == "__main__":
    record(Path(sys.argv[1]))
