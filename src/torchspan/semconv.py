# SPDX-License-Identifier: Apache-2.0
"""The tables of attributes and metrics: everything that torchspan emits, with its type and meaning.

These tables are the contract. `docs/semantic-conventions.md` is generated from them (`make docs`), the test suite
compares them with everything the tests emitted, both ways. An `Attribute` is the key itself, so a row is used
where the key is needed: ``attributes[semconv.ENGINE_NAME] = name``; so is a `Metric` its name.

Keys under `torch_tensorrt.`, `tensorrt.` and `torch.` belong to the library whose word they are; `torchspan.` is
about the observation itself. Keys without a prefix of ours are those of the OpenTelemetry conventions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from torchspan import phase
from torchspan.phase import Phase

if TYPE_CHECKING:
    from typing_extensions import Self

AttributeType = Literal["string", "int", "double", "boolean", "string[]", "int[]", "double[]"]

SCHEMA_URL = "https://opentelemetry.io/schemas/1.44.0"
"""The version of the OpenTelemetry conventions whose keys are used unchanged."""

SCOPE_NAME = "torchspan"
"""The instrumentation scope of every span and metric."""


class Attribute(str):
    """One row: a key together with its type, its meaning and the phases whose spans may carry it.

    `on` empty means: any span of torchspan, or one of the user's (then `brief` says so). `event` names the span
    event that carries the key instead, or, where `on` names spans, as well. `at_start` says that a sampler sees it where it is known by then. `is_text`
    marks what somebody wrote: it is redacted unless `TORCHSPAN_CAPTURE=text`. `metric`: measurements carry it and no
    span does.
    """

    __slots__ = ("at_start", "brief", "event", "is_text", "metric", "on", "type")

    type: AttributeType
    brief: str
    on: tuple[Phase, ...]
    event: str | None
    at_start: bool
    is_text: bool
    metric: bool

    def __new__(
        cls,
        key: str,
        type: AttributeType,  # noqa: A002 - the word of the OpenTelemetry registry
        brief: str,
        *on: Phase,
        event: str | None = None,
        at_start: bool = False,
        is_text: bool = False,
        metric: bool = False,
    ) -> Self:
        self = super().__new__(cls, key)
        self.type, self.brief, self.on, self.event, self.at_start = type, brief, on, event, at_start
        self.is_text, self.metric = is_text, metric
        return self


A = Attribute

_PLAIN = (phase.PARSE, phase.BUILD_ENGINE, phase.DESERIALIZE_ENGINE, phase.CREATE_CONTEXT, phase.RUN_CONTEXT)
"""What programs do with TensorRT itself; with no span of ours around it, it carries the versions."""

# --- about the observation ------------------------------------------------------------------------------------
KEEP = A("torchspan.keep", "boolean", "Work worth keeping whatever the sampling rate: tail sampling asks for this.", *(p for p in phase.PHASES if p.keep), at_start=True)  # fmt: skip
STAND_IN = A("torchspan.stand_in", "boolean", "This step was done by `torchspan.testing`'s stand-in for a GPU; its duration means nothing.", phase.DESERIALIZE_ENGINE, phase.CREATE_CONTEXT, phase.SETUP_ENGINE, phase.EXECUTE, phase.RUN_CONTEXT, at_start=True)  # fmt: skip
WHILE_SERVING = A("torchspan.while_serving", "boolean", "The compilation began after `torchspan.mark_ready()` or below a SERVER span of the same process: somebody may have been waiting for an answer.", phase.COMPILE, at_start=True)  # fmt: skip
INCOMPLETE = A("torchspan.incomplete", "boolean", "The end was not seen; the span was closed for it.")
STEP_NAMES = A("torchspan.steps.names", "string[]", "Short steps inside this span that have no span of their own, longest first.")  # fmt: skip
STEP_COUNTS = A("torchspan.steps.counts", "int[]", "How often each of `torchspan.steps.names` ran.")
STEP_DURATIONS = A("torchspan.steps.durations", "double[]", "Seconds that each of `torchspan.steps.names` took in all.")
FOLDED = A("torchspan.folded.count", "int", "Pieces of work inside this span that have none of their own because the trace had its 2,000 spans; on our spans they are among the steps, without the time of other steps in them. Also on the user's spans.")  # fmt: skip

# --- OpenTelemetry's own --------------------------------------------------------------------------------------
ERROR_TYPE = A("error.type", "string", "Class of the exception that passed this span.")
EXCEPTION_TYPE = A("exception.type", "string", "Class of the exception.", event="exception")
EXCEPTION_MESSAGE = A("exception.message", "string", "First line of the message with every literal replaced by `?`; the whole message with `TORCHSPAN_CAPTURE=text`.", event="exception")  # fmt: skip
CODE_FUNCTION = A("code.function.name", "string", "Function that raised it; on a span, the function that is observed.", phase.OBSERVED, event="exception", at_start=True)  # fmt: skip
CODE_FILE = A("code.file.path", "string", "File that raised it.", event="exception")
CODE_LINE = A("code.line.number", "int", "Line that raised it.", event="exception")

# --- the compilation ------------------------------------------------------------------------------------------
ENTRY_POINT = A("torch_tensorrt.entry_point", "string", "The outermost call, by the name under which programs know it: `torch_tensorrt.compile`, `torch.compile`, `torch_tensorrt.save` and so on.", *phase.ENTRIES, phase.PROGRESS, at_start=True)  # fmt: skip
IR = A("torch_tensorrt.ir", "string", "The `ir` that was asked for.", phase.COMPILE, phase.CONVERT_TO_ENGINE, at_start=True)  # fmt: skip
MODEL_CLASS = A("torch_tensorrt.model.class", "string", "Class of the model.", *phase.LOWERING, phase.TRACE, phase.EXPORT, phase.PROGRESS, at_start=True)  # fmt: skip
TORCH_VERSION = A("torch.version", "string", "Version of PyTorch.", *phase.ENTRIES, at_start=True)
TORCH_TENSORRT_VERSION = A("torch_tensorrt.version", "string", "Version of Torch-TensorRT.", *phase.ENTRIES, at_start=True)  # fmt: skip
TENSORRT_VERSION = A("tensorrt.version", "string", "Version of the TensorRT library in use.", *phase.ENTRIES, *_PLAIN, at_start=True)  # fmt: skip
TENSORRT_PACKAGE = A("tensorrt.package", "string", "`tensorrt` or `tensorrt_rtx`.", *phase.ENTRIES, *_PLAIN, at_start=True)  # fmt: skip
COMPILE_ID = A("torch.compile.id", "string", "Dynamo's compile id, `frame/recompile`.", phase.COMPILE, at_start=True)

SETTING_PREFIX = "torch_tensorrt.settings."
_SETTINGS: tuple[tuple[str, AttributeType, str], ...] = (
    ("min_block_size", "int", "Fewest operators that a TensorRT subgraph may have."),
    ("optimization_level", "int", "TensorRT's builder optimization level."),
    ("workspace_size", "int", "Bytes the builder may use as workspace (0: TensorRT decides)."),
    ("num_avg_timing_iters", "int", "Timing iterations per tactic."),
    ("torch_executed_ops", "string[]", "Operators the user wants in PyTorch."),
    ("require_full_compilation", "boolean", "Everything must run in TensorRT."),
    ("use_fast_partitioner", "boolean", "Adjacency partitioner (true) or global partitioner."),
    ("enable_resource_partitioning", "boolean", "Split subgraphs so that building fits into memory."),
    ("fallback_data_dependent_ops", "boolean", "Run operators with data-dependent output shapes in PyTorch."),
    ("pass_through_build_failures", "boolean", "Raise instead of quietly falling back."),
    ("dryrun", "boolean", "Plan only, build nothing."),
    ("lazy_engine_init", "boolean", "Set engines up after all were built."),
    ("cache_built_engines", "boolean", "Put new engines into the engine cache."),
    ("reuse_cached_engines", "boolean", "Look into the engine cache first."),
    ("immutable_weights", "boolean", "Engines cannot be refitted."),
    ("strip_engine_weights", "boolean", "Engines without weights."),
    ("refit_identical_engine_weights", "boolean", "Engines refittable with identical weights only."),
    ("enable_weight_streaming", "boolean", "Weights may be streamed."),
    ("hardware_compatible", "boolean", "Engines run on other GPU generations too."),
    ("version_compatible", "boolean", "Engines run on later TensorRT versions too."),
    ("offload_module_to_cpu", "boolean", "The model leaves the GPU while engines are built."),
    ("truncate_double", "boolean", "64-bit floats become 32-bit."),
    ("disable_tf32", "boolean", "TF32 is switched off."),
    ("use_fp32_acc", "boolean", "FP32 accumulation for FP16 matrix products."),
    ("enable_autocast", "boolean", "Rule-based low precision."),
    ("decompose_attention", "boolean", "Attention is decomposed."),
    ("use_distributed_mode_trace", "boolean", "Trace through aot_autograd for distributed models."),
)
SETTINGS: dict[str, Attribute] = {
    name: A(SETTING_PREFIX + name, type_, brief, *phase.LOWERING, at_start=True) for name, type_, brief in _SETTINGS
}
"""Compilation settings by field name; those that the installed version lacks are left out."""

OPERATORS_TOTAL = A("torch_tensorrt.operators.total", "int", "Operators in the lowered graph.", phase.COMPILE, phase.REFIT, phase.PARTITION)  # fmt: skip
OPERATORS_SUPPORTED = A("torch_tensorrt.operators.supported", "int", "Those a converter accepts.", phase.COMPILE, phase.REFIT, phase.PARTITION)  # fmt: skip
OPERATORS_TENSORRT = A("torch_tensorrt.operators.tensorrt", "int", "Those that run in TensorRT.", phase.COMPILE, phase.REFIT, phase.PARTITION)  # fmt: skip
COVERAGE = A("torch_tensorrt.coverage", "double", "Share of the operators that runs in TensorRT, 0 to 1.", phase.COMPILE, phase.REFIT, phase.PARTITION)  # fmt: skip
ENGINE_COUNT = A("torch_tensorrt.engines.count", "int", "Engines made, refitted, saved or loaded (with `dryrun`: planned).", phase.COMPILE, phase.REFIT, phase.SAVE, phase.LOAD)  # fmt: skip
DEFERRED = A("torch_tensorrt.deferred", "boolean", 'Nothing was compiled yet: that happens at the first call of what was returned (`ir="torch_compile"`).', phase.COMPILE)  # fmt: skip
ENGINES_SIZE = A("torch_tensorrt.engines.size", "int", "Bytes of all engines together.", phase.COMPILE, phase.SAVE, phase.LOAD)  # fmt: skip

NODES = A("torch_tensorrt.graph.nodes", "int", "Nodes of the resulting graph.", phase.TRACE, phase.EXPORT)
NODES_BEFORE = A("torch_tensorrt.graph.nodes.before", "int", "Nodes of the graph going in.", phase.LOWER_PRE_EXPORT, phase.DECOMPOSE, phase.LOWER, phase.PASS, at_start=True)  # fmt: skip
NODES_AFTER = A("torch_tensorrt.graph.nodes.after", "int", "Nodes of the graph coming out.", phase.LOWER_PRE_EXPORT, phase.DECOMPOSE, phase.LOWER, phase.PASS)  # fmt: skip
STRICT = A("torch.export.strict", "boolean", "Strict mode of torch.export.", phase.TRACE, phase.EXPORT, at_start=True)
RANGE_CONSTRAINTS = A("torch.export.range_constraints", "string[]", "Dynamic dimensions with their ranges, `s77: [1, 8]`.", phase.TRACE, phase.EXPORT)  # fmt: skip
INPUT_SHAPES = A("torch_tensorrt.inputs.shapes", "string[]", "Shape of each input, `[1, 16]`; a dynamic dimension reads `1..4..8` (min, opt, max).", phase.TRACE, phase.CONVERT, phase.EXECUTE, at_start=True)  # fmt: skip
INPUT_DTYPES = A("torch_tensorrt.inputs.dtypes", "string[]", "Data type of each input.", phase.TRACE, phase.CONVERT, phase.EXECUTE, at_start=True)  # fmt: skip
PASS_NAME = A("torch_tensorrt.pass.name", "string", "The pass, by its function's name.", phase.PASS, at_start=True)

# --- partition and fallback -----------------------------------------------------------------------------------
PARTITIONER = A("torch_tensorrt.partitioner", "string", "`fast`, `global` or `resource`.", phase.PARTITION, at_start=True)  # fmt: skip
SUBGRAPHS_TENSORRT = A("torch_tensorrt.subgraphs.tensorrt", "int", "Subgraphs for TensorRT.", phase.PARTITION)
SUBGRAPHS_TORCH = A("torch_tensorrt.subgraphs.torch", "int", "Subgraphs left in PyTorch.", phase.PARTITION)
SUPPORTED_NAMES = A("torch_tensorrt.supported.operators", "string[]", "Supported operators, most frequent first (at most 20).", phase.PARTITION)  # fmt: skip
SUPPORTED_COUNTS = A("torch_tensorrt.supported.counts", "int[]", "How often each of them occurs.", phase.PARTITION)
FALLBACK_REASON = A("torch_tensorrt.fallback.reason", "string[]", "Its presence means that work which was to run in TensorRT runs in PyTorch (on a cache lookup: that what was to come from the cache is built); the classes of reason, most frequent first.", phase.COMPILE, phase.REFIT, phase.PARTITION, phase.CACHE_LOOKUP)  # fmt: skip
FALLBACK_OPERATORS = A("torch_tensorrt.fallback.operators", "string[]", "Operators left in PyTorch, most frequent first (at most 20).", phase.COMPILE, phase.REFIT, phase.PARTITION)  # fmt: skip
FALLBACK_COUNTS = A("torch_tensorrt.fallback.counts", "int[]", "How often each of them occurs.", phase.COMPILE, phase.REFIT, phase.PARTITION)  # fmt: skip
FALLBACK_REASONS = A("torch_tensorrt.fallback.reasons", "string[]", "Why, for each of them.", phase.COMPILE, phase.REFIT, phase.PARTITION)  # fmt: skip
FALLBACK_OMITTED = A("torch_tensorrt.fallback.omitted", "int", "Kinds of operators left out of the lists.", phase.COMPILE, phase.REFIT, phase.PARTITION)  # fmt: skip
FALLBACK_TOTAL_REASONS = A("torch_tensorrt.fallback.totals.reasons", "string[]", "The classes of reason for which the next two lists give exact totals, whatever was left out of the lists above.", phase.COMPILE, phase.REFIT, phase.PARTITION)  # fmt: skip
FALLBACK_TOTAL_OPERATORS = A("torch_tensorrt.fallback.totals.operators", "int[]", "Operators that run in PyTorch for each of `torch_tensorrt.fallback.totals.reasons`.", phase.COMPILE, phase.REFIT, phase.PARTITION)  # fmt: skip
FALLBACK_TOTAL_SUBGRAPHS = A("torch_tensorrt.fallback.totals.subgraphs", "int[]", "Pieces of the graph that run in PyTorch for each of them: the reason of most of a piece's operators; a graph left whole is one piece. The global partitioner makes no pieces.", phase.COMPILE, phase.REFIT, phase.PARTITION)  # fmt: skip


class FallbackReason:
    """The values of `torch_tensorrt.fallback.reason`: why work runs in PyTorch."""

    NO_CONVERTER = "no_converter"
    """No converter is registered for the operator."""
    VALIDATOR_REFUSED = "validator_refused"
    """Converters exist, but each one's validator refused this node (a data type, a shape, an argument)."""
    USER_EXCLUDED = "user_excluded"
    """The user named the operator in `torch_executed_ops`."""
    COMPLEX_DTYPE = "complex_dtype"
    """The node produces or consumes complex numbers, which TensorRT does not have."""
    DATA_DEPENDENT = "data_dependent"
    """The output's shape depends on data and `fallback_data_dependent_ops` is set."""
    MIN_BLOCK_SIZE = "min_block_size"
    """Supported, but in a group smaller than `min_block_size`."""
    NO_SUPPORTED_OPERATORS = "no_supported_operators"
    """Nothing in the graph is supported, so it was skipped whole."""
    COMPILE_FAILED = "compile_failed"
    """Conversion or build failed and `torch.compile` went on in PyTorch."""
    CACHE_ENTRY_REJECTED = "cache_entry_rejected"
    """On a cache lookup alone: the library passed over an entry and builds anew."""


# --- one engine -----------------------------------------------------------------------------------------------
ENGINE_NAME = A("torch_tensorrt.engine.name", "string", "Name that Torch-TensorRT gives the subgraph, `_run_on_acc_0`.", phase.CONVERT, phase.SETUP_ENGINE, phase.EXECUTE, phase.PROGRESS, at_start=True)  # fmt: skip
ENGINE_OPERATORS = A("torch_tensorrt.engine.operators", "int", "Operators in the engine.", phase.CONVERT, at_start=True)
ENGINE_OUTPUTS = A("torch_tensorrt.engine.outputs", "int", "Outputs of the engine.", phase.CONVERT, phase.CONVERT_TO_ENGINE)  # fmt: skip
OUTPUT_ALLOCATOR = A("torch_tensorrt.engine.requires_output_allocator", "boolean", "The output's shape is known only after execution.", phase.CONVERT, phase.CONVERT_TO_ENGINE)  # fmt: skip
ENGINE_SIZE = A("tensorrt.engine.size", "int", "Bytes of the serialized engine.", phase.CONVERT, phase.CONVERT_TO_ENGINE, phase.CACHE_LOOKUP, phase.BUILD_ENGINE, phase.DESERIALIZE_ENGINE, phase.SETUP_ENGINE, at_start=True)  # fmt: skip
ENGINE_ID = A("tensorrt.engine.id", "string", "16 hexadecimal digits made of the serialized engine's length and of blocks spread over its bytes. Equal ids: the same bytes, wherever and whenever they are built, kept, loaded or run, but for changes that fall between the blocks (a refit of few weights may). Different ids: different bytes, which says nothing of what they compute. On a run: the engine's bytes when it was set up or last refitted through Torch-TensorRT; left out while that is not known.", phase.CONVERT, phase.CONVERT_TO_ENGINE, phase.CACHE_LOOKUP, phase.CACHE_INSERT, phase.BUILD_ENGINE, phase.DESERIALIZE_ENGINE, phase.SETUP_ENGINE, phase.EXECUTE, at_start=True)  # fmt: skip
RUNTIME = A("torch_tensorrt.runtime", "string", "`python` or `cpp`.", phase.SETUP_ENGINE)
NETWORK_LAYERS = A("tensorrt.network.layers", "int", "Layers of the network.", phase.CONSTRUCT_NETWORK, phase.PARSE, phase.BUILD_ENGINE, at_start=True)  # fmt: skip
NETWORK_INPUTS = A("tensorrt.network.inputs", "int", "Inputs of the network.", phase.CONSTRUCT_NETWORK)
NETWORK_OUTPUTS = A("tensorrt.network.outputs", "int", "Outputs of the network.", phase.CONSTRUCT_NETWORK)
CONVERTER_OPERATORS = A("torch_tensorrt.converters.operators", "string[]", "Kinds of operators by the time their converters took, longest first (at most 20).", phase.CONSTRUCT_NETWORK)  # fmt: skip
CONVERTER_COUNTS = A("torch_tensorrt.converters.counts", "int[]", "How often each was converted.", phase.CONSTRUCT_NETWORK)  # fmt: skip
CONVERTER_DURATIONS = A("torch_tensorrt.converters.durations", "double[]", "Seconds each took in all.", phase.CONSTRUCT_NETWORK)  # fmt: skip

MODEL_SIZE = A("tensorrt.parser.model.size", "int", "Bytes of the ONNX model, without weights that lie in files of their own.", phase.PARSE, at_start=True)  # fmt: skip
PARSER_ERRORS = A("tensorrt.parser.errors", "int", "Errors that this parse added to the parser's list.", phase.PARSE)
PARSER_ERROR = A("tensorrt.parser.error", "string", "The first of them, with every literal replaced by `?`; as TensorRT wrote it with `TORCHSPAN_CAPTURE=text`.", phase.PARSE, is_text=True)  # fmt: skip
PARSER_FAILED_OPERATORS = A("tensorrt.parser.failed_operators", "string[]", "ONNX operators that the errors are about (at most 20).", phase.PARSE)  # fmt: skip

BUILDER_FLAGS = A("tensorrt.builder.flags", "string[]", "Flags set in the builder configuration.", phase.BUILD_ENGINE, at_start=True)  # fmt: skip
BUILDER_LEVEL = A("tensorrt.builder.optimization_level", "int", "Optimization level.", phase.BUILD_ENGINE, at_start=True)  # fmt: skip
BUILDER_TIMING_ITERATIONS = A("tensorrt.builder.avg_timing_iterations", "int", "Timing iterations.", phase.BUILD_ENGINE, at_start=True)  # fmt: skip
BUILDER_AUX_STREAMS = A("tensorrt.builder.max_aux_streams", "int", "Auxiliary streams (-1: TensorRT decides).", phase.BUILD_ENGINE, at_start=True)  # fmt: skip
BUILDER_PROFILES = A("tensorrt.builder.optimization_profiles", "int", "Optimization profiles.", phase.BUILD_ENGINE, at_start=True)  # fmt: skip
BUILDER_WORKSPACE = A("tensorrt.builder.workspace_size", "int", "Bytes of workspace allowed.", phase.BUILD_ENGINE, at_start=True)  # fmt: skip
BUILD_ERROR = A("tensorrt.build.error", "string", "Of a build that returned no engine: the last error line of TensorRT's log, as in `tensorrt.log.message`; also the description of the span's status.", phase.BUILD_ENGINE)  # fmt: skip
MEMORY_BEFORE = A("tensorrt.build.memory.before", "int", "Bytes of physical memory that the whole process had before the build (`VmRSS`; Linux only).", phase.BUILD_ENGINE)  # fmt: skip
MEMORY_PEAK = A("tensorrt.build.memory.peak", "int", "Bytes of physical memory that the whole process had at its peak during the build, other threads' included (Linux only).", phase.BUILD_ENGINE)  # fmt: skip
MEMORY_PEAK_SAMPLED = A("tensorrt.build.memory.peak_sampled", "boolean", "False: the peak is the kernel's own mark (`VmHWM`), which rose. True: the process had had more before, so the mark says nothing, and the peak is the most that was seen: before, after, and every 0.25 s between; it may have been higher.", phase.BUILD_ENGINE)  # fmt: skip
GPU_MEMORY_FREE_BEFORE = A("tensorrt.build.gpu_memory.free.before", "int", "Bytes free on the current device before the build; only if the program itself had initialised CUDA and used that device.", phase.BUILD_ENGINE)  # fmt: skip
GPU_MEMORY_FREE_AFTER = A("tensorrt.build.gpu_memory.free.after", "int", "Bytes free on it after the build, on the same condition.", phase.BUILD_ENGINE)  # fmt: skip
GPU_MEMORY_TOTAL = A("tensorrt.build.gpu_memory.total", "int", "Bytes of that device in all.", phase.BUILD_ENGINE)
TIMING_CACHE_SIZE = A("tensorrt.timing_cache.size", "int", "Bytes of the timing cache that the build starts from, without entries a few hundred; absent without a timing cache, and on TensorRT-RTX, which uses none.", phase.CONVERT, phase.CONVERT_TO_ENGINE, phase.BUILD_ENGINE, at_start=True)  # fmt: skip
TIMING_CACHE_SIZE_AFTER = A("tensorrt.timing_cache.size.after", "int", "Bytes of the timing cache after the build.", phase.CONVERT, phase.CONVERT_TO_ENGINE, phase.BUILD_ENGINE)  # fmt: skip
TIMING_CACHE_FILE = A("torch_tensorrt.timing_cache.file", "string", "`read`, or `created` where there was none; absent on TensorRT-RTX.", phase.CONVERT, phase.CONVERT_TO_ENGINE)  # fmt: skip
BUILD_PHASE_NAME = A("tensorrt.phase.name", "string", "TensorRT's name of the phase.", phase.BUILD_PHASE, at_start=True)
BUILD_PHASE_STEPS = A("tensorrt.phase.steps", "int", "Steps that TensorRT announced.", phase.BUILD_PHASE, at_start=True)
BUILD_PHASE_STEPS_DONE = A("tensorrt.phase.steps_done", "int", "Steps that were completed.", phase.BUILD_PHASE)

CACHE_RESULT = A("torch_tensorrt.engine_cache.result", "string", "What looking for the engine in the cache came to: `hit`, `miss`, `disabled` (there was no looking) or `rejected` (an entry was there and was not used). On every conversion, with a lookup or without.", phase.CONVERT, phase.CONVERT_TO_ENGINE, phase.CACHE_LOOKUP)  # fmt: skip
CACHE_REASON = A("torch_tensorrt.engine_cache.reason", "string", "Why the cache is `disabled`, an entry was `rejected`, or a new engine `refused`.", phase.CONVERT, phase.CONVERT_TO_ENGINE, phase.CACHE_LOOKUP, phase.CACHE_INSERT)  # fmt: skip
CACHE_SETTINGS = A("torch_tensorrt.engine_cache.rejected.settings", "string[]", "Names of the settings that differ between a rejected entry and this compilation (at most 20).", phase.CACHE_LOOKUP)  # fmt: skip
CACHE_KEY = A("torch_tensorrt.engine_cache.key", "string", "First 16 characters of the engine's hash.", phase.CACHE_LOOKUP, phase.CACHE_INSERT, at_start=True)  # fmt: skip
CACHE_ENTRY_SIZE = A("torch_tensorrt.engine_cache.entry.size", "int", "Bytes of the packed entry that the cache handed over or was given. Unknown for a cache that packs in its own way.", phase.CACHE_LOOKUP, phase.CACHE_INSERT)  # fmt: skip
CACHE_READ_DURATION = A("torch_tensorrt.engine_cache.read.duration", "double", "Seconds it took to read the entry out of the cache and unpickle it. Unknown for a cache with a `check` of its own.", phase.CACHE_LOOKUP, phase.CACHE_INSERT)  # fmt: skip
CACHE_REFIT_DURATION = A("torch_tensorrt.engine_cache.refit.duration", "double", "Seconds it took to give the cached engine this model's weights: part of what a hit costs, which is the whole of this span.", phase.CACHE_LOOKUP)  # fmt: skip
CACHE_INSERTED = A("torch_tensorrt.engine_cache.insert.result", "string", "`inserted`, `refreshed` (there was an entry under this key) or `refused` (nothing was stored).", phase.CACHE_INSERT)  # fmt: skip
CACHE_EVICTED = A("torch_tensorrt.engine_cache.evicted.count", "int", "Entries that were removed to make room.", phase.CACHE_INSERT)  # fmt: skip
CACHE_EVICTED_SIZE = A("torch_tensorrt.engine_cache.evicted.size", "int", "Bytes that the cache counts as freed by that; entries written by another process count as nothing (upstream).", phase.CACHE_INSERT)  # fmt: skip


class CacheReason:
    """The values of `torch_tensorrt.engine_cache.reason`."""

    NOT_REQUESTED = "not_requested"
    """Disabled: `reuse_cached_engines` is off."""
    NO_CACHE_GIVEN = "no_cache_given"
    """Disabled: engines were to be reused, and no cache was handed on to the conversion."""
    REFIT_UNAVAILABLE = "refit_unavailable"
    """Disabled, refused: this installation cannot refit, and cached engines are refitted."""
    IMMUTABLE_WEIGHTS = "immutable_weights"
    """Disabled: `immutable_weights` is on, and cached engines are refitted."""
    NO_HASH = "no_hash"
    """Disabled, refused: the cache gave no hash for the subgraph."""
    SETTINGS = "settings"
    """Rejected: built with other settings; `...rejected.settings` names them."""
    INPUTS = "inputs"
    """Rejected: built for inputs of another shape, data type or format."""
    OUTDATED_ENTRY = "outdated_entry"
    """Rejected: written by an older Torch-TensorRT, which kept too little in it; the engine is built anew."""
    IGNORED = "ignored_by_cache"
    """Rejected: a cache of the user's own had the entry and did not hand it over."""
    UNREADABLE = "unreadable"
    """Rejected: reading or unpickling the entry raised."""
    MALFORMED_ENTRY = "malformed_entry"
    """Rejected: the cache handed over something that is no entry."""
    ENGINE_UNREADABLE = "engine_unreadable"
    """Rejected: TensorRT could not read the engine in it (another version or GPU)."""
    REFIT_FAILED = "refit_failed"
    """Rejected: the engine could not be given this model's weights."""
    LARGER_THAN_CACHE = "larger_than_cache"
    """Refused: the entry is larger than the cache may become."""
    CACHE_FULL = "cache_full"
    """Refused: even after clearing there was too little room."""
    WRITE_FAILED = "write_failed"
    """Refused: the file could not be written; the library goes on without."""
    INSERT_RAISED = "insert_raised"
    """Refused: packing or saving the entry raised, and the exception passed."""


# --- TensorRT's log -------------------------------------------------------------------------------------------
LOG_EVENT = "tensorrt.log"
"""A line of TensorRT's log with the severity warning or worse, written while this span was the innermost of its thread."""
LOG_SEVERITY = A("tensorrt.log.severity", "string", "`WARNING`, `ERROR` or `INTERNAL_ERROR`.", event=LOG_EVENT)
LOG_MESSAGE = A("tensorrt.log.message", "string", "First line of the text, with every literal and every name of a layer, node or tensor replaced by `?`, at most 256 characters; the text itself with `TORCHSPAN_CAPTURE=text`.", event=LOG_EVENT)  # fmt: skip
LOG_COUNT = A("tensorrt.log.count", "int", "Lines with this severity and message; the event has the time of the first.", event=LOG_EVENT)  # fmt: skip
LOG_OUT_OF_MEMORY = A("tensorrt.log.out_of_memory", "boolean", "Whether the line is known to be written when memory does not suffice: the device's, or the workspace that the builder may use.", event=LOG_EVENT)  # fmt: skip
LOG_OMITTED = A("tensorrt.log.omitted", "int", "Lines that have no event because there are 20 different ones already.")
OUT_OF_MEMORY = A("tensorrt.out_of_memory", "boolean", "Its presence means that a line of TensorRT's log says memory did not suffice (`tensorrt.log.out_of_memory`): if this failed, that is the likely cause.")  # fmt: skip
TACTICS_SKIPPED = A("tensorrt.tactics.skipped", "int", "Tactics that TensorRT's log says were left out for lack of memory.")  # fmt: skip

# --- files and refits -----------------------------------------------------------------------------------------
FILE_FORMAT = A("torch_tensorrt.file.format", "string", "`exported_program`, `torchscript`, `aot_inductor`, `executorch` or `mutable_module`.", phase.SAVE, phase.LOAD)  # fmt: skip
FILE_SIZE = A("torch_tensorrt.file.size", "int", "Bytes of the file.", phase.SAVE, phase.LOAD)
SAVE_RETRACE = A("torch_tensorrt.save.retrace", "boolean", "The module is exported again before it is saved.", phase.SAVE)  # fmt: skip
REFIT_IN_PLACE = A("torch_tensorrt.refit.in_place", "boolean", "The compiled module itself gets the weights, not a copy of it.", phase.REFIT, at_start=True)  # fmt: skip
REFIT_OUTPUTS_MATCH = A("torch_tensorrt.refit.outputs_match", "boolean", "What `verify_output` found: the refitted module computes what the model does. Torch-TensorRT only logs a difference.", phase.REFIT)  # fmt: skip

# --- runs -----------------------------------------------------------------------------------------------------
EXECUTE_FIRST = A("torch_tensorrt.execute.first", "boolean", "First run of this engine that was seen.", phase.EXECUTE, at_start=True)  # fmt: skip
EXECUTE_FOLDED = A("torch_tensorrt.execute.folded.count", "int", "Runs below this span that have no span of their own (rate limits); also on the user's spans.")  # fmt: skip
EXECUTE_FOLDED_SUM = A("torch_tensorrt.execute.folded.duration.sum", "double", "Seconds they took in all; also on the user's spans.")  # fmt: skip
EXECUTE_FOLDED_MAX = A("torch_tensorrt.execute.folded.duration.max", "double", "Seconds of the longest of them; also on the user's spans.")  # fmt: skip

RUN_FIRST = A("tensorrt.execute.first", "boolean", "First run of this execution context that was seen.", phase.RUN_CONTEXT, at_start=True)  # fmt: skip
RUN_PROFILE = A("tensorrt.execute.profile", "int", "The context's optimization profile.", phase.RUN_CONTEXT, at_start=True)  # fmt: skip
RUN_SHAPES = A("tensorrt.inputs.shapes", "string[]", "Shape of each input, as the context has it (at most 20).", phase.RUN_CONTEXT, at_start=True)  # fmt: skip
RUN_DTYPES = A("tensorrt.inputs.dtypes", "string[]", "Data type of each input.", phase.RUN_CONTEXT, at_start=True)
RUN_FOLDED = A("tensorrt.execute.folded.count", "int", "Runs of execution contexts below this span that have no span of their own (rate limits); also on the user's spans.")  # fmt: skip
RUN_FOLDED_SUM = A("tensorrt.execute.folded.duration.sum", "double", "Seconds they took in all; also on the user's spans.")  # fmt: skip
RUN_FOLDED_MAX = A("tensorrt.execute.folded.duration.max", "double", "Seconds of the longest of them; also on the user's spans.")  # fmt: skip
CONTEXT_PROFILES = A("tensorrt.engine.optimization_profiles", "int", "Optimization profiles of the engine.", phase.CREATE_CONTEXT, at_start=True)  # fmt: skip
CONTEXT_TENSORS = A("tensorrt.engine.io_tensors", "int", "Inputs and outputs of the engine.", phase.CREATE_CONTEXT, at_start=True)  # fmt: skip
CONTEXT_LAYERS = A("tensorrt.engine.layers", "int", "Layers of the engine, after fusion.", phase.CREATE_CONTEXT, at_start=True)  # fmt: skip
CONTEXT_MEMORY = A("tensorrt.engine.device_memory_size", "int", "Bytes of device memory that a context of the engine needs.", phase.CREATE_CONTEXT, at_start=True)  # fmt: skip

RUNS_FOLDED: dict[Phase, tuple[Attribute, Attribute, Attribute]] = {
    phase.EXECUTE: (EXECUTE_FOLDED, EXECUTE_FOLDED_SUM, EXECUTE_FOLDED_MAX),
    phase.RUN_CONTEXT: (RUN_FOLDED, RUN_FOLDED_SUM, RUN_FOLDED_MAX),
}
"""Count, sum and maximum of the runs without a span of their own."""

# --- functions that are observed -------------------------------------------------------------------------------
OBSERVED_FOLDED = A("torchspan.observed.folded.count", "int", "Calls of observed functions below this span that have no span of their own (rate limits); on the user's spans.")  # fmt: skip
OBSERVED_FOLDED_SUM = A("torchspan.observed.folded.duration.sum", "double", "Seconds they took in all; on the user's spans.")  # fmt: skip
OBSERVED_FOLDED_MAX = A("torchspan.observed.folded.duration.max", "double", "Seconds of the longest of them; on the user's spans.")  # fmt: skip
OBSERVER_EVENT = "torchspan.observer"
"""The span event of an observer that fired; also on the user's spans."""
OBSERVER_NAME = A("torchspan.observer.name", "string", "Name of the observer, torchspan's or Torch-TensorRT's.", event=OBSERVER_EVENT)  # fmt: skip
OBSERVER_COUNT = A("torchspan.observer.count", "int", "How often it fired in this span; the event has the time of the first.", event=OBSERVER_EVENT)  # fmt: skip
OBSERVERS_OMITTED = A("torchspan.observer.omitted", "int", "How often others fired, of which there is no event.")
RUNS_FOLDED[phase.OBSERVED] = (OBSERVED_FOLDED, OBSERVED_FOLDED_SUM, OBSERVED_FOLDED_MAX)

# --- progress of long work ------------------------------------------------------------------------------------
PROGRESS_WORK = A("torchspan.progress.work", "string", "The work that goes on: the name of the span above, which has not arrived yet.", phase.PROGRESS, at_start=True)  # fmt: skip
PROGRESS_ELAPSED = A("torchspan.progress.elapsed", "double", "Seconds since that work started.", phase.PROGRESS, at_start=True)  # fmt: skip
PROGRESS_RUNNING = A("torchspan.progress.running", "string", "The innermost part of it that is running, by the name that its span will have.", phase.PROGRESS, at_start=True)  # fmt: skip
PROGRESS_RUNNING_ELAPSED = A("torchspan.progress.running_elapsed", "double", "Seconds since that part started.", phase.PROGRESS, at_start=True)  # fmt: skip
PROGRESS_NUMBER = A("torchspan.progress.number", "int", "How many of these spans there were before for this work: 0 at its start.", phase.PROGRESS, at_start=True)  # fmt: skip

# --- on metrics alone -----------------------------------------------------------------------------------------
PHASE = A("torchspan.phase", "string", "The kind of work: a span's name without its target.", metric=True)
FALLBACK_REASON_CLASS = A("torch_tensorrt.fallback.reason_class", "string", "One of the values of `torch_tensorrt.fallback.reason`.", metric=True)  # fmt: skip
DROPPED_REASON = A("torchspan.dropped.reason", "string", "`budget`: the trace had its 2,000 spans.", metric=True)

ATTRIBUTES: tuple[Attribute, ...] = tuple(
    value for value in (*globals().values(), *SETTINGS.values()) if isinstance(value, Attribute)
)
"""Every row of the table."""

# --- metrics --------------------------------------------------------------------------------------------------
Instrument = Literal["histogram", "counter", "observable_up_down_counter"]


class Metric(str):
    """One row: a metric's name with its instrument, its unit (UCUM) and its meaning.

    `attributes` are all that its measurements carry: bounded ones, never a model, an engine or a shape. `bounds` are
    the upper bounds of a histogram's buckets, in its unit; a view of the user's replaces them.
    """

    __slots__ = ("attributes", "bounds", "brief", "instrument", "unit")

    instrument: Instrument
    unit: str
    brief: str
    attributes: tuple[Attribute, ...]
    bounds: tuple[float, ...]

    def __new__(
        cls, name: str, instrument: Instrument, unit: str, brief: str, *attributes: Attribute, bounds: Any = ()
    ) -> Self:
        self = super().__new__(cls, name)
        self.instrument, self.unit, self.brief, self.attributes = instrument, unit, brief, attributes
        self.bounds = tuple(bounds)
        return self


LONG_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600)
"""5 ms to 1 h: what a compilation and its parts take."""
SHORT_S = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
"""0.1 ms to 10 s: what a run takes, most of which would lie below 5 ms."""
SIZES = tuple(4**exponent for exponent in range(7, 18))
"""16 KiB to 16 GiB."""

M = Metric
METRIC_COMPILE_DURATION = M("torch_tensorrt.compile.duration", "histogram", "s", "How long compilations took, failed ones too.", ENTRY_POINT, ERROR_TYPE, WHILE_SERVING, bounds=LONG_S)  # fmt: skip
METRIC_PHASE_DURATION = M("torch_tensorrt.phase.duration", "histogram", "s", "How long each phase took. Phases lie inside each other as spans do; compilations and runs have metrics of their own.", PHASE, ERROR_TYPE, bounds=LONG_S)  # fmt: skip
METRIC_ENGINE_SIZE = M("torch_tensorrt.engine.size", "histogram", "By", "Bytes of the engines that were made or taken from the cache.", bounds=SIZES)  # fmt: skip
METRIC_CACHE_LOOKUPS = M("torch_tensorrt.engine_cache.lookups", "counter", "{lookup}", "Engines that were looked for in the engine cache, those included for which it was disabled.", CACHE_RESULT, CACHE_REASON)  # fmt: skip
METRIC_FALLBACK_OPERATORS = M("torch_tensorrt.fallback.operators", "counter", "{operator}", "Operators that run in PyTorch, each counted once.", FALLBACK_REASON_CLASS, WHILE_SERVING)  # fmt: skip
METRIC_FALLBACK_SUBGRAPHS = M("torch_tensorrt.fallback.subgraphs", "counter", "{subgraph}", "Pieces of graphs that run in PyTorch, by the reason of most of their operators.", FALLBACK_REASON_CLASS, WHILE_SERVING)  # fmt: skip
METRIC_BUILDS_ACTIVE = M("torch_tensorrt.builds.active", "observable_up_down_counter", "{build}", "Compilations, and engine builds outside of one, that are going on.")  # fmt: skip
METRIC_EXECUTE_DURATION = M("torch_tensorrt.execute.duration", "histogram", "s", "How long runs of engines took as the host sees it, every run, whether or not it is a span.", ERROR_TYPE, bounds=SHORT_S)  # fmt: skip
METRIC_SPANS_DROPPED = M("torchspan.spans.dropped", "counter", "{span}", "Spans that were not opened although the sampler would have had them.", DROPPED_REASON)  # fmt: skip
METRIC_CALLBACK_FAILURES = M("torchspan.callback.failures", "counter", "{failure}", "Failures of our own or of a callback, caught beside the program; the log says which.")  # fmt: skip

METRICS: tuple[Metric, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Metric))
"""Every row of the table of metrics."""

BUDGET = "budget"
"""The value of `torchspan.dropped.reason`. What a sampler refused is a decision, not a loss, and is not counted."""

OTHER = "_OTHER"
"""Value of `error.type` where the class is unknown, as the OpenTelemetry conventions have it."""


def class_name(cls: type) -> str:
    """`RuntimeError`, `torch.fx.node.Foo`: what `error.type` and `exception.type` hold."""
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"
