# SPDX-License-Identifier: Apache-2.0
"""From a module to a lowered graph."""

from __future__ import annotations

from torchspan import phase
from torchspan.probes._actions import Annotate, Record, Step
from torchspan.probes._probe import Function, Method, Probe
from torchspan.probes.describe import compilation, export, lowering
from torchspan.probes.torch_tensorrt._row import row

_TRACE_AND_LOWER = (
    row(
        target=Function("torch_tensorrt.dynamo._tracer:trace"),
        action=Record(phase.TRACE, start=export.trace, end=export.exported, remembers_result=True),
        why="from module to exported program",
    ),
    row(
        target=Function("torch_tensorrt.dynamo.lowering.passes._aten_lowering_pass:pre_export_lowering"),
        action=Record(phase.LOWER_PRE_EXPORT, start=lowering.graph_in, end=lowering.graph_out),
        why="passes before decomposition",
    ),
    row(
        target=Function("torch_tensorrt.dynamo.lowering._decompositions:get_decompositions"),
        action=Step(),
        why="collects the decomposition table; part of the time before decomposing",
    ),
    row(
        target=Function("torch_tensorrt.dynamo.lowering._decompositions:scaled_dot_product_attention_decomposition"),
        action=Annotate((phase.COMPILE,), end=compilation.attention_decomposed),
        why="the stand-in for a GPU calls it for a CPU's attention, and the compilation names the operator",
    ),
    row(
        target=Function("torch_tensorrt.dynamo.lowering._buffer_lifting:lift_mutated_buffers"),
        action=Step(),
        since=(2, 14),
        why="turns mutated buffers into engine inputs",
    ),
    row(
        target=Function("torch_tensorrt.dynamo.lowering._buffer_lifting:inline_lifted_buffers_into_gm"),
        action=Step(),
        since=(2, 14),
        why="restores the mutated buffers after conversion",
    ),
    row(
        target=Function("torch_tensorrt.dynamo.backend.backends:fold_get_attr_item_calls"),
        action=Step(),
        since=(2, 12),
        why="torch.compile only: before AOT tracing",
    ),
    row(
        target=Function("torch_tensorrt.dynamo.backend.backends:repair_input_aliasing"),
        action=Step(),
        why="torch.compile only: before AOT tracing",
    ),
    row(
        target=Function("torch_tensorrt.dynamo.backend.backends:remove_detach"),
        action=Step(),
        why="torch.compile only: called directly, not through the pass manager",
    ),
    row(
        target=Function("torch_tensorrt.dynamo.backend.backends:aot_export_joint_simple"),
        action=Record(phase.DECOMPOSE, start=lowering.graph_in, end=lowering.graph_out),
        why="torch.compile's decomposition: AOTAutograd traces the graph to ATen",
    ),
    row(
        target=Function("torch_tensorrt.dynamo.backend.backends:remove_sym_nodes"),
        action=Step(),
        why="torch.compile only: after AOT tracing",
    ),
    row(
        target=Function("torch_tensorrt.dynamo.lowering.passes._aten_lowering_pass:post_lowering"),
        action=Record(phase.LOWER, start=lowering.graph_in, end=lowering.graph_out),
        why="passes after decomposition, including constant folding",
    ),
    row(
        target=Method("torch_tensorrt.dynamo.lowering.passes.pass_manager:DynamoPassManager.__call__"),
        action=Record(phase.PASS, end=lowering.graph_out, around="passes"),
        detail="passes",
        why="runs the passes from lists made at import, so patching a pass by name has no effect; each call gets a "
        "copy of the manager, with the user's passes and the Debugger's",
    ),
    row(
        target=Function("torch_tensorrt.dynamo.utils:deallocate_module"),
        action=Step(),
        why="moves weights off the GPU and collects garbage: up to a third of a small compilation",
    ),
    row(
        target=Function("torch_tensorrt.dynamo.utils:release_host_and_device_memory"),
        action=Step(),
        why="collects garbage once for each engine",
    ),
)

PROBES: tuple[Probe, ...] = _TRACE_AND_LOWER
