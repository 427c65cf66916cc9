# SPDX-License-Identifier: Apache-2.0
"""Enables torchspan in code, writes its traces to a file, and prints how long each span took."""

import sys
from pathlib import Path

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

import torchspan
from torchspan import traces
from torchspan.sdk import FileSpanExporter

file = Path(sys.argv[1] if len(sys.argv) > 1 else "torchspan-in-code.jsonl")
provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(FileSpanExporter(file)))
trace.set_tracer_provider(provider)
torchspan.instrument()

import torch  # noqa: E402 - before or after enabling: both work
import torch_tensorrt  # noqa: E402

model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4)).eval().cuda()
rows = torch.randn(2, 16, device="cuda")
with trace.get_tracer("in_code").start_as_current_span("load model"), torch.no_grad():
    torch_tensorrt.compile(model, ir="dynamo", arg_inputs=[rows], min_block_size=1)(rows)

provider.force_flush()
for span in traces.read(file).spans:
    print(f"{span.duration_ns / 1e6:9.1f} ms  {span.name}")
