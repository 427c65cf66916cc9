# SPDX-License-Identifier: Apache-2.0
"""Attributes about PyTorch: its version, torch.compile and torch.export."""

from __future__ import annotations

from torchspan import phase
from torchspan.semconv._export import DynamicDimension, ExportFailure, Violation
from torchspan.semconv._operators import Operator
from torchspan.semconv._places import Place
from torchspan.semconv._sizes import Shape
from torchspan.semconv._table import Attribute
from torchspan.semconv._values import CompileId, Enumeration, Identifier, RunId, Text, Version

TORCH_VERSION = Attribute(
    "torch.version", "string", "Version of PyTorch.", *phase.ENTRIES, at_start=True, resource=True, kind=Version()
)
COMPILE_ID = Attribute(
    "torch.compile.id",
    "string",
    "Dynamo's compile id, `frame/recompile`.",
    phase.COMPILE_FRAME,
    phase.COMPILE_BACKWARD,
    phase.COMPILE,
    at_start=True,
    kind=CompileId(),
)


# --- frames of torch.compile ------------------------------------------------------------------------------------------
class CompileOutcome:
    """How the compilation of a frame ended: values of `torch.compile.outcome`."""

    COMPILED = "compiled"
    SKIPPED = "skipped"
    LIMIT = "limit"
    FALLEN_BACK = "fallen_back"
    FAILED = "failed"


COMPILE_OUTCOME = Attribute(
    "torch.compile.outcome",
    "string",
    "How the frame ended. `compiled`: its graph runs compiled. `skipped`: Dynamo gave the frame up, and it runs "
    "eagerly. `limit`: the recompile limit was reached, so that calls for which nothing was compiled run eagerly from "
    "now on. "
    "`fallen_back`: a failure was caught, and the frame or its graph runs eagerly. `failed`: the call raised.",
    phase.COMPILE_FRAME,
    kind=Enumeration(*(value for name, value in vars(CompileOutcome).items() if name.isupper())),
)
GUARDS_COUNT = Attribute(
    "torch.compile.guards.count", "int", "Guards that each later call of the frame checks.", phase.COMPILE_FRAME
)
GRAPH_OPERATORS = Attribute(
    "torch.compile.graph.operators", "int", "Operators in the frame's graph; 0 without a graph.", phase.COMPILE_FRAME
)
GRAPH_NODES = Attribute("torch.compile.graph.nodes", "int", "Nodes of the frame's graph.", phase.COMPILE_FRAME)
GRAPH_INPUTS = Attribute("torch.compile.graph.inputs", "int", "Inputs of the frame's graph.", phase.COMPILE_FRAME)
COMPILE_ATTEMPTS = Attribute(
    "torch.compile.attempts",
    "int",
    "How often Dynamo began to trace the frame: it starts again at a graph break, for one.",
    phase.COMPILE_FRAME,
)
RESTART_REASONS = Attribute(
    "torch.compile.restart.reasons",
    "string[]",
    "Why Dynamo began again to trace the frame, the first line of each reason.",
    phase.COMPILE_FRAME,
    kind=Text(),
)
COMPILE_ENTRIES = Attribute(
    "torch.compile.entries",
    "int",
    "How often the code of the frame had been compiled before and was still kept.",
    phase.COMPILE_FRAME,
)
_CACHE_OUTCOMES = Enumeration("hit", "miss", "bypass")
AOTAUTOGRAD_CACHE = Attribute(
    "torch.compile.cache.aotautograd",
    "string",
    "What AOTAutograd's cache of compiled graphs answered: `hit`, `miss`, or `bypass` for a graph that it does not "
    "take.",
    phase.COMPILE_FRAME,
    phase.COMPILE_BACKWARD,
    kind=_CACHE_OUTCOMES,
)
INDUCTOR_CACHE = Attribute(
    "torch.compile.cache.inductor",
    "string",
    "What Inductor's cache of compiled graphs answered: `hit`, `miss`, or `bypass` for a graph that it does not take.",
    phase.COMPILE_FRAME,
    phase.COMPILE_BACKWARD,
    kind=_CACHE_OUTCOMES,
)
COMPILE_FAILURE_TYPE = Attribute(
    "torch.compile.failure.type",
    "string",
    "Class of the failure for which the frame is not compiled, also where the program never sees it.",
    phase.COMPILE_FRAME,
    kind=Identifier(),
)
COMPILE_FAILURE_REASON = Attribute(
    "torch.compile.failure.reason",
    "string",
    "First line of what PyTorch says about the failure for which the frame is not compiled, as a template.",
    phase.COMPILE_FRAME,
    kind=Text(),
)
COMPILE_FAILURE_LINE = Attribute(
    "torch.compile.failure.line",
    "int",
    "The line that the frame's failure came from, in the file that `torch.compile.failure.file` names.",
    phase.COMPILE_FRAME,
)
COMPILE_FAILURE_FILE = Attribute(
    "torch.compile.failure.file",
    "string",
    "The file of the program that the frame's failure came from.",
    phase.COMPILE_FRAME,
    kind=Place(),
)
COMPILE_PHASE_NAME = Attribute(
    "torch.compile.phase.name",
    "string",
    "PyTorch's own name of the phase: `bytecode_tracing`, `inductor_compile`.",
    phase.COMPILE_PHASE,
    at_start=True,
    kind=Identifier(),
)

# --- torch.export -----------------------------------------------------------------------------------------------------
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
