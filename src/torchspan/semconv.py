# SPDX-License-Identifier: Apache-2.0
"""The attribute table: every attribute that torchspan emits, with its type and meaning.

This table is the contract. `docs/semantic-conventions.md` is generated from it (`make docs`), the test suite
compares it with everything the tests emitted, both ways. An `Attribute` is the key itself, so a row is used
where the key is needed: ``attributes[semconv.ENGINE_NAME] = name``.

Keys under `torch_tensorrt.`, `tensorrt.` and `torch.` belong to the library whose word they are; `torchspan.` is
about the observation itself. Keys without a prefix of ours are those of the OpenTelemetry conventions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from torchspan import phase
from torchspan.phase import Phase

if TYPE_CHECKING:
    from typing_extensions import Self

AttributeType = Literal["string", "int", "double", "boolean", "string[]", "int[]", "double[]"]

SCHEMA_URL = "https://opentelemetry.io/schemas/1.44.0"
"""The version of the OpenTelemetry conventions whose keys are used unchanged."""

SCOPE_NAME = "torchspan"
"""The instrumentation scope of every span."""


class Attribute(str):
    """One row: a key together with its type, its meaning and the phases whose spans may carry it.

    `on` empty means: any span of torchspan, or one of the user's (then `brief` says so). `event` names the span
    event that carries the key instead. `at_start` says that a sampler sees it where it is known by then.
    """

    __slots__ = ("at_start", "brief", "event", "on", "type")

    type: AttributeType
    brief: str
    on: tuple[Phase, ...]
    event: str | None
    at_start: bool

    def __new__(
        cls,
        key: str,
        type: AttributeType,  # noqa: A002 - the word of the OpenTelemetry registry
        brief: str,
        *on: Phase,
        event: str | None = None,
        at_start: bool = False,
    ) -> Self:
        self = super().__new__(cls, key)
        self.type, self.brief, self.on, self.event, self.at_start = type, brief, on, event, at_start
        return self


A = Attribute

# --- about the observation ------------------------------------------------------------------------------------
KEEP = A("torchspan.keep", "boolean", "Work worth keeping whatever the sampling rate: tail sampling asks for this.", *(p for p in phase.PHASES if p.keep), at_start=True)  # fmt: skip
STAND_IN = A("torchspan.stand_in", "boolean", "This step was done by `torchspan.testing`'s stand-in for a GPU; its duration means nothing.", phase.DESERIALIZE_ENGINE, phase.SETUP_ENGINE, phase.EXECUTE, at_start=True)  # fmt: skip
INCOMPLETE = A("torchspan.incomplete", "boolean", "The end was not seen; the span was closed for it.")
STEP_NAMES = A("torchspan.steps.names", "string[]", "Short steps inside this span that have no span of their own, longest first.")  # fmt: skip
STEP_COUNTS = A("torchspan.steps.counts", "int[]", "How often each of `torchspan.steps.names` ran.")
STEP_DURATIONS = A("torchspan.steps.durations", "double[]", "Seconds that each of `torchspan.steps.names` took in all.")

# --- OpenTelemetry's own --------------------------------------------------------------------------------------
ERROR_TYPE = A("error.type", "string", "Class of the exception that passed this span.")
EXCEPTION_TYPE = A("exception.type", "string", "Class of the exception.", event="exception")
EXCEPTION_MESSAGE = A("exception.message", "string", "First line of the message with every literal replaced by `?`; the whole message with `TORCHSPAN_CAPTURE=text`.", event="exception")  # fmt: skip
CODE_FUNCTION = A("code.function.name", "string", "Function that raised it.", event="exception")
CODE_FILE = A("code.file.path", "string", "File that raised it.", event="exception")
CODE_LINE = A("code.line.number", "int", "Line that raised it.", event="exception")

# --- the compilation ------------------------------------------------------------------------------------------
ENTRY_POINT = A("torch_tensorrt.entry_point", "string", "The outermost call: `torch_tensorrt.compile`, `torch_tensorrt.dynamo.compile`, `torch.compile`.", phase.COMPILE, at_start=True)  # fmt: skip
IR = A("torch_tensorrt.ir", "string", "The `ir` that was asked for.", phase.COMPILE, at_start=True)
MODEL_CLASS = A("torch_tensorrt.model.class", "string", "Class of the model.", phase.COMPILE, phase.TRACE, phase.EXPORT, at_start=True)  # fmt: skip
TORCH_VERSION = A("torch.version", "string", "Version of PyTorch.", phase.COMPILE, at_start=True)
TORCH_TENSORRT_VERSION = A("torch_tensorrt.version", "string", "Version of Torch-TensorRT.", phase.COMPILE, at_start=True)  # fmt: skip
TENSORRT_VERSION = A("tensorrt.version", "string", "Version of the TensorRT library in use.", phase.COMPILE, at_start=True)  # fmt: skip
TENSORRT_PACKAGE = A("tensorrt.package", "string", "`tensorrt` or `tensorrt_rtx`.", phase.COMPILE, at_start=True)
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
    name: A(SETTING_PREFIX + name, type_, brief, phase.COMPILE, at_start=True) for name, type_, brief in _SETTINGS
}
"""Compilation settings by field name; those that the installed version lacks are left out."""

OPERATORS_TOTAL = A("torch_tensorrt.operators.total", "int", "Operators in the lowered graph.", phase.COMPILE, phase.PARTITION)  # fmt: skip
OPERATORS_SUPPORTED = A("torch_tensorrt.operators.supported", "int", "Those a converter accepts.", phase.COMPILE, phase.PARTITION)  # fmt: skip
OPERATORS_TENSORRT = A("torch_tensorrt.operators.tensorrt", "int", "Those that run in TensorRT.", phase.COMPILE, phase.PARTITION)  # fmt: skip
COVERAGE = A("torch_tensorrt.coverage", "double", "Share of the operators that runs in TensorRT, 0 to 1.", phase.COMPILE, phase.PARTITION)  # fmt: skip
ENGINE_COUNT = A("torch_tensorrt.engines.count", "int", "Engines made (with `dryrun`: planned).", phase.COMPILE)
ENGINES_SIZE = A("torch_tensorrt.engines.size", "int", "Bytes of all engines together.", phase.COMPILE)

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
FALLBACK_REASON = A("torch_tensorrt.fallback.reason", "string[]", "Its presence means that work which was to run in TensorRT runs in PyTorch; the classes of reason, most frequent first.", phase.COMPILE, phase.PARTITION)  # fmt: skip
FALLBACK_OPERATORS = A("torch_tensorrt.fallback.operators", "string[]", "Operators left in PyTorch, most frequent first (at most 20).", phase.COMPILE, phase.PARTITION)  # fmt: skip
FALLBACK_COUNTS = A("torch_tensorrt.fallback.counts", "int[]", "How often each of them occurs.", phase.COMPILE, phase.PARTITION)  # fmt: skip
FALLBACK_REASONS = A("torch_tensorrt.fallback.reasons", "string[]", "Why, for each of them.", phase.COMPILE, phase.PARTITION)  # fmt: skip
FALLBACK_OMITTED = A("torch_tensorrt.fallback.omitted", "int", "Kinds of operators left out of the lists.", phase.COMPILE, phase.PARTITION)  # fmt: skip


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


# --- one engine -----------------------------------------------------------------------------------------------
ENGINE_NAME = A("torch_tensorrt.engine.name", "string", "Name that Torch-TensorRT gives the subgraph, `_run_on_acc_0`.", phase.CONVERT, phase.SETUP_ENGINE, phase.EXECUTE, at_start=True)  # fmt: skip
ENGINE_OPERATORS = A("torch_tensorrt.engine.operators", "int", "Operators in the engine.", phase.CONVERT, at_start=True)
ENGINE_OUTPUTS = A("torch_tensorrt.engine.outputs", "int", "Outputs of the engine.", phase.CONVERT)
OUTPUT_ALLOCATOR = A("torch_tensorrt.engine.requires_output_allocator", "boolean", "The output's shape is known only after execution.", phase.CONVERT)  # fmt: skip
ENGINE_SIZE = A("tensorrt.engine.size", "int", "Bytes of the serialized engine.", phase.CONVERT, phase.BUILD_ENGINE, phase.DESERIALIZE_ENGINE, phase.SETUP_ENGINE, at_start=True)  # fmt: skip
RUNTIME = A("torch_tensorrt.runtime", "string", "`python` or `cpp`.", phase.SETUP_ENGINE)
NETWORK_LAYERS = A("tensorrt.network.layers", "int", "Layers of the network.", phase.CONSTRUCT_NETWORK, phase.BUILD_ENGINE, at_start=True)  # fmt: skip
NETWORK_INPUTS = A("tensorrt.network.inputs", "int", "Inputs of the network.", phase.CONSTRUCT_NETWORK)
NETWORK_OUTPUTS = A("tensorrt.network.outputs", "int", "Outputs of the network.", phase.CONSTRUCT_NETWORK)
CONVERTER_OPERATORS = A("torch_tensorrt.converters.operators", "string[]", "Kinds of operators by the time their converters took, longest first (at most 20).", phase.CONSTRUCT_NETWORK)  # fmt: skip
CONVERTER_COUNTS = A("torch_tensorrt.converters.counts", "int[]", "How often each was converted.", phase.CONSTRUCT_NETWORK)  # fmt: skip
CONVERTER_DURATIONS = A("torch_tensorrt.converters.durations", "double[]", "Seconds each took in all.", phase.CONSTRUCT_NETWORK)  # fmt: skip

BUILDER_FLAGS = A("tensorrt.builder.flags", "string[]", "Flags set in the builder configuration.", phase.BUILD_ENGINE, at_start=True)  # fmt: skip
BUILDER_LEVEL = A("tensorrt.builder.optimization_level", "int", "Optimization level.", phase.BUILD_ENGINE, at_start=True)  # fmt: skip
BUILDER_TIMING_ITERATIONS = A("tensorrt.builder.avg_timing_iterations", "int", "Timing iterations.", phase.BUILD_ENGINE, at_start=True)  # fmt: skip
BUILDER_AUX_STREAMS = A("tensorrt.builder.max_aux_streams", "int", "Auxiliary streams (-1: TensorRT decides).", phase.BUILD_ENGINE, at_start=True)  # fmt: skip
BUILDER_PROFILES = A("tensorrt.builder.optimization_profiles", "int", "Optimization profiles.", phase.BUILD_ENGINE, at_start=True)  # fmt: skip
BUILDER_WORKSPACE = A("tensorrt.builder.workspace_size", "int", "Bytes of workspace allowed.", phase.BUILD_ENGINE, at_start=True)  # fmt: skip
BUILD_PHASE_NAME = A("tensorrt.phase.name", "string", "TensorRT's name of the phase.", phase.BUILD_PHASE, at_start=True)
BUILD_PHASE_STEPS = A("tensorrt.phase.steps", "int", "Steps that TensorRT announced.", phase.BUILD_PHASE, at_start=True)
BUILD_PHASE_STEPS_DONE = A("tensorrt.phase.steps_done", "int", "Steps that were completed.", phase.BUILD_PHASE)

CACHE_RESULT = A("torch_tensorrt.engine_cache.result", "string", "`hit`, `miss`, `inserted` or `refused`.", phase.CACHE_LOOKUP, phase.CACHE_INSERT)  # fmt: skip
CACHE_KEY = A("torch_tensorrt.engine_cache.key", "string", "First 16 characters of the engine's hash.", phase.CACHE_LOOKUP, phase.CACHE_INSERT, at_start=True)  # fmt: skip

# --- runs -----------------------------------------------------------------------------------------------------
EXECUTE_FIRST = A("torch_tensorrt.execute.first", "boolean", "First run of this engine that was seen.", phase.EXECUTE, at_start=True)  # fmt: skip
EXECUTE_FOLDED = A("torch_tensorrt.execute.folded.count", "int", "Runs below this span that have no span of their own (rate limits); also on the user's spans.")  # fmt: skip
EXECUTE_FOLDED_SUM = A("torch_tensorrt.execute.folded.duration.sum", "double", "Seconds they took in all; also on the user's spans.")  # fmt: skip
EXECUTE_FOLDED_MAX = A("torch_tensorrt.execute.folded.duration.max", "double", "Seconds of the longest of them; also on the user's spans.")  # fmt: skip

ATTRIBUTES: tuple[Attribute, ...] = tuple(
    value for value in (*globals().values(), *SETTINGS.values()) if isinstance(value, Attribute)
)
"""Every row of the table."""

OTHER = "_OTHER"
"""Value of `error.type` where the class is unknown, as the OpenTelemetry conventions have it."""


def class_name(cls: type) -> str:
    """`RuntimeError`, `torch.fx.node.Foo`: what `error.type` and `exception.type` hold."""
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"
