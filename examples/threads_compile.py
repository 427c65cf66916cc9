# SPDX-License-Identifier: Apache-2.0
"""Threads that compile at once: Dynamo compiles in one thread at a time, and the others wait.

Look at `torch.compile_wait`: the threads that wait, for which compilation, and for how long.
"""

import threading
from concurrent.futures import ThreadPoolExecutor

import torch

torch.manual_seed(0)
models = [
    torch.compile(torch.nn.Sequential(*(torch.nn.Linear(16, 16) for _ in range(8))), backend="aot_eager")
    for _ in range(3)
]
together = threading.Barrier(len(models))


def call(model):
    together.wait()
    with torch.no_grad():
        return tuple(model(torch.ones(2, 16)).shape)


with ThreadPoolExecutor(len(models)) as pool:
    print(*pool.map(call, models))
