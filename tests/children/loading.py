# SPDX-License-Identifier: Apache-2.0
"""Two epochs of a DataLoader whose two workers stay; each item is a compilation. Prints the workers' threads as JSON."""

import json
import threading

import torch
from opentelemetry import trace
from torch.utils.data import DataLoader, Dataset

from support.bridge import compiles


class Items(Dataset):
    def __len__(self):
        return 2

    def __getitem__(self, index):
        threads = [thread.name for thread in threading.enumerate() if thread.name.startswith("torchspan")]
        compiles("Item")
        return threads


if __name__ == "__main__":
    torch.set_num_threads(1)
    compiles("Parent")
    tracer = trace.get_tracer("user")
    loader = DataLoader(
        Items(), batch_size=None, num_workers=2, persistent_workers=True, multiprocessing_context="fork"
    )
    reported = []
    for epoch in ("first", "second"):
        with tracer.start_as_current_span(f"{epoch} epoch"):
            reported.append(list(loader))
    del loader
    print(json.dumps(reported))
