# SPDX-License-Identifier: Apache-2.0
"""Attributes about Torch-TensorRT: compilations, partitions and fallback, conversions, the engine cache, runs."""

from __future__ import annotations

from torchspan import phase
from torchspan.semconv._operators import Arguments, Operator, Validators
from torchspan.semconv._sizes import DataType, SettingValue, Shape
from torchspan.semconv._table import Attribute, AttributeType, folded
from torchspan.semconv._values import Digest, Enumeration, Identifier, Version

ENTRY_POINTS = (
    "torch_tensorrt.compile",
    "torch.compile",
    "torch_tensorrt.dynamo.compile",
    "torch_tensorrt.convert_method_to_trt_engine",
    "torch_tensorrt.dynamo.convert_exported_program_to_serialized_trt_engine",
    "torch_tensorrt.cross_compile_for_windows",
    "torch_tensorrt.dynamo.cross_compile_for_windows",
    "torch_tensorrt.MutableTorchTensorRTModule",
    "torch_tensorrt.MutableTorchTensorRTModule.save",
    "torch_tensorrt.MutableTorchTensorRTModule.load",
    "torch_tensorrt.dynamo.refit_module_weights",
    "torch_tensorrt.save",
    "torch_tensorrt.dynamo.save_cross_compiled_exported_program",
    "torch_tensorrt.load",
    "torch_tensorrt.load_cross_compiled_exported_program",
)
"""The calls with which a program begins."""

IRS = ("default", "dynamo", "torch_compile", "ts", "torchscript", "exported_program", "fx")
"""What `ir` may be."""


class FallbackReason:
    """The values of `torch_tensorrt.fallback.reason_classes`: why work runs in PyTorch."""

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
    """Nothing in the graph is supported, so the whole graph was skipped."""
    COMPILE_FAILED = "compile_failed"
    """Conversion or build failed and `torch.compile` continued in PyTorch."""
    CACHE_ENTRY_REJECTED = "cache_entry_rejected"
    """On a cache lookup only: the library passed over an entry and builds the engine."""


class Outcome:
    """The values of `torch_tensorrt.compile.outcome`: how a compilation ended."""

    COMPLETE = "complete"
    """All that was to run in TensorRT does."""
    FALLBACK = "fallback"
    """It returned, and work that was to run in TensorRT runs in PyTorch."""
    FAILED = "failed"
    """It raised; `error.type` is the class of the exception."""


class CacheReason:
    """The values of `torch_tensorrt.engine_cache.reason`."""

    NOT_REQUESTED = "not_requested"
    """Disabled: `reuse_cached_engines` is off."""
    NO_CACHE_GIVEN = "no_cache_given"
    """Disabled: engines were to be reused, and the conversion received no cache."""
    REFIT_UNAVAILABLE = "refit_unavailable"
    """Disabled, refused: this installation cannot refit, and cached engines are refitted."""
    IMMUTABLE_WEIGHTS = "immutable_weights"
    """Disabled: `immutable_weights` is on, and cached engines are refitted."""
    NO_HASH = "no_hash"
    """Disabled, refused: the cache gave no hash for the subgraph."""
    SETTINGS = "settings"
    """Rejected: built with other settings; `torch_tensorrt.engine_cache.rejected.settings` names them."""
    INPUTS = "inputs"
    """Rejected: built for inputs of another shape, data type or format."""
    OUTDATED_ENTRY = "outdated_entry"
    """Rejected: written by an older Torch-TensorRT, with too little in it; the engine is built."""
    OTHER_SETTINGS = "other_settings"
    """Miss: the cache folder has an entry of this graph and these inputs, for other settings."""
    OTHER_INPUTS = "other_inputs"
    """Miss: the cache folder has an entry of this graph, for other inputs."""
    IGNORED = "ignored_by_cache"
    """Rejected: a cache of the user's own had the entry and did not return it."""
    UNREADABLE = "unreadable"
    """Rejected: reading or unpickling the entry raised."""
    MALFORMED_ENTRY = "malformed_entry"
    """Rejected: the cache returned something that is not an entry."""
    ENGINE_UNREADABLE = "engine_unreadable"
    """Rejected: TensorRT could not read the engine in it (another version or GPU)."""
    REFIT_FAILED = "refit_failed"
    """Rejected: the engine could not be given this model's weights."""
    LARGER_THAN_CACHE = "larger_than_cache"
    """Refused: the entry is larger than the cache may become."""
    CACHE_FULL = "cache_full"
    """Refused: the entry did not fit, even after others were removed."""
    WRITE_FAILED = "write_failed"
    """Refused: the file could not be written; the library continues without it."""
    INSERT_RAISED = "insert_raised"
    """Refused: packing or saving the entry raised, and the exception passed."""


def _constants(holder: type) -> tuple[str, ...]:
    return tuple(value for name, value in vars(holder).items() if name.isupper())


_REASON = Enumeration(*_constants(FallbackReason))

# --- entry points ---------------------------------------------------------------------------------------------
ENTRY_POINT = Attribute(
    "torch_tensorrt.entry_point",
    "string",
    "The outermost call, by the name that programs use for it: `torch_tensorrt.compile`, `torch.compile`, "
    "`torch_tensorrt.save` and so on.",
    *phase.ENTRIES,
    phase.PROGRESS,
    at_start=True,
    kind=Enumeration(*ENTRY_POINTS),
)
IR = Attribute(
    "torch_tensorrt.ir",
    "string",
    "The `ir` that the program asked for; `other` for a value that Torch-TensorRT does not have.",
    phase.COMPILE,
    phase.CONVERT_TO_ENGINE,
    at_start=True,
    kind=Enumeration(*IRS),
)
MODEL_CLASS = Attribute(
    "torch_tensorrt.model.class",
    "string",
    "Class of the program's model.",
    *phase.LOWERING,
    phase.TRACE,
    phase.EXPORT,
    phase.PROGRESS,
    at_start=True,
    kind=Identifier(),
)
TORCH_TENSORRT_VERSION = Attribute(
    "torch_tensorrt.version",
    "string",
    "Version of Torch-TensorRT.",
    *phase.ENTRIES,
    at_start=True,
    resource=True,
    kind=Version(),
)

SETTING_PREFIX = "torch_tensorrt.settings."
_SETTINGS: tuple[tuple[str, AttributeType, str], ...] = (
    ("min_block_size", "int", "Fewest operators that a TensorRT subgraph may have."),
    ("optimization_level", "int", "TensorRT's builder optimization level."),
    ("workspace_size", "int", "Bytes the builder may use as workspace (0: TensorRT decides)."),
    ("num_avg_timing_iters", "int", "Timing iterations per tactic."),
    ("torch_executed_ops", "string[]", "Operators the user wants in PyTorch."),
    ("require_full_compilation", "boolean", "Everything must run in TensorRT."),
    ("use_fast_partitioner", "boolean", "The adjacency partitioner splits the graph (true), or the global one."),
    ("enable_resource_partitioning", "boolean", "Split subgraphs so that building fits into memory."),
    ("fallback_data_dependent_ops", "boolean", "Run operators with data-dependent output shapes in PyTorch."),
    ("pass_through_build_failures", "boolean", "Raise instead of falling back without an error."),
    ("dryrun", "boolean", "Plan only, build nothing."),
    ("lazy_engine_init", "boolean", "Set engines up after all were built."),
    ("cache_built_engines", "boolean", "Put new engines into the engine cache."),
    ("reuse_cached_engines", "boolean", "Look the engine up in the cache first."),
    ("immutable_weights", "boolean", "Engines cannot be refitted."),
    ("strip_engine_weights", "boolean", "Engines are stored without weights."),
    ("refit_identical_engine_weights", "boolean", "Engines can be refitted with identical weights only."),
    ("enable_weight_streaming", "boolean", "Weights may be streamed."),
    ("hardware_compatible", "boolean", "Engines run on other GPU generations too."),
    ("version_compatible", "boolean", "Engines run on later TensorRT versions too."),
    ("offload_module_to_cpu", "boolean", "The model leaves the GPU while engines are built."),
    ("truncate_double", "boolean", "64-bit floats become 32-bit."),
    ("disable_tf32", "boolean", "TF32 is disabled."),
    ("use_fp32_acc", "boolean", "FP32 accumulation for FP16 matrix products."),
    ("enable_autocast", "boolean", "Rule-based low precision."),
    ("decompose_attention", "boolean", "Attention is decomposed."),
    ("use_distributed_mode_trace", "boolean", "Trace through aot_autograd for distributed models."),
)
SETTINGS: dict[str, Attribute] = {
    name: Attribute(
        SETTING_PREFIX + name,
        type_,
        brief,
        *phase.LOWERING,
        at_start=True,
        kind=Operator() if type_ == "string[]" else None,
    )
    for name, type_, brief in _SETTINGS
}
"""Compilation settings by field name; a setting that the installed version lacks is left out of spans."""

# --- compilations ---------------------------------------------------------------------------------------------
_SPLIT = (phase.COMPILE, phase.REFIT, phase.PARTITION)
"""Work that says how the operators of a graph are divided between TensorRT and PyTorch."""

OPERATORS_TOTAL = Attribute(
    "torch_tensorrt.operators.total", "int", "Number of operators in the lowered graph.", *_SPLIT
)
OPERATORS_SUPPORTED = Attribute(
    "torch_tensorrt.operators.supported", "int", "Operators of the lowered graph that a converter accepts.", *_SPLIT
)
OPERATORS_PLANNED = Attribute(
    "torch_tensorrt.operators.planned",
    "int",
    "Operators of the lowered graph that the partition put into subgraphs for TensorRT. On a compilation or a refit "
    "only if the plan was not carried out: after a failure and with `dryrun`.",
    *_SPLIT,
)
OPERATORS_TENSORRT = Attribute(
    "torch_tensorrt.operators.tensorrt",
    "int",
    "Operators of the lowered graph that run in TensorRT. Absent if the work raised, and with `dryrun`.",
    phase.COMPILE,
    phase.REFIT,
)
COVERAGE = Attribute(
    "torch_tensorrt.coverage",
    "double",
    "Share of the lowered graph's operators that run in TensorRT, 0 to 1. Absent if the work raised, and with "
    "`dryrun`.",
    phase.COMPILE,
    phase.REFIT,
)
ENGINE_COUNT = Attribute(
    "torch_tensorrt.engines.count",
    "int",
    "Engines made, refitted, saved or loaded (with `dryrun`: planned).",
    phase.COMPILE,
    phase.REFIT,
    phase.SAVE,
    phase.LOAD,
)
DEFERRED = Attribute(
    "torch_tensorrt.deferred",
    "boolean",
    'The call compiled nothing: with `ir="torch_compile"` the compilation starts at the first call of the '
    "returned module.",
    phase.COMPILE,
)
ENGINES_SIZE = Attribute(
    "torch_tensorrt.engines.size", "int", "Bytes of all engines together.", phase.COMPILE, phase.SAVE, phase.LOAD
)

# --- lowering -------------------------------------------------------------------------------------------------
NODES_COUNT = Attribute(
    "torch_tensorrt.graph.nodes.count", "int", "Number of nodes of the resulting graph.", phase.TRACE, phase.EXPORT
)
_TRANSFORMS = (phase.LOWER_PRE_EXPORT, phase.DECOMPOSE, phase.EXPORT_DECOMPOSE, phase.LOWER, phase.PASS)
NODES_BEFORE = Attribute(
    "torch_tensorrt.graph.nodes.before",
    "int",
    "Number of nodes of the graph before the transformation.",
    *_TRANSFORMS,
    at_start=True,
)
NODES_AFTER = Attribute(
    "torch_tensorrt.graph.nodes.after",
    "int",
    "Number of nodes of the graph after the transformation.",
    *_TRANSFORMS,
    phase.EXPORT_CAPTURE,
)
_TAKES_INPUTS = (phase.CONVERT_TO_ENGINE, phase.TRACE, phase.EXPORT, phase.CONVERT, phase.EXECUTE)
INPUT_SHAPES = Attribute(
    "torch_tensorrt.inputs.shapes",
    "string[]",
    "Shape of each input, `[1, 16]`; a dynamic dimension reads `1..4..8` (min, opt, max). At most 20.",
    *_TAKES_INPUTS,
    at_start=True,
    kind=Shape(),
)
INPUT_DTYPES = Attribute(
    "torch_tensorrt.inputs.dtypes",
    "string[]",
    "Data type of each input (at most 20).",
    *_TAKES_INPUTS,
    at_start=True,
    kind=DataType(),
)
INPUT_NAMES = Attribute(
    "torch_tensorrt.inputs.names",
    "string[]",
    "The parameter of `forward` that each input is for, `?` where it is for none that has a name (at most 20).",
    phase.TRACE,
    phase.EXPORT,
    at_start=True,
    kind=Identifier(),
)
PASS_NAME = Attribute(
    "torch_tensorrt.pass.name",
    "string",
    "Name of the function that is the lowering pass.",
    phase.PASS,
    at_start=True,
    kind=Identifier(),
)

# --- partition and fallback -----------------------------------------------------------------------------------
PARTITIONER = Attribute(
    "torch_tensorrt.partitioner",
    "string",
    "The partitioner that split the graph: `fast`, `global` or `resource`.",
    phase.PARTITION,
    at_start=True,
    kind=Enumeration("fast", "global", "resource"),
)
SUBGRAPHS_TENSORRT = Attribute(
    "torch_tensorrt.subgraphs.tensorrt", "int", "Number of subgraphs for TensorRT.", phase.PARTITION
)
SUBGRAPHS_TORCH = Attribute(
    "torch_tensorrt.subgraphs.torch", "int", "Number of subgraphs left in PyTorch.", phase.PARTITION
)
SUPPORTED_NAMES = Attribute(
    "torch_tensorrt.supported.operators",
    "string[]",
    "Operators that a converter accepts, most frequent first (at most 20).",
    phase.PARTITION,
    kind=Operator(),
)
SUPPORTED_COUNTS = Attribute(
    "torch_tensorrt.supported.counts",
    "int[]",
    "How often each of `torch_tensorrt.supported.operators` occurs.",
    phase.PARTITION,
)
FALLBACK_REASON_CLASSES = Attribute(
    "torch_tensorrt.fallback.reason_classes",
    "string[]",
    "Present where work that was to run in TensorRT runs in PyTorch (on a cache lookup: where an engine that was "
    "to come from the cache is built): the classes of reason, most frequent first.",
    *_SPLIT,
    phase.CACHE_LOOKUP,
    kind=_REASON,
)
FALLBACK_OPERATOR_NAMES = Attribute(
    "torch_tensorrt.fallback.operators.names",
    "string[]",
    "Operators left in PyTorch, most frequent first (at most 20).",
    *_SPLIT,
    kind=Operator(),
)
FALLBACK_OPERATOR_COUNTS = Attribute(
    "torch_tensorrt.fallback.operators.counts",
    "int[]",
    "How often each of `torch_tensorrt.fallback.operators.names` occurs.",
    *_SPLIT,
)
FALLBACK_OPERATOR_REASONS = Attribute(
    "torch_tensorrt.fallback.operators.reasons",
    "string[]",
    "The class of reason for each of `torch_tensorrt.fallback.operators.names`.",
    *_SPLIT,
    kind=_REASON,
)
FALLBACK_OPERATORS_OMITTED = Attribute(
    "torch_tensorrt.fallback.operators.omitted",
    "int",
    "Kinds of operators left in PyTorch that are not in `torch_tensorrt.fallback.operators.names`.",
    *_SPLIT,
)
FALLBACK_TOTAL_REASONS = Attribute(
    "torch_tensorrt.fallback.totals.reasons",
    "string[]",
    "The classes of reason for which `torch_tensorrt.fallback.totals.operators` and `.subgraphs` have exact totals, "
    "however many operators the other lists leave out.",
    *_SPLIT,
    kind=_REASON,
)
FALLBACK_TOTAL_OPERATORS = Attribute(
    "torch_tensorrt.fallback.totals.operators",
    "int[]",
    "Operators left in PyTorch for each of `torch_tensorrt.fallback.totals.reasons`.",
    *_SPLIT,
)
FALLBACK_TOTAL_SUBGRAPHS = Attribute(
    "torch_tensorrt.fallback.totals.subgraphs",
    "int[]",
    "Pieces of the graph left in PyTorch for each of `torch_tensorrt.fallback.totals.reasons`. A piece counts for the "
    "reason of most of its operators; a graph left whole is one piece. The global partitioner makes no pieces.",
    *_SPLIT,
)
COMPILE_OUTCOME = Attribute(
    "torch_tensorrt.compile.outcome",
    "string",
    "How the compilation ended: `complete`, `fallback` (it returned, and work that was to run in TensorRT runs in "
    "PyTorch) or `failed` (it raised).",
    metric=True,
    kind=Enumeration(*_constants(Outcome)),
)
FALLBACK_REASON_CLASS = Attribute(
    "torch_tensorrt.fallback.reason_class",
    "string",
    "One of the values of `torch_tensorrt.fallback.reason_classes`.",
    metric=True,
    kind=_REASON,
)

# --- failures ---------------------------------------------------------------------------------------------------
UNSUPPORTED_NAMES = Attribute(
    "torch_tensorrt.unsupported.operators.names",
    "string[]",
    "Operators for which a compilation with `require_full_compilation` failed, most frequent first (at most 20). "
    "Nothing runs, so these are not fallback.",
    *_SPLIT,
    kind=Operator(),
)
UNSUPPORTED_COUNTS = Attribute(
    "torch_tensorrt.unsupported.operators.counts",
    "int[]",
    "How often each of `torch_tensorrt.unsupported.operators.names` occurs.",
    *_SPLIT,
)
UNSUPPORTED_REASONS = Attribute(
    "torch_tensorrt.unsupported.operators.reasons",
    "string[]",
    "The class of reason for each of `torch_tensorrt.unsupported.operators.names`, as in "
    "`torch_tensorrt.fallback.operators.reasons`.",
    *_SPLIT,
    kind=_REASON,
)
UNSUPPORTED_OMITTED = Attribute(
    "torch_tensorrt.unsupported.operators.omitted",
    "int",
    "Kinds of operators that are not in `torch_tensorrt.unsupported.operators.names`.",
    *_SPLIT,
)
UNSUPPORTED_TOTAL_REASONS = Attribute(
    "torch_tensorrt.unsupported.totals.reasons",
    "string[]",
    "The classes of reason for which `torch_tensorrt.unsupported.totals.operators` has exact totals.",
    phase.COMPILE,
    phase.REFIT,
    kind=_REASON,
)
UNSUPPORTED_TOTAL_OPERATORS = Attribute(
    "torch_tensorrt.unsupported.totals.operators",
    "int[]",
    "Operators that were not to run in TensorRT, for each of `torch_tensorrt.unsupported.totals.reasons`: of a "
    "compilation or a refit that raised, so that they run nowhere.",
    phase.COMPILE,
    phase.REFIT,
)
REFUSED_OPERATORS = Attribute(
    "torch_tensorrt.refused.operators.names",
    "string[]",
    "Operators with converters whose validators refused a node (at most 20).",
    *_SPLIT,
    kind=Operator(),
)
REFUSED_VALIDATORS = Attribute(
    "torch_tensorrt.refused.operators.validators",
    "string[]",
    "For each of `torch_tensorrt.refused.operators.names` the validators that were asked about the first such node, by "
    "their qualified names (at most 4); `supports_dynamic_shapes=False` for a converter of static shapes alone, where "
    "the node has dynamic ones. A validator gives no reason.",
    *_SPLIT,
    kind=Validators(),
)
REFUSED_ARGUMENTS = Attribute(
    "torch_tensorrt.refused.operators.arguments",
    "string[]",
    "For each of `torch_tensorrt.refused.operators.names` the arguments of the first such node by the names of the "
    "operator's schema, `self: float64, dim`: with the data type of a tensor and `dynamic` for a symbolic shape, and "
    "without the value of anything else.",
    *_SPLIT,
    kind=Arguments(),
)
FAILED_OPERATOR = Attribute(
    "torch_tensorrt.failed.operator",
    "string",
    "The operator whose conversion failed, as `torch_executed_ops` takes it; of a node without an operator, its kind "
    "(`placeholder`, `get_attr`, `output`).",
    phase.CONSTRUCT_NETWORK,
    kind=Operator(),
)
FAILED_NODE_NAME = Attribute(
    "torch_tensorrt.failed.node.name",
    "string",
    "Name of the node whose conversion failed. Only if the name was made from the operator's: other names may be the "
    "program's own words.",
    phase.CONSTRUCT_NETWORK,
    kind=Identifier(),
)
FAILED_NODE_POSITION = Attribute(
    "torch_tensorrt.failed.node.position",
    "int",
    "Position of the node whose conversion failed, among `torch_tensorrt.failed.nodes.count`; the first is 1.",
    phase.CONSTRUCT_NETWORK,
)
FAILED_NODES = Attribute(
    "torch_tensorrt.failed.nodes.count",
    "int",
    "Nodes of the graph in which a conversion failed, inputs, constants and the output included.",
    phase.CONSTRUCT_NETWORK,
)
FAILED_CONVERTER = Attribute(
    "torch_tensorrt.failed.converter",
    "string",
    "The converter that failed, by its qualified name. Absent if the operator has no converter.",
    phase.CONSTRUCT_NETWORK,
    kind=Identifier(),
)

# --- one engine -----------------------------------------------------------------------------------------------
ENGINE_NAME = Attribute(
    "torch_tensorrt.engine.name",
    "string",
    "Name that Torch-TensorRT gives the subgraph, `_run_on_acc_0`.",
    phase.CONVERT,
    phase.SETUP_ENGINE,
    phase.EXECUTE,
    phase.PROGRESS,
    at_start=True,
    kind=Identifier(),
)
ENGINE_OPERATORS = Attribute(
    "torch_tensorrt.engine.operators", "int", "Number of operators in the engine.", phase.CONVERT, at_start=True
)
ENGINE_OUTPUTS = Attribute(
    "torch_tensorrt.engine.outputs", "int", "Number of outputs of the engine.", *phase.CONVERSIONS
)
OUTPUT_ALLOCATOR = Attribute(
    "torch_tensorrt.engine.requires_output_allocator",
    "boolean",
    "The shape of an output is known only after execution.",
    *phase.CONVERSIONS,
)
RUNTIME = Attribute(
    "torch_tensorrt.runtime",
    "string",
    "The runtime that runs the engine: `python` or `cpp`.",
    phase.SETUP_ENGINE,
    kind=Enumeration("python", "cpp"),
)
CONVERTER_OPERATORS = Attribute(
    "torch_tensorrt.converters.operators",
    "string[]",
    "Kinds of operators by the time their converters took, longest first (at most 20).",
    phase.CONSTRUCT_NETWORK,
    kind=Operator(),
)
CONVERTER_COUNTS = Attribute(
    "torch_tensorrt.converters.counts",
    "int[]",
    "How often each of `torch_tensorrt.converters.operators` was converted.",
    phase.CONSTRUCT_NETWORK,
)
CONVERTER_DURATIONS = Attribute(
    "torch_tensorrt.converters.durations",
    "double[]",
    "Seconds that the converters of each of `torch_tensorrt.converters.operators` took in all.",
    phase.CONSTRUCT_NETWORK,
)
TIMING_CACHE_FILE = Attribute(
    "torch_tensorrt.timing_cache.file",
    "string",
    "`read`, or `created` where there was no timing cache file; absent on TensorRT-RTX.",
    *phase.CONVERSIONS,
    kind=Enumeration("read", "created"),
)

# --- the engine cache -----------------------------------------------------------------------------------------
CACHE_RESULT = Attribute(
    "torch_tensorrt.engine_cache.result",
    "string",
    "Result of looking for the engine in the cache: `hit`, `miss`, `disabled` (Torch-TensorRT did not look) or "
    "`rejected` (an entry was there and was not used). On every conversion, with a lookup or without.",
    *phase.CONVERSIONS,
    phase.CACHE_LOOKUP,
    kind=Enumeration("hit", "miss", "disabled", "rejected"),
)
CACHE_REASON = Attribute(
    "torch_tensorrt.engine_cache.reason",
    "string",
    "Why the cache is `disabled`, an entry was `rejected`, or a new engine `refused`. On a `miss`, only if a cache in "
    "a folder has entries of the same graph: what they are for.",
    *phase.CONVERSIONS,
    phase.CACHE_LOOKUP,
    phase.CACHE_INSERT,
    kind=Enumeration(*_constants(CacheReason)),
)
CACHE_SETTINGS = Attribute(
    "torch_tensorrt.engine_cache.rejected.settings",
    "string[]",
    "Names of the settings that differ between a rejected entry and this compilation (at most 20).",
    phase.CACHE_LOOKUP,
    kind=Identifier(),
)
CACHE_NEIGHBOURS = Attribute(
    "torch_tensorrt.engine_cache.miss.entries",
    "int",
    "On a miss: entries in the cache folder that are of the same graph, for other inputs or other settings. The "
    "names of the entries show this; no entry is read.",
    phase.CACHE_LOOKUP,
)
CACHE_NEIGHBOUR_SETTINGS = Attribute(
    "torch_tensorrt.engine_cache.miss.settings.names",
    "string[]",
    "On a miss: settings of which one alone differs between this compilation and an entry of the same graph and "
    "inputs (at most 20). Absent if more than one differs, or one whose values cannot be listed.",
    phase.CACHE_LOOKUP,
    kind=Identifier(),
)
CACHE_NEIGHBOUR_STORED = Attribute(
    "torch_tensorrt.engine_cache.miss.settings.stored_values",
    "string[]",
    "The entry's value of each of `torch_tensorrt.engine_cache.miss.settings.names`; `?` for what is not a number, "
    "boolean, data type or enumeration.",
    phase.CACHE_LOOKUP,
    kind=SettingValue(),
)
CACHE_NEIGHBOUR_REQUESTED = Attribute(
    "torch_tensorrt.engine_cache.miss.settings.requested_values",
    "string[]",
    "Value in this compilation of each of `torch_tensorrt.engine_cache.miss.settings.names`; `?` for what is "
    "not a number, boolean, data type or enumeration.",
    phase.CACHE_LOOKUP,
    kind=SettingValue(),
)
CACHE_KEY = Attribute(
    "torch_tensorrt.engine_cache.key",
    "string",
    "16 hexadecimal digits of a digest of the hash under which the cache keeps the engine. Equal keys mean equal "
    "hashes.",
    phase.CACHE_LOOKUP,
    phase.CACHE_INSERT,
    at_start=True,
    kind=Digest(),
)
CACHE_ENTRY_SIZE = Attribute(
    "torch_tensorrt.engine_cache.entry.size",
    "int",
    "Bytes of the packed entry that the cache returned or received. Unknown for a cache that packs in its own way.",
    phase.CACHE_LOOKUP,
    phase.CACHE_INSERT,
)
CACHE_READ_DURATION = Attribute(
    "torch_tensorrt.engine_cache.read.duration",
    "double",
    "Seconds it took to read the entry out of the cache and unpickle it. Unknown for a cache with its own `check`.",
    phase.CACHE_LOOKUP,
    phase.CACHE_INSERT,
)
CACHE_REFIT_DURATION = Attribute(
    "torch_tensorrt.engine_cache.refit.duration",
    "double",
    "Seconds it took to give the cached engine this model's weights: part of the cost of a hit, which is the duration "
    "of this span.",
    phase.CACHE_LOOKUP,
)
CACHE_INSERTED = Attribute(
    "torch_tensorrt.engine_cache.insert.result",
    "string",
    "`inserted`, `refreshed` (there was an entry under this key) or `refused` (nothing was stored).",
    phase.CACHE_INSERT,
    kind=Enumeration("inserted", "refreshed", "refused"),
)
CACHE_EVICTED = Attribute(
    "torch_tensorrt.engine_cache.evicted.count",
    "int",
    "Entries of the engine cache that were removed to store a new one.",
    phase.CACHE_INSERT,
)
CACHE_EVICTED_SIZE = Attribute(
    "torch_tensorrt.engine_cache.evicted.size",
    "int",
    "Bytes that the cache counts as freed by removing entries; it counts nothing for entries that another process "
    "wrote.",
    phase.CACHE_INSERT,
)

# --- files and refits -----------------------------------------------------------------------------------------
FILE_FORMAT = Attribute(
    "torch_tensorrt.file.format",
    "string",
    "`exported_program`, `torchscript`, `aot_inductor`, `executorch` or `mutable_module`.",
    phase.SAVE,
    phase.LOAD,
    kind=Enumeration("exported_program", "torchscript", "aot_inductor", "executorch", "mutable_module"),
)
FILE_SIZE = Attribute(
    "torch_tensorrt.file.size", "int", "Bytes of the file that was saved or loaded.", phase.SAVE, phase.LOAD
)
SAVE_RETRACE = Attribute(
    "torch_tensorrt.save.retrace", "boolean", "The module is exported again before it is saved.", phase.SAVE
)
REFIT_IN_PLACE = Attribute(
    "torch_tensorrt.refit.in_place",
    "boolean",
    "The compiled module itself gets the weights, not a copy.",
    phase.REFIT,
    at_start=True,
)
REFIT_OUTPUTS_MATCH = Attribute(
    "torch_tensorrt.refit.outputs_match",
    "boolean",
    "Whether the refitted module computes the same as the model, as `verify_output` found. Torch-TensorRT only "
    "logs a difference.",
    phase.REFIT,
)

# --- runs -----------------------------------------------------------------------------------------------------
EXECUTE_FIRST = Attribute(
    "torch_tensorrt.execute.first",
    "boolean",
    "True on the first run of this engine that torchspan saw.",
    phase.EXECUTE,
    at_start=True,
)
EXECUTE_SHAPES_CHANGED = Attribute(
    "torch_tensorrt.execute.shapes_changed",
    "boolean",
    "Present where the inputs have other shapes than at the last run of this engine that torchspan recorded.",
    phase.EXECUTE,
    at_start=True,
)
EXECUTE_FOLDED, EXECUTE_FOLDED_SUM, EXECUTE_FOLDED_MAX = folded(
    phase.EXECUTE,
    count="Runs of engines below this span that have no span because of the rate limits; also on the user's spans.",
    total="Seconds that the runs counted in `torch_tensorrt.execute.folded.count` took in all; also on the user's "
    "spans.",
    longest="Seconds of the longest run counted in `torch_tensorrt.execute.folded.count`; also on the user's spans.",
)
