# SPDX-License-Identifier: Apache-2.0
"""Attributes about PyTorch: its version, torch.compile and torch.export."""

from __future__ import annotations

from torchspan.words import phase
from torchspan.words.redaction.export_text import DynamicDimension, ExportFailure, Violation
from torchspan.words.redaction.guard_text import GuardText
from torchspan.words.redaction.kinds_of_text import (
    CompileId,
    Enumeration,
    GraphBreakType,
    Identifier,
    KeyedDigest,
    KeyPart,
    LineText,
    PlaceText,
    ProgramText,
    RunId,
    Text,
    Version,
)
from torchspan.words.redaction.operator_text import Operator, RecordedOperator
from torchspan.words.redaction.size_text import DataType, ShapeText
from torchspan.words.semconv._table import Attribute, folded

TORCH_VERSION = Attribute(
    "torch.version", Version(), "Version of PyTorch.", *phase.ENTRIES, at_start=True, resource=True
)
COMPILE_ID = Attribute(
    "torch.compile.id",
    CompileId(),
    "Dynamo's compile id, `<frame>/<recompilation>`, such as `0/1`.",
    phase.COMPILE_FRAME,
    phase.COMPILE_BACKWARD,
    phase.RUN_GRAPH,
    phase.COMPILE,
    phase.PROGRESS,
    at_start=True,
    stable=True,
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
    Enumeration.of(FrameOutcome),
    "How the compilation of the frame ended. `compiled`: the frame's graph runs compiled. `skipped`: Dynamo gave up "
    "on the frame, which runs eagerly. `limit`: the frame reached the recompile limit, so calls for which nothing was "
    "compiled run eagerly from now on. `fallen_back`: a failure was caught, and the frame or its graph runs eagerly. "
    "`failed`: the call raised an exception.",
    phase.COMPILE_FRAME,
    stable=True,
)
GUARDS_COUNT = Attribute(
    "torch.compile.guards.count",
    "int",
    "Number of guards that each later call of the frame checks.",
    phase.COMPILE_FRAME,
)
GRAPH_OPERATORS = Attribute(
    "torch.compile.graph.operators",
    "int",
    "Number of operators in the frame's graph; 0 without a graph.",
    phase.COMPILE_FRAME,
)
_CACHE_OUTCOMES = Enumeration("hit", "miss", "bypass", "disabled")
_COMPILED = (phase.COMPILE_FRAME, phase.COMPILE_BACKWARD)
AOTAUTOGRAD_CACHE = Attribute(
    "torch.compile.aotautograd_cache.result",
    _CACHE_OUTCOMES,
    "Result of the lookup in AOTAutograd's cache of compiled graphs: `hit`, `miss`, `bypass` if the cache does not "
    "accept the graph, or `disabled`.",
    *_COMPILED,
    stable=True,
)
AOTAUTOGRAD_CACHE_KEY = Attribute(
    "torch.compile.aotautograd_cache.key",
    KeyedDigest(),
    "Digest of the key that was looked up. Lookups with the same digest look for the same entry.",
    *_COMPILED,
)
AOTAUTOGRAD_CACHE_KEY_PARTS = Attribute(
    "torch.compile.aotautograd_cache.key_parts",
    [KeyPart()],
    "Names of the parts of the key, as PyTorch calls them (at most 64). More than 16 parts of one name are one part, "
    "such as `example_inputs[*]` and `inductor_config[triton.*]`; a setting that was changed is a part of its own. "
    "`others` has the parts beyond the limit. PyTorch 2.12 and later report parts only while AOTAutograd's debug log "
    "is on.",
    *_COMPILED,
)
AOTAUTOGRAD_CACHE_KEY_DIGESTS = Attribute(
    "torch.compile.aotautograd_cache.key_digests",
    [KeyedDigest()],
    "Digest of each part in `torch.compile.aotautograd_cache.key_parts`. A part with another digest than in "
    "another lookup is why the two keys differ.",
    *_COMPILED,
)
AOTAUTOGRAD_CACHE_BYPASS_REASON = Attribute(
    "torch.compile.aotautograd_cache.bypass_reason",
    Text(),
    "PyTorch's reason why the cache does not accept the graph.",
    *_COMPILED,
)
AOTAUTOGRAD_CACHE_SAVED = Attribute(
    "torch.compile.aotautograd_cache.saved",
    "double",
    "Seconds that the compilation took whose result the cache returned, forward and backward graph, as PyTorch reports "
    "them: whole milliseconds.",
    *_COMPILED,
)
INDUCTOR_CACHE = Attribute(
    "torch.compile.inductor_cache.result",
    _CACHE_OUTCOMES,
    "Result of the lookup in Inductor's cache of compiled graphs: `hit`, `miss`, `bypass` if the cache does not "
    "accept the graph, or `disabled`.",
    *_COMPILED,
    stable=True,
)
INDUCTOR_CACHE_KEY = Attribute(
    "torch.compile.inductor_cache.key",
    KeyedDigest(),
    "Digest of the key that was looked up. Lookups with the same digest look for the same entry.",
    *_COMPILED,
)
INDUCTOR_CACHE_KEY_PARTS = Attribute(
    "torch.compile.inductor_cache.key_parts",
    [KeyPart()],
    "Names of the parts of the key, as PyTorch calls them (at most 64). More than 16 parts of one name are one part, "
    "such as `example_inputs[*]` and `inductor_config[triton.*]`; a setting that was changed is a part of its own. "
    "`others` has the parts beyond the limit.",
    *_COMPILED,
)
INDUCTOR_CACHE_KEY_DIGESTS = Attribute(
    "torch.compile.inductor_cache.key_digests",
    [KeyedDigest()],
    "Digest of each part in `torch.compile.inductor_cache.key_parts`. A part with another digest than in "
    "another lookup is why the two keys differ.",
    *_COMPILED,
)
INDUCTOR_CACHE_BYPASS_REASON = Attribute(
    "torch.compile.inductor_cache.bypass_reason",
    Text(),
    "PyTorch's reason why the cache does not accept the graph.",
    *_COMPILED,
)
INDUCTOR_CACHE_SAVED = Attribute(
    "torch.compile.inductor_cache.saved",
    "double",
    "Seconds that the compilation took whose result the cache returned.",
    *_COMPILED,
)
INDUCTOR_CACHE_DISABLING_VARIABLES = Attribute(
    "torch.compile.inductor_cache.disabling_variables",
    [
        Enumeration(
            "TORCHINDUCTOR_FORCE_DISABLE_CACHES", "TORCH_COMPILE_FORCE_DISABLE_CACHES", "TORCHINDUCTOR_FX_GRAPH_CACHE"
        )
    ],
    "Variables of the environment that disable the cache. Absent if the program does.",
    *_COMPILED,
)
COMPILE_FAILURE_TYPE = Attribute(
    "torch.compile.failure.type",
    Identifier(),
    "Class of the exception because of which the frame was not compiled. Set even if the program never sees the "
    "exception.",
    phase.COMPILE_FRAME,
    stable=True,
)
COMPILE_FAILURE_REASON = Attribute(
    "torch.compile.failure.reason",
    Text(),
    "PyTorch's description of the failure because of which the frame was not compiled, as in the table of messages.",
    phase.COMPILE_FRAME,
    stable=True,
)
COMPILE_FAILURE_LINE = Attribute(
    "torch.compile.failure.line",
    "int",
    "Number of the line from which the frame's failure came, in the file `torch.compile.failure.file`.",
    phase.COMPILE_FRAME,
)
COMPILE_FAILURE_FILE = Attribute(
    "torch.compile.failure.file",
    PlaceText(),
    "File of the program from which the frame's failure came.",
    phase.COMPILE_FRAME,
)


class BreakClass:
    """Why Dynamo breaks a graph: values of `torch.compile.graph_break.class`."""

    REQUESTED = "requested"
    """The program asked for it: `torch._dynamo.graph_break()`, `torch._dynamo.skip_frame()`."""
    DISABLED = "disabled"
    """A call of a function under `torch.compiler.disable`."""
    DATA_DEPENDENT_BRANCH = "data_dependent_branch"
    """An `if` or `while` whose condition depends on the values of a tensor."""
    DATA_DEPENDENT_VALUE = "data_dependent_value"
    """A value or a shape that depends on the values of a tensor: `tensor.item()`, `nonzero`."""
    CONTEXT_MANAGER = "context_manager"
    EXCEPTION = "exception"
    SKIPPED_FUNCTION = "skipped_function"
    """A call of a function that Dynamo does not trace."""
    BUILTIN = "builtin"
    """A call of a Python builtin that Dynamo does not support with such arguments: `print`, `open`."""
    MODULE = "module"
    OPERATOR = "operator"
    """An operator, or a method of tensors."""
    OTHER = "other"


GRAPH_BREAK_EVENT = "torch.compile.graph_break"
"""Event of a graph break, on the span of the frame."""
_BREAK_CLASSES = Enumeration.of(BreakClass)
GRAPH_BREAK_CLASS = Attribute(
    "torch.compile.graph_break.class",
    _BREAK_CLASSES,
    "Reason why Dynamo broke the graph. `requested` and `disabled` mean that the program asked for the graph break.",
    event=GRAPH_BREAK_EVENT,
    stable=True,
)
GRAPH_BREAK_TYPE = Attribute(
    "torch.compile.graph_break.type",
    GraphBreakType(),
    "PyTorch's name for this kind of graph break.",
    event=GRAPH_BREAK_EVENT,
    stable=True,
)
GRAPH_BREAK_REASON = Attribute(
    "torch.compile.graph_break.reason",
    Text(),
    "PyTorch's explanation of the graph break, as in the table of messages.",
    event=GRAPH_BREAK_EVENT,
)
GRAPH_BREAK_HINTS = Attribute(
    "torch.compile.graph_break.hints",
    [Text()],
    "PyTorch's hints how to avoid the graph break (at most 5): those that are constants of PyTorch's code.",
    event=GRAPH_BREAK_EVENT,
)
GRAPH_BREAK_INSIDE = Attribute(
    "torch.compile.graph_break.inside",
    LineText(),
    "Line of a library at which the graph broke: what the line of the program calls. Absent if the graph broke at that "
    "line itself.",
    event=GRAPH_BREAK_EVENT,
)
GRAPH_BREAK_SKIPS = Attribute(
    "torch.compile.graph_break.skips_frame",
    "boolean",
    "Whether the graph break makes the whole frame run eagerly, instead of only splitting its graph.",
    event=GRAPH_BREAK_EVENT,
)
GRAPH_BREAK_CLASSES = Attribute(
    "torch.compile.graph_break.classes",
    [_BREAK_CLASSES],
    "Reasons why Dynamo broke the graph of the frame, each class once.",
    phase.COMPILE_FRAME,
    stable=True,
)
GRAPH_BREAK_COUNTS = Attribute(
    "torch.compile.graph_break.counts",
    "int[]",
    "Number of graph breaks of the frame for each class in `torch.compile.graph_break.classes`.",
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
"""Event of a function that the graph of a frame keeps as a black box, on the span of the frame."""
_DECLARATIONS = (GRAPH_BREAK_EVENT, DECLARATION_EVENT)
DECLARED_API = Attribute(
    "torch.compile.declaration.api",
    Enumeration.of(Declared),
    "API by which the program asked for the graph break, or for the black box in the graph. Absent if the program did "
    "not ask for the graph break.",
    event=_DECLARATIONS,
)
DECLARED_FUNCTION = Attribute(
    "torch.compile.declaration.function",
    Identifier(),
    "Function to which the program applied the API in `torch.compile.declaration.api`. Absent if PyTorch does not "
    "report it.",
    event=_DECLARATIONS,
)
DECLARED_REASON = Attribute(
    "torch.compile.declaration.reason",
    ProgramText(),
    "Reason that the program passed to the API in `torch.compile.declaration.api`. Exporters get it only with "
    "`TORCHSPAN_CAPTURE=text`.",
    event=_DECLARATIONS,
)
COMPILE_STANCE = Attribute(
    "torch.compile.stance",
    Enumeration(
        "force_eager", "eager_on_recompile", "fail_on_recompile", "eager_then_compile", "aot_eager_then_compile"
    ),
    "Stance set by `torch.compiler.set_stance` when the frame was compiled. Absent for the default stance. Under "
    "`force_eager` nothing is compiled, so no span has that value.",
    phase.COMPILE_FRAME,
    at_start=True,
)


class GuardClass:
    """What a failed guard concerns: values of `torch.compile.recompile.class`."""

    SIZE, STRIDE, RANK, DTYPE, DEVICE, REQUIRES_GRAD = "size", "stride", "rank", "dtype", "device", "requires_grad"
    PARAMETER = "parameter"
    """A size of a parameter, which PyTorch takes for a constant."""
    INFERENCE_MODE = "inference_mode"
    """Whether autograd knows a tensor: it does not in `torch.inference_mode`."""
    DISPATCH_KEYS = "dispatch_keys"
    """Another kind of tensor on the same device, such as a sparse or a conjugate one."""
    SHAPE = "shape"
    """A relation between sizes or strides."""
    TYPE = "type"
    VALUE = "value"
    """A number, a string or another Python value."""
    MODULE_INT = "module_int"
    """An int that a module has, which PyTorch takes for a constant."""
    TRAINING = "training"
    """Whether a module is in training mode."""
    IDENTITY = "identity"
    """A different object than before."""
    CONTENTS = "contents"
    """The length or the keys of a container, or the attributes of an object."""
    STATE = "state"
    """A global setting of PyTorch: the grad mode, autocast, the default device."""
    BACKEND = "backend"
    SEVERAL = "several"
    """Not the same in the guards of all compiled versions."""
    OTHER = "other"


RECOMPILE_EVENT = "torch.compile.recompile"
"""Event of a frame that is compiled again, on the span of the frame."""
RECOMPILE_LIMIT_EVENT = "torch.compile.recompile_limit"
"""Event of a frame that has reached a recompile limit, on the span of the frame."""
RECOMPILE_CLASS = Attribute(
    "torch.compile.recompile.class",
    Enumeration.of(GuardClass),
    "What the failed guards concern, such as `size` or `dtype`; `several` if those of the compiled versions concern "
    "different things. Present if Dynamo is to compile the frame again because none fits, also if a recompile limit "
    "then prevents the compilation.",
    phase.COMPILE_FRAME,
    event=(RECOMPILE_EVENT, RECOMPILE_LIMIT_EVENT),
    stable=True,
)
RECOMPILE_REASON = Attribute(
    "torch.compile.recompile.reason",
    GuardText(),
    "The guard that failed, such as `tensor 'x' size mismatch at index 0. expected 3, actual 4`; of several compiled "
    "versions, the guard of the one that Dynamo tried first. Sizes and data types are kept; every other literal is "
    "`?`. Present if Dynamo is to compile the frame again because no version fits, also if a recompile limit then "
    "prevents the compilation.",
    phase.COMPILE_FRAME,
    event=(RECOMPILE_EVENT, RECOMPILE_LIMIT_EVENT),
    stable=True,
)
OPEN_SIZES_ARGUMENTS = Attribute(
    "torch.compile.recompile.open_sizes.arguments",
    [Identifier()],
    "Arguments whose sizes differ from those that an earlier version of the function was compiled for, if this version "
    "leaves them open, also fits the earlier ones, and differs in nothing else. An argument is named once for each "
    "such axis.",
    phase.COMPILE_FRAME,
)
OPEN_SIZES_AXES = Attribute(
    "torch.compile.recompile.open_sizes.axes",
    "int[]",
    "The axis of each argument in `torch.compile.recompile.open_sizes.arguments`.",
    phase.COMPILE_FRAME,
)
RECOMPILE_REASONS = Attribute(
    "torch.compile.recompile.reasons",
    [GuardText()],
    "The guard of each compiled version that failed, behind the compile id of the version: `0/1: n == ?` (at most 8)."
    " Present if there are several versions.",
    phase.COMPILE_FRAME,
)
RECOMPILE_LIMIT = Attribute(
    "torch.compile.recompile.limit",
    Enumeration("recompile_limit", "accumulated_recompile_limit"),
    "Setting of `torch._dynamo.config` whose limit the frame has reached. Calls for which nothing was compiled run "
    "eagerly from now on.",
    phase.COMPILE_FRAME,
    event=RECOMPILE_LIMIT_EVENT,
    stable=True,
)
RECOMPILE_LIMIT_VALUE = Attribute(
    "torch.compile.recompile.limit_value",
    "int",
    "The value of the setting in `torch.compile.recompile.limit` in the thread that reached it: each thread has its "
    "own.",
    phase.COMPILE_FRAME,
)

RUN_GRAPH_GPU_DURATION = Attribute(
    "torch.run_graph.gpu_duration",
    "double",
    "Time on the device from the start of the run to its end, in seconds, between two CUDA events on the stream that "
    "the program uses. With `TORCHSPAN_GPU_TIME=sampled`.",
    phase.RUN_GRAPH,
)
RUN_GRAPH_FOLDED, RUN_GRAPH_FOLDED_SUM, RUN_GRAPH_FOLDED_MAX = folded(
    phase.RUN_GRAPH,
    count="Number of runs of compiled graphs below this span that have no span because of the rate limits. Set on the "
    "user's spans.",
    total="Total duration of the runs counted in `torch.run_graph.folded.count`, in seconds. Set on the user's spans.",
    longest="Duration of the longest run counted in `torch.run_graph.folded.count`, in seconds. Set on the user's "
    "spans.",
)
COMPILE_PHASE_NAME = Attribute(
    "torch.compile.phase.name",
    Identifier(),
    "PyTorch's own name of the phase, such as `bytecode_tracing` or `inductor_compile`.",
    phase.COMPILE_PHASE,
    phase.PROGRESS,
    at_start=True,
    stable=True,
)

WAIT_IDS = Attribute(
    "torch.compile.wait.ids",
    [CompileId()],
    "Compile ids of the compilations in other threads that ran while this thread waited, in order (at most 8).",
    phase.COMPILE_WAIT,
    phase.PROGRESS,
)
WORKER_KIND = Attribute(
    "torch.compile.worker.kind",
    Enumeration("thread", "process"),
    "Where Inductor runs the work: in a `thread` of this process, or in another `process`.",
    phase.COMPILE_WORKER,
    at_start=True,
)

# --- models and graphs, also of Torch-TensorRT ------------------------------------------------------------------------
MODEL_CLASS = Attribute(
    "torch.model.class",
    Identifier(),
    "Class of the program's model. On a conversion and on a run, of the model that was compiled. With "
    "`torch.compile`, the class of the module whose method is compiled. Absent for a function, and for a run of an "
    "engine from a file.",
    *phase.LOWERING,
    phase.TRACE,
    phase.EXPORT,
    phase.CONVERT,
    phase.EXECUTE,
    phase.PROGRESS,
    at_start=True,
    stable=True,
)
NODES_COUNT = Attribute(
    "torch.graph.nodes.count", "int", "Number of nodes in the resulting graph.", phase.TRACE, phase.EXPORT
)
_TRANSFORMS = (phase.LOWER_PRE_EXPORT, phase.DECOMPOSE, phase.EXPORT_DECOMPOSE, phase.LOWER, phase.PASS)
NODES_BEFORE = Attribute(
    "torch.graph.nodes.before",
    "int",
    "Number of nodes in the graph before the transformation.",
    *_TRANSFORMS,
    at_start=True,
)
NODES_AFTER = Attribute(
    "torch.graph.nodes.after",
    "int",
    "Number of nodes in the graph after the transformation.",
    *_TRANSFORMS,
    phase.EXPORT_CAPTURE,
)
_TAKES_INPUTS = (phase.CONVERT_TO_ENGINE, phase.TRACE, phase.EXPORT, phase.CONVERT, phase.EXECUTE, phase.OPERATOR)
INPUT_SHAPES = Attribute(
    "torch.inputs.shapes",
    [ShapeText()],
    "Shape of each input, such as `[1, 16]` (at most 20). A dynamic dimension is written as `1..4..8` (min, opt, max).",
    *_TAKES_INPUTS,
    at_start=True,
)
INPUT_DTYPES = Attribute(
    "torch.inputs.dtypes",
    [DataType()],
    "Data type of each input (at most 20).",
    *_TAKES_INPUTS,
    at_start=True,
)

# --- operators --------------------------------------------------------------------------------------------------------
OPERATOR_NAME = Attribute(
    "torch.operator.name",
    RecordedOperator(),
    "Name of the operator, with its overload: `aten.add.Tensor`. `?` for a range of the program; its name is in the "
    "user's own file.",
    phase.OPERATOR,
)
OPERATOR_SCOPE = Attribute(
    "torch.operator.scope",
    Enumeration("backward_function", "torchscript_function", "user_scope"),
    "What the operator is, in the words of `at::RecordScope`: `backward_function`, `torchscript_function` or "
    "`user_scope`. Absent for a `function`.",
    phase.OPERATOR,
)
OPERATORS_NAMES = Attribute(
    "torch.operators.names",
    [RecordedOperator()],
    "Names of the operators that ran inside this span, at most 40, longest first by `torch.operators.self_durations`. "
    "Operators inside others are included down to `torch.operators.depth`, whether or not they have spans.",
    *phase.ROOTS,
)
OPERATORS_COUNTS = Attribute(
    "torch.operators.counts", "int[]", "Number of times that each of `torch.operators.names` ran.", *phase.ROOTS
)
OPERATORS_DURATIONS = Attribute(
    "torch.operators.durations",
    "double[]",
    "Total duration of each of `torch.operators.names`, in seconds, including the operators inside it.",
    *phase.ROOTS,
)
OPERATORS_SELF = Attribute(
    "torch.operators.self_durations",
    "double[]",
    "Total duration of each of `torch.operators.names`, in seconds, without the recorded operators inside it on the "
    "same thread.",
    *phase.ROOTS,
)
OPERATORS_LONGEST = Attribute(
    "torch.operators.max_durations",
    "double[]",
    "Duration of the longest run of each of `torch.operators.names`, in seconds.",
    *phase.ROOTS,
)
OPERATORS_COUNT = Attribute(
    "torch.operators.count",
    "int",
    "Number of operators that were recorded inside this span, also of those that `torch.operators.names` omits.",
    *phase.ROOTS,
)
OPERATORS_FOLDED = Attribute(
    "torch.operators.folded",
    "int",
    "Number of recorded operators without a span: those that are shorter than the minimum, and those beyond the 500 "
    "longest ones.",
    *phase.ROOTS,
)
OPERATORS_SUPPRESSED = Attribute(
    "torch.operators.suppressed",
    "int",
    "Number of operators that were not recorded, because a compilation or an export ran them, or because their tensors "
    "had no data.",
    *phase.ROOTS,
)
OPERATORS_DEPTH = Attribute(
    "torch.operators.depth",
    "int",
    "Depth to which operators inside operators are recorded. Deeper ones count as part of the operator around them.",
    *phase.ROOTS,
    at_start=True,
)
OPERATORS_MIN_DURATION = Attribute(
    "torch.operators.min_duration",
    "double",
    "Seconds that an operator takes at least to have a span, as the block asks for it.",
    phase.OPERATORS,
    at_start=True,
)
OPERATORS_SHAPES = Attribute(
    "torch.operators.shapes",
    "boolean",
    "Whether the block asks for the shapes of operators' tensors.",
    phase.OPERATORS,
    at_start=True,
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
DYNAMIC_SHAPES = Attribute(
    "torch.export.dynamic_shapes",
    [DynamicDimension()],
    "Dimensions that the caller asked to keep dynamic, each with its range or hint, such as `inputs[0].shape[1]: [1, "
    "8]` (at most 20). The index after `inputs` is the position among the parameters of `forward`.",
    phase.EXPORT,
    at_start=True,
)
EXPORT_FAILED_REASON = Attribute(
    "torch.export.failed.reason",
    ExportFailure(),
    "Reason why the export failed, as a sentence for people: the violated constraint, the operator, or the code that "
    "Dynamo cannot trace, and the line of the program. For example, `a condition depends on the result of "
    "torch.ops.aten.item.default, at models/net.py:12 in forward`.",
    phase.EXPORT,
    phase.TRACE,
)
EXPORT_FAILED_OPERATOR = Attribute(
    "torch.export.failed.operator",
    Operator(),
    "Operator because of which the export failed. Either it has no kernel for fake tensors, or its result depends on "
    "data and decides a condition in the model. Absent if the exception names no operator.",
    phase.EXPORT,
)
VIOLATED_CONSTRAINTS = Attribute(
    "torch.export.violated_constraints",
    [Violation()],
    "Dynamic dimensions because of which the export failed, each with the kind of violation, such as "
    "`inputs[0].shape[1]: specialized to a constant` (at most 20).",
    phase.EXPORT,
)

# --- of the resource: see `torchspan.sdk.TorchspanResourceDetector` ---------------------------------------------------
RANK = Attribute(
    "torch.distributed.rank",
    "int",
    "Number of the process among all processes of the job, starting from 0. In a pod of a Kubernetes Indexed Job, the "
    "index of the pod.",
    resource=True,
)
LOCAL_RANK = Attribute(
    "torch.distributed.local_rank",
    "int",
    "Number of the process among the processes of the job on the same host, starting from 0.",
    resource=True,
)
WORLD_SIZE = Attribute("torch.distributed.world_size", "int", "Number of processes in the job.", resource=True)
RESTART_COUNT = Attribute(
    "torch.distributed.restart_count",
    "int",
    "Number of times that torchrun has restarted the processes, or Slurm the job.",
    resource=True,
)
DISTRIBUTED_RUN_ID = Attribute(
    "torch.distributed.run.id",
    RunId(),
    "Id of the job: torchrun's (`--rdzv-id`), or Slurm's.",
    resource=True,
)
