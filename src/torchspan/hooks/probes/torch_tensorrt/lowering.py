# SPDX-License-Identifier: Apache-2.0
"""From a module to a lowered graph."""

from __future__ import annotations

from torchspan.hooks.probes._actions import Annotate, Record, Step
from torchspan.hooks.probes._probe import Function, Method, Probe, torch_tensorrt_probe
from torchspan.hooks.probes.describe import compilation, export
from torchspan.words import phase

PROBES: tuple[Probe, ...] = (
    torch_tensorrt_probe(
        target=Function("torch_tensorrt.dynamo._tracer:trace"),
        action=Record(phase.TRACE, start=export.trace, end=export.exported, remembers_result=True),
        why="from module to exported program",
    ),
    torch_tensorrt_probe(
        target=Function("torch_tensorrt.dynamo.lowering.passes._aten_lowering_pass:pre_export_lowering"),
        action=Record(phase.LOWER_PRE_EXPORT, start=compilation.graph_in, end=compilation.graph_out),
        why="passes before decomposition",
    ),
    torch_tensorrt_probe(
        target=Function("torch_tensorrt.dynamo.lowering._decompositions:get_decompositions"),
        action=Step(),
        why="collects the decomposition table; part of the time before decomposing",
    ),
    torch_tensorrt_probe(
        target=Function("torch_tensorrt.dynamo.lowering._decompositions:scaled_dot_product_attention_decomposition"),
        action=Annotate((phase.COMPILE,), end=compilation.attention_decomposed),
        why="the stand-in for a GPU calls it for a CPU's attention, and the compilation names the operator",
    ),
    torch_tensorrt_probe(
        target=Function("torch_tensorrt.dynamo.backend.backends:aot_export_joint_simple"),
        action=Record(phase.DECOMPOSE, start=compilation.graph_in, end=compilation.graph_out),
        why="torch.compile's decomposition: AOTAutograd traces the graph to ATen",
    ),
    torch_tensorrt_probe(
        target=Function("torch_tensorrt.dynamo.lowering.passes._aten_lowering_pass:post_lowering"),
        action=Record(phase.LOWER, start=compilation.graph_in, end=compilation.graph_out),
        why="passes after decomposition, including constant folding",
    ),
    torch_tensorrt_probe(
        target=Method("torch_tensorrt.dynamo.lowering.passes.pass_manager:DynamoPassManager.__call__"),
        action=Record(phase.PASS, end=compilation.graph_out, around="passes"),
        detail="passes",
        why="runs the passes from lists made at import, so patching a pass by name has no effect; each call gets a "
        "copy of the manager, with the user's passes and the Debugger's",
    ),
    torch_tensorrt_probe(
        target=Function("torch_tensorrt.dynamo.utils:deallocate_module"),
        action=Step(),
        why="moves weights off the GPU and collects garbage: up to a third of a small compilation",
    ),
    torch_tensorrt_probe(
        target=Function("torch_tensorrt.dynamo.utils:release_host_and_device_memory"),
        action=Step(),
        why="collects garbage once for each engine",
    ),
)
