# SPDX-License-Identifier: Apache-2.0
"""What took the first step? The answer from the trace: imports, Dynamo, AOTAutograd and Inductor, the C++ compiler.

Look at the share of the C++ compiler. A second run finds its kernels in the folder of TORCHINDUCTOR_CACHE_DIR.
"""

from torchspan.testing import capture
from torchspan.traces import at_or_below

with capture() as trace:
    import torch

    torch.manual_seed(0)
    model = torch.compile(torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 4)))
    model(torch.randn(8, 16)).square().mean().backward()

# --- the answer, from the trace ---------------------------------------------------------------------------------------
DYNAMO = {"bytecode_tracing", "build_guards", "gc", "insert_deferred_runtime_asserts"}
COMPILER = {"compile_file", "async_compile.wait", "PyCodeCache.load_by_key_path"}


def kind(span):
    """What a span's own time is spent on."""
    phase = span.attributes.get("torch.compile.phase.name")
    if span.name == "torchspan.import":
        return "imports"
    if phase in COMPILER:
        return "C++ compiler"
    return "Dynamo" if span.name == "torch.compile_frame" or phase in DYNAMO else "AOTAutograd and Inductor"


nodes = [node for tree in trace.traces for node in tree.nodes()]
meanwhile = at_or_below(nodes, lambda node: node.span.name == "torch.compile_worker")
seconds = dict.fromkeys(("imports", "Dynamo", "AOTAutograd and Inductor", "C++ compiler"), 0.0)
for node in nodes:
    if id(node) not in meanwhile:
        seconds[kind(node.span)] += node.self_ns() / 1e9
for name, taken in seconds.items():
    print(f"{taken:6.2f} s  {name}")
