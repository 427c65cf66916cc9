# SPDX-License-Identifier: Apache-2.0
"""Each rank that torchrun starts compiles the model and runs its share of the rows; the ranks add up their row counts."""

import os

import torch
import torch.distributed as dist
import torch_tensorrt
from opentelemetry import trace

dist.init_process_group("gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())

torch.manual_seed(0)  # the same model in every rank
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4)).eval().cuda()
rows = torch.randn(4 * ranks, 16).chunk(ranks)[rank].cuda()

with trace.get_tracer("ranks").start_as_current_span(f"rank {rank}"), torch.no_grad():
    compiled = torch_tensorrt.compile(model, ir="dynamo", arg_inputs=[rows], min_block_size=1)
    counted = torch.tensor(float(len(compiled(rows))))
    dist.all_reduce(counted)

if rank == 0:
    print(f"{ranks} ranks, {counted:.0f} rows")
dist.destroy_process_group()
