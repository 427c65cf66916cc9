# SPDX-License-Identifier: Apache-2.0
"""Attributes about PyTorch: its version, torch.compile and torch.export."""

from __future__ import annotations

from torchspan import phase
from torchspan.semconv._export import DynamicDimension, ExportFailure, Violation
from torchspan.semconv._operators import Operator
from torchspan.semconv._sizes import Shape
from torchspan.semconv._table import Attribute
from torchspan.semconv._values import CompileId, RunId, Version

TORCH_VERSION = Attribute(
    "torch.version", "string", "Version of PyTorch.", *phase.ENTRIES, at_start=True, resource=True, kind=Version()
)
COMPILE_ID = Attribute(
    "torch.compile.id",
    "string",
    "Dynamo's compile id, `frame/recompile`.",
    phase.COMPILE,
    at_start=True,
    kind=CompileId(),
)
STRICT = Attribute(
    "torch.export.strict", "boolean", "Strict mode of torch.export.", phase.TRACE, phase.EXPORT, at_start=True
)
RANGE_CONSTRAINTS = Attribute(
    "torch.export.range_constraints",
    "string[]",
    "Dynamic dimensions with their ranges, `s77: [1, 8]`.",
    phase.TRACE,
    phase.EXPORT,
    kind=Shape(),
)
DYNAMIC_SHAPES = Attribute(
    "torch.export.dynamic_shapes",
    "string[]",
    "Dimensions that the export was asked to keep dynamic: the argument by its position among the parameters of "
    "`forward`, and the range or the hint, `inputs[0].shape[1]: [1, 8]` (at most 20).",
    phase.EXPORT,
    at_start=True,
    kind=DynamicDimension(),
)
DECOMPOSITIONS_COUNT = Attribute(
    "torch.export.decompositions.count",
    "int",
    "Operators for which the caller gave a decomposition; absent where PyTorch's own table was used.",
    *phase.DECOMPOSITIONS,
    at_start=True,
)
DECOMPOSED_NAMES = Attribute(
    "torch.export.decomposed.operators.names",
    "string[]",
    "Operators of the program that its decomposition does not have any more, most frequent first (at most 20).",
    *phase.DECOMPOSITIONS,
    kind=Operator(),
)
DECOMPOSED_COUNTS = Attribute(
    "torch.export.decomposed.operators.counts",
    "int[]",
    "Nodes of the program for each operator that its decomposition does not have any more, most frequent first (at "
    "most 20).",
    *phase.DECOMPOSITIONS,
)
EXPORT_FAILED_REASON = Attribute(
    "torch.export.failed.reason",
    "string",
    "Why an export failed, to be read: the violated constraint, the operator or what Dynamo cannot trace, and the line "
    "of the program (`a condition depends on the result of torch.ops.aten.item.default, at models/net.py:12 in "
    "forward`).",
    phase.EXPORT,
    phase.TRACE,
    kind=ExportFailure(),
)
EXPORT_FAILED_OPERATOR = Attribute(
    "torch.export.failed.operator",
    "string",
    "The operator that an export failed for, where the exception says so: one without a kernel for fake tensors, or "
    "one whose result depends on data, which the model then uses in a condition.",
    phase.EXPORT,
    kind=Operator(),
)
VIOLATED_CONSTRAINTS = Attribute(
    "torch.export.violated_constraints",
    "string[]",
    "Dynamic dimensions for which an export failed, each with the kind of violation, `inputs[0].shape[1]: specialized "
    "to a constant` (at most 20).",
    phase.EXPORT,
    kind=Violation(),
)

# --- of the resource: see `torchspan.sdk.TorchspanResourceDetector` ---------------------------------------------------
RANK = Attribute(
    "torch.distributed.rank",
    "int",
    "Number of the process among all processes of the job, from 0 on. Of a pod in an Indexed Job of Kubernetes, its "
    "index.",
    resource=True,
)
LOCAL_RANK = Attribute(
    "torch.distributed.local_rank",
    "int",
    "Number of the process among those of the job on the same host, from 0 on.",
    resource=True,
)
WORLD_SIZE = Attribute("torch.distributed.world_size", "int", "How many processes the job has.", resource=True)
RESTART_COUNT = Attribute(
    "torch.distributed.restart_count",
    "int",
    "How often torchrun has started the processes again, or Slurm the job.",
    resource=True,
)
DISTRIBUTED_RUN_ID = Attribute(
    "torch.distributed.run.id",
    "string",
    "The id of the job: torchrun's (`--rdzv-id`), or Slurm's.",
    resource=True,
    kind=RunId(),
)
