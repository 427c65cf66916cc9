# SPDX-License-Identifier: Apache-2.0
"""One rank of a program that `torchrun` starts."""

import os
import random

import torch
import torch.distributed as dist
from opentelemetry import trace

from support import work

random.seed(0)
dist.init_process_group("gloo")
rank = dist.get_rank()
with trace.get_tracer("user").start_as_current_span(f"rank {rank}"):
    total = torch.ones(1)
    dist.all_reduce(total)
    work.both(f"work of {rank} of {int(total)}, process {os.environ['LOCAL_RANK']}")
dist.destroy_process_group()
work.both(f"end of {rank}")
