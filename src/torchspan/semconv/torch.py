# SPDX-License-Identifier: Apache-2.0
"""Attributes about PyTorch: its version, torch.compile and torch.export."""

from __future__ import annotations

from torchspan import phase
from torchspan.semconv._export import DynamicDimension, ExportFailure, Violation
from torchspan.semconv._guards import Guard
from torchspan.semconv._operators import Operator
from torchspan.semconv._places import Place
from torchspan.semconv._sizes import Shape
from torchspan.semconv._table import Attribute, folded
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
    phase.RUN_GRAPH,
    phase.COMPILE,
    at_start=True,
    kind=CompileId(),
)


# --- frames of torch.compile ------------------------------------------------------------------------------------------
class FrameOutcome:
    """How the compilation of a frame ended: values of `torch.compile.outcome`."""

    COMPILED = "compiled"
    SKIPPED = "skipped"
    LIMIT = "limit"
    FALLEN_BACK = "fallen_back"
    FAILED = "failed"


FRAME_OUTCOME = Attribute(
    "torch.compile.outcome",
    "string",
    "How the frame ended. `compiled`: its graph runs compiled. `skipped`: Dynamo gave the frame up, and it runs "
    "eagerly. `limit`: the recompile limit was reached, so that calls for which nothing was compiled run eagerly from "
    "now on. "
    "`fallen_back`: a failure was caught, and the frame or its graph runs eagerly. `failed`: the call raised.",
    phase.COMPILE_FRAME,
    kind=Enumeration(*(value for name, value in vars(FrameOutcome).items() if name.isupper())),
)
GUARDS_COUNT = Attribute(
    "torch.compile.guards.count", "int", "Guards that each later call of the frame checks.", phase.COMPILE_FRAME
)
GRAPH_OPERATORS = Attribute(
    "torch.compile.graph.operators",
    "int",
    "Number of operators in the frame's graph; 0 without a graph.",
    phase.COMPILE_FRAME,
)
GRAPH_NODES = Attribute(
    "torch.compile.graph.nodes", "int", "Number of nodes of the frame's graph.", phase.COMPILE_FRAME
)
GRAPH_INPUTS = Attribute(
    "torch.compile.graph.inputs", "int", "Number of inputs of the frame's graph.", phase.COMPILE_FRAME
)
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
    "How many earlier compilations of the frame's code Dynamo still kept.",
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


class BreakClass:
    """Why Dynamo breaks a graph: values of `torch.compile.graph_break.class`."""

    REQUESTED = "requested"
    """The program asked for it: `torch._dynamo.graph_break()`, `torch._dynamo.skip_frame()`."""
    DISABLED = "disabled"
    """A call of a function under `torch.compiler.disable`."""
    DATA_DEPENDENT_BRANCH = "data_dependent_branch"
    """`if` or `while` about the values of a tensor."""
    DATA_DEPENDENT_VALUE = "data_dependent_value"
    """A value, or a shape, that the values of a tensor decide: `tensor.item()`, `nonzero`."""
    CONTEXT_MANAGER = "context_manager"
    EXCEPTION = "exception"
    SKIPPED_FUNCTION = "skipped_function"
    """A call of a function that Dynamo does not trace."""
    BUILTIN = "builtin"
    """A call of a function of Python's that Dynamo does not know with such arguments: `print`, `open`."""
    MODULE = "module"
    OPERATOR = "operator"
    """An operator, or a method of tensors."""
    OTHER = "other"


GRAPH_BREAK_EVENT = "torch.compile.graph_break"
"""Name of the event on the span of a frame, once a graph break."""
_BREAK_CLASSES = Enumeration(*(value for name, value in vars(BreakClass).items() if name.isupper() and name != "OTHER"))
GRAPH_BREAK_CLASS = Attribute(
    "torch.compile.graph_break.class",
    "string",
    "Why Dynamo broke the graph. `requested` and `disabled` are what the program asked for.",
    event=GRAPH_BREAK_EVENT,
    kind=_BREAK_CLASSES,
)
GRAPH_BREAK_TYPE = Attribute(
    "torch.compile.graph_break.type",
    "string",
    "PyTorch's name for this kind of graph break, as a template.",
    event=GRAPH_BREAK_EVENT,
    kind=Text(),
)
GRAPH_BREAK_REASON = Attribute(
    "torch.compile.graph_break.reason",
    "string",
    "PyTorch's explanation of the graph break, as a template.",
    event=GRAPH_BREAK_EVENT,
    kind=Text(),
)
GRAPH_BREAK_SKIPS = Attribute(
    "torch.compile.graph_break.skips_frame",
    "boolean",
    "Whether the whole frame runs eagerly because of the graph break, instead of what follows it alone.",
    event=GRAPH_BREAK_EVENT,
)
GRAPH_BREAK_CLASSES = Attribute(
    "torch.compile.graph_break.classes",
    "string[]",
    "Why the graph of the frame broke, each class once.",
    phase.COMPILE_FRAME,
    kind=_BREAK_CLASSES,
)
GRAPH_BREAK_COUNTS = Attribute(
    "torch.compile.graph_break.counts",
    "int[]",
    "How often the graph of the frame broke for each class in `torch.compile.graph_break.classes`.",
    phase.COMPILE_FRAME,
)


class Declared:
    """The APIs with which a program declares how a region is compiled: values of `torch.compile.declaration.api`."""

    DISABLE = "torch.compiler.disable"
    DISALLOW_IN_GRAPH = "torch._dynamo.disallow_in_graph"
    GRAPH_BREAK = "torch._dynamo.graph_break"
    SKIP_FRAME = "torch._dynamo.skip_frame"
    ALLOW_IN_GRAPH = "torch.compiler.allow_in_graph"
    NONSTRICT_TRACE = "torch.compiler.nonstrict_trace"
    LEAF_FUNCTION = "torch._dynamo.decorators.leaf_function"


DECLARATION_EVENT = "torch.compile.declaration"
"""Name of the event on the span of a frame, once a function that its graph keeps as a black box."""
_DECLARATIONS = (GRAPH_BREAK_EVENT, DECLARATION_EVENT)
DECLARED_API = Attribute(
    "torch.compile.declaration.api",
    "string",
    "The API by which the program asked for the graph break, or for the black box in the graph. A graph break without "
    "it was not asked for.",
    event=_DECLARATIONS,
    kind=Enumeration(*(value for name, value in vars(Declared).items() if name.isupper())),
)
DECLARED_FUNCTION = Attribute(
    "torch.compile.declaration.function",
    "string",
    "The function that the API was applied to, where PyTorch says it.",
    event=_DECLARATIONS,
    kind=Identifier(),
)
DECLARED_REASON = Attribute(
    "torch.compile.declaration.reason",
    "string",
    "The reason that the program gave to the API, as a template.",
    event=_DECLARATIONS,
    kind=Text(),
)
COMPILE_STANCE = Attribute(
    "torch.compile.stance",
    "string",
    "What `torch.compiler.set_stance` had set when the frame was compiled, where that is not the default. Under "
    "`force_eager` nothing is compiled, so no span has it.",
    phase.COMPILE_FRAME,
    at_start=True,
    kind=Enumeration(
        "force_eager", "eager_on_recompile", "fail_on_recompile", "eager_then_compile", "aot_eager_then_compile"
    ),
)


class GuardClass:
    """What a guard concerns that failed: values of `torch.compile.recompile.class`."""

    SIZE, STRIDE, RANK, DTYPE, DEVICE, REQUIRES_GRAD = "size", "stride", "rank", "dtype", "device", "requires_grad"
    SHAPE = "shape"
    """A relation between sizes or strides."""
    TYPE = "type"
    VALUE = "value"
    """A number, a text or another value of Python's."""
    IDENTITY = "identity"
    """Another object than before."""
    CONTENTS = "contents"
    """The length or the keys of a container, or the attributes of an object."""
    STATE = "state"
    """A global setting of PyTorch's: the grad mode, autocast, the default device."""
    BACKEND = "backend"
    OTHER = "other"


RECOMPILE_EVENT = "torch.compile.recompile"
"""Name of the event on the span of a frame that is compiled again."""
RECOMPILE_LIMIT_EVENT = "torch.compile.recompile_limit"
"""Name of the event on the span of a frame for which the recompile limit was reached."""
RECOMPILE_CLASS = Attribute(
    "torch.compile.recompile.class",
    "string",
    "For a frame that is to be compiled again: what the failed guard concerns.",
    phase.COMPILE_FRAME,
    event=(RECOMPILE_EVENT, RECOMPILE_LIMIT_EVENT),
    kind=Enumeration(*(value for name, value in vars(GuardClass).items() if name.isupper() and name != "OTHER")),
)
RECOMPILE_REASON = Attribute(
    "torch.compile.recompile.reason",
    "string",
    "Of a frame that is to be compiled again: the guard that failed, `tensor 'x' size mismatch at index 0. expected 3, "
    "actual 4`. Sizes and data types stay; every other literal is `?`.",
    phase.COMPILE_FRAME,
    event=(RECOMPILE_EVENT, RECOMPILE_LIMIT_EVENT),
    kind=Guard(),
)
RECOMPILE_LIMIT = Attribute(
    "torch.compile.recompile.limit",
    "string",
    "The setting of `torch._dynamo.config` that the frame has reached: calls for which nothing was compiled run "
    "eagerly from now on.",
    phase.COMPILE_FRAME,
    event=RECOMPILE_LIMIT_EVENT,
    kind=Enumeration("recompile_limit", "accumulated_recompile_limit"),
)
GUARD_CHECK_RESULT = Attribute(
    "torch.compile.guard_check.result",
    "string",
    "Whether code that was compiled before fits a call: `hit` or `miss`.",
    metric=True,
    kind=Enumeration("hit", "miss"),
)

RUN_GRAPH_FOLDED, RUN_GRAPH_FOLDED_SUM, RUN_GRAPH_FOLDED_MAX = folded(
    phase.RUN_GRAPH,
    count="Runs of compiled graphs below this span that have no span because of the rate limits; on the user's spans.",
    total="Seconds that the runs counted in `torch.run_graph.folded.count` took in all; on the user's spans.",
    longest="Seconds of the longest run counted in `torch.run_graph.folded.count`; on the user's spans.",
)
RUN_DISABLED_FOLDED, RUN_DISABLED_FOLDED_SUM, RUN_DISABLED_FOLDED_MAX = folded(
    phase.RUN_DISABLED,
    count="Calls of disabled functions below this span that have no span because of the rate limits; on the user's "
    "spans.",
    total="Seconds that the calls counted in `torch.run_disabled.folded.count` took in all; on the user's spans.",
    longest="Seconds of the longest call counted in `torch.run_disabled.folded.count`; on the user's spans.",
)
COMPILE_PHASE_NAME = Attribute(
    "torch.compile.phase.name",
    "string",
    "PyTorch's own name of the phase: `bytecode_tracing`, `inductor_compile`.",
    phase.COMPILE_PHASE,
    at_start=True,
    kind=Identifier(),
)

WAIT_IDS = Attribute(
    "torch.compile.wait.ids",
    "string[]",
    "Compile ids of what other threads compiled while this one waited, first to last (at most 8).",
    phase.COMPILE_WAIT,
    kind=CompileId(),
)
WORKER_KIND = Attribute(
    "torch.compile.worker.kind",
    "string",
    "Where Inductor has the work done: in a `thread` of this process, or in another `process`.",
    phase.COMPILE_WORKER,
    at_start=True,
    kind=Enumeration("thread", "process"),
)

# --- torch.export -----------------------------------------------------------------------------------------------------
STRICT = Attribute(
    "torch.export.strict",
    "boolean",
    "Whether the export runs in strict mode.",
    phase.TRACE,
    phase.EXPORT,
    at_start=True,
)
EXPORT_DRAFT = Attribute(
    "torch.export.draft",
    "boolean",
    "Whether it is a draft (`torch.export.draft_export`), which continues where an export fails; absent for others.",
    phase.EXPORT,
    at_start=True,
)
_ISSUE_CLASSES = Enumeration("missing_fake_kernel", "data_dependent_error", "guard_added", "mismatched_fake_kernel")
EXPORT_ISSUE_CLASSES = Attribute(
    "torch.export.issues.classes",
    "string[]",
    "Kinds of problem in the report of a draft, in PyTorch's words, each once. A draft without problems has none.",
    phase.EXPORT,
    kind=_ISSUE_CLASSES,
)
EXPORT_ISSUE_COUNTS = Attribute(
    "torch.export.issues.counts",
    "int[]",
    "Problems in the report of a draft, for each kind in `torch.export.issues.classes`.",
    phase.EXPORT,
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
    "The operator that an export failed for, where the exception names it: one without a kernel for fake tensors, or "
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
