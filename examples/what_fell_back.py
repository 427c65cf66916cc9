# SPDX-License-Identifier: Apache-2.0
"""What fell back, and why? Every operator that runs in PyTorch, with the reason and what would change it."""

from torchspan.testing import capture

# The libraries are imported inside, so that TORCHSPAN_WITHOUT_GPU=1 has an effect: torchspan reads it when the block begins.
with capture() as trace:
    import torch
    import torch_tensorrt

    class Mixed(torch.nn.Module):
        """An operator without a converter, one that is excluded below, and a group that is too small for an engine."""

        def __init__(self):
            super().__init__()
            self.before = torch.nn.Conv2d(3, 8, 3)
            self.after = torch.nn.Linear(8, 4)

        def forward(self, image):
            smoothed = torch.special.i1e(torch.tanh(torch.relu(self.before(image))))
            return torch.sigmoid(self.after(smoothed.mean((2, 3))))

    torch.manual_seed(0)
    model, image = Mixed().eval().cuda(), torch.randn(2, 3, 16, 16, device="cuda")
    with torch.no_grad():
        settings = {"min_block_size": 3, "torch_executed_ops": {"torch.ops.aten.mean.dim"}}
        torch_tensorrt.compile(model, ir="dynamo", arg_inputs=[image], **settings)

# --- the answer, from the trace ---------------------------------------------------------------------------------------
REMEDIES = {
    "no_converter": "register a converter, or replace the operator",
    "validator_refused": "its converter refuses this data type, shape or argument",
    "user_excluded": "remove it from torch_executed_ops",
    "complex_dtype": "compute with real numbers",
    "data_dependent": "fallback_data_dependent_ops=False",
    "min_block_size": "lower min_block_size",
    "no_supported_operators": "nothing in this graph has a converter",
    "compile_failed": "fix the error on the spans below and recompile",
}

a = trace.one("torch_tensorrt.compile").attributes
inside, total = a["torch_tensorrt.operators.tensorrt"], a["torch_tensorrt.operators.total"]
print(f"{inside} of {total} operators run in TensorRT; engines: {a['torch_tensorrt.engines.count']}")
left = zip(
    a.get("torch_tensorrt.fallback.operators.names", ()),
    a.get("torch_tensorrt.fallback.operators.counts", ()),
    a.get("torch_tensorrt.fallback.operators.reasons", ()),
    strict=True,
)
for operator, count, reason in left:
    print(f"  {count} x {operator}: {reason} ({REMEDIES[reason]})")
