# SPDX-License-Identifier: Apache-2.0
"""Two processes that share Inductor's cache: the first compiles, and the second finds what it compiled.

Look at `torch.compile.aotautograd_cache.result` on the frames of the two processes: `miss`, then `hit`, and at their seconds.
"""

import os
import subprocess
import sys
import tempfile
import time

PROGRAM = """
import torch

with torch.no_grad():
    torch.compile(torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU()))(torch.ones(8, 16))
print(*(f"{name}: {count}" for name, count in torch._dynamo.utils.counters["aot_autograd"].items() if "cache" in name))
"""

with tempfile.TemporaryDirectory() as folder:
    for process in ("cold", "warm"):
        start = time.perf_counter()
        environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": folder}
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], env=environment, check=True, capture_output=True, text=True
        )
        print(f"{process}: {time.perf_counter() - start:.1f} s, {done.stdout.strip()}")
