# SPDX-License-Identifier: Apache-2.0
"""Attributes about Torch-TensorRT: compilations, partitions and fallback, conversions, the engine cache, runs."""

from __future__ import annotations

from torchspan.words import phase
from torchspan.words.redaction.kinds_of_text import Digest, Enumeration, Identifier, LineText, ModulePath, Version
from torchspan.words.redaction.operator_text import Operator, OperatorArguments, Validators
from torchspan.words.redaction.size_text import SettingValue
from torchspan.words.semconv._table import Attribute, RowType, folded

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
    "torch_tensorrt.load",
)
"""The calls with which programs enter Torch-TensorRT."""

IRS = ("default", "dynamo", "torch_compile", "ts", "torchscript", "exported_program", "fx")
"""Values of `ir`."""


class FallbackReason:
    """Values of `torch_tensorrt.fallback.reason_classes`: why work runs in PyTorch."""

    NO_CONVERTER = "no_converter"
    """No converter is registered for the operator."""
    VALIDATOR_REFUSED = "validator_refused"
    """Converters exist, but all of their validators refused this node (a data type, a shape, an argument)."""
    USER_EXCLUDED = "user_excluded"
    """The user listed the operator in `torch_executed_ops`."""
    COMPLEX_DTYPE = "complex_dtype"
    """The node produces or consumes complex numbers, which TensorRT does not support."""
    DATA_DEPENDENT = "data_dependent"
    """The output's shape depends on data and `fallback_data_dependent_ops` is set."""
    MIN_BLOCK_SIZE = "min_block_size"
    """A converter accepts the operator, but its group has fewer operators than `min_block_size`."""
    NO_SUPPORTED_OPERATORS = "no_supported_operators"
    """No operator in the graph is supported, so the whole graph was skipped."""
    COMPILE_FAILED = "compile_failed"
    """The conversion or the build failed, and `torch.compile` continued in PyTorch."""
    CACHE_ENTRY_REJECTED = "cache_entry_rejected"
    """On a cache lookup only: Torch-TensorRT rejected an entry and builds the engine."""


class Outcome:
    """Values of `torch_tensorrt.compile.outcome`: how a compilation ended."""

    COMPLETE = "complete"
    """Everything that was to run in TensorRT does."""
    FALLBACK = "fallback"
    """The compilation returned, but work that was to run in TensorRT runs in PyTorch."""
    FAILED = "failed"
    """The compilation raised an exception, whose class is `error.type`."""


class CacheReason:
    """Values of `torch_tensorrt.engine_cache.reason`."""

    NOT_REQUESTED = "not_requested"
    """Disabled: `reuse_cached_engines` is false."""
    NO_CACHE_GIVEN = "no_cache_given"
    """Disabled: engines were to be reused, but the conversion received no cache."""
    REFIT_UNAVAILABLE = "refit_unavailable"
    """Disabled, refused: this installation cannot refit engines, and cached engines need a refit."""
    IMMUTABLE_WEIGHTS = "immutable_weights"
    """Disabled: `immutable_weights` is true, and cached engines need a refit."""
    NO_HASH = "no_hash"
    """Disabled, refused: the cache returned no hash for the subgraph."""
    SETTINGS = "settings"
    """Rejected: the entry was built with other settings, listed in `torch_tensorrt.engine_cache.rejected.settings`."""
    INPUTS = "inputs"
    """Rejected: the entry was built for inputs of another shape, data type or format."""
    OUTDATED_ENTRY = "outdated_entry"
    """Rejected: an older Torch-TensorRT wrote the entry, which lacks required contents. The engine is built."""
    OTHER_SETTINGS = "other_settings"
    """Miss: the cache's folder has an entry for this graph and these inputs, with other settings."""
    OTHER_INPUTS = "other_inputs"
    """Miss: the cache's folder has an entry for this graph, with other inputs."""
    IGNORED = "ignored_by_cache"
    """Rejected: a cache class of the user had the entry and did not return it."""
    UNREADABLE = "unreadable"
    """Rejected: reading or unpickling the entry raised an exception."""
    MALFORMED_ENTRY = "malformed_entry"
    """Rejected: the cache returned something that is not an entry."""
    ENGINE_UNREADABLE = "engine_unreadable"
    """Rejected: TensorRT could not read the engine in the entry (another version or GPU)."""
    REFIT_FAILED = "refit_failed"
    """Rejected: the engine could not be refitted with this model's weights."""
    LARGER_THAN_CACHE = "larger_than_cache"
    """Refused: the entry is larger than the cache's size limit."""
    CACHE_FULL = "cache_full"
    """Refused: the entry did not fit, even after the cache had removed other entries."""
    WRITE_FAILED = "write_failed"
    """Refused: the file could not be written. Torch-TensorRT continues without it."""
    INSERT_RAISED = "insert_raised"
    """Refused: packing or saving the entry raised an exception, which propagated."""


_REASON = Enumeration.of(FallbackReason)

# --- entry points ---------------------------------------------------------------------------------------------
ENTRY_POINT = Attribute(
    "torch_tensorrt.entry_point",
    Enumeration(*ENTRY_POINTS),
    "Outermost call, by the name under which programs call it: `torch_tensorrt.compile`, `torch.compile`, "
    "`torch_tensorrt.save` and so on.",
    *phase.ENTRIES,
    phase.PROGRESS,
    at_start=True,
    stable=True,
)
IR = Attribute(
    "torch_tensorrt.ir",
    Enumeration(*IRS),
    "Value of `ir` that the program passed; `other` for a value that Torch-TensorRT does not accept.",
    phase.COMPILE,
    phase.CONVERT_TO_ENGINE,
    at_start=True,
)
TORCH_TENSORRT_VERSION = Attribute(
    "torch_tensorrt.version",
    Version(),
    "Version of Torch-TensorRT.",
    *phase.ENTRIES,
    at_start=True,
    resource=True,
)

SETTING_PREFIX = "torch_tensorrt.settings."
_SETTINGS: tuple[tuple[str, RowType, str], ...] = (
    ("min_block_size", "int", "Smallest number of operators that a TensorRT subgraph may have."),
    ("optimization_level", "int", "Optimization level of TensorRT's builder."),
    ("workspace_size", "int", "Workspace that the builder may use, in bytes; 0 means that TensorRT decides."),
    ("num_avg_timing_iters", "int", "Number of timing iterations for each tactic."),
    ("torch_executed_ops", [Operator()], "Operators that the user keeps in PyTorch (at most 20)."),
    ("require_full_compilation", "boolean", "Whether the whole graph must run in TensorRT."),
    (
        "use_fast_partitioner",
        "boolean",
        "Whether the adjacency partitioner splits the graph (true), or the global partitioner (false).",
    ),
    ("enable_resource_partitioning", "boolean", "Whether subgraphs are split so that building fits into memory."),
    ("fallback_data_dependent_ops", "boolean", "Whether operators with data-dependent output shapes run in PyTorch."),
    (
        "pass_through_build_failures",
        "boolean",
        "Whether a failed build raises an exception instead of falling back without an error.",
    ),
    ("dryrun", "boolean", "Whether the compilation only plans and builds nothing."),
    ("lazy_engine_init", "boolean", "Whether engines are set up only after all engines were built."),
    ("cache_built_engines", "boolean", "Whether new engines are put into the engine cache."),
    ("reuse_cached_engines", "boolean", "Whether each engine is looked up in the engine cache first."),
    ("immutable_weights", "boolean", "Whether engines are built so that they cannot be refitted."),
    ("strip_engine_weights", "boolean", "Whether engines are stored without their weights."),
    ("refit_identical_engine_weights", "boolean", "Whether engines can be refitted only with identical weights."),
    ("enable_weight_streaming", "boolean", "Whether weights may be streamed."),
    ("hardware_compatible", "boolean", "Whether engines also run on other GPU generations."),
    ("version_compatible", "boolean", "Whether engines also run on later TensorRT versions."),
    ("offload_module_to_cpu", "boolean", "Whether the model leaves the GPU while engines are built."),
    ("truncate_double", "boolean", "Whether 64-bit floats are truncated to 32 bits."),
    ("disable_tf32", "boolean", "Whether TF32 is disabled."),
    ("use_fp32_acc", "boolean", "Whether FP16 matrix products accumulate in FP32."),
    ("enable_autocast", "boolean", "Whether rule-based low precision is enabled."),
    ("decompose_attention", "boolean", "Whether attention is decomposed."),
    ("use_distributed_mode_trace", "boolean", "Whether distributed models are traced through aot_autograd."),
)
SETTINGS: dict[str, Attribute] = {
    name: Attribute(SETTING_PREFIX + name, type_, brief, *phase.LOWERING, at_start=True)
    for name, type_, brief in _SETTINGS
}
"""Compilation settings by field name. Spans omit a setting that the installed version lacks."""

SETTING_DEFAULTS: dict[str, object] = {
    **{name: False for name, type_, _ in _SETTINGS if type_ == "boolean"},
    "min_block_size": 5,
    "workspace_size": 0,
    "num_avg_timing_iters": 1,
    "use_fast_partitioner": True,
    "immutable_weights": True,
}
"""Their defaults, as spans have them (torch_tensorrt/dynamo/_defaults.py). The others have no value by default."""

# --- compilations ---------------------------------------------------------------------------------------------
_SPLIT = (phase.COMPILE, phase.REFIT, phase.PARTITION)
"""Work whose spans describe how the operators of a graph are divided between TensorRT and PyTorch."""

OPERATORS_TOTAL = Attribute(
    "torch_tensorrt.operators.total", "int", "Number of operators in the lowered graph.", *_SPLIT
)
OPERATORS_SUPPORTED = Attribute(
    "torch_tensorrt.operators.supported",
    "int",
    "Number of operators in the lowered graph that a converter accepts.",
    *_SPLIT,
)
OPERATORS_PLANNED = Attribute(
    "torch_tensorrt.operators.planned",
    "int",
    "Number of operators in the lowered graph that the partition assigned to TensorRT. On a compilation or a refit, "
    "present only if the plan was not carried out: after a failure, and with `dryrun`.",
    *_SPLIT,
)
OPERATORS_TENSORRT = Attribute(
    "torch_tensorrt.operators.tensorrt",
    "int",
    "Number of operators in the lowered graph that run in TensorRT. Absent if the work raised an exception, and with "
    "`dryrun`.",
    phase.COMPILE,
    phase.REFIT,
)
COVERAGE = Attribute(
    "torch_tensorrt.coverage",
    "double",
    "Share of the lowered graph's operators that run in TensorRT, from 0 to 1. Absent if the work raised an "
    "exception, and with `dryrun`.",
    phase.COMPILE,
    phase.REFIT,
    stable=True,
)
ENGINE_COUNT = Attribute(
    "torch_tensorrt.engines.count",
    "int",
    "Number of engines that were built, refitted, saved or loaded; with `dryrun`, that are planned.",
    phase.COMPILE,
    phase.REFIT,
    phase.SAVE,
    phase.LOAD,
    stable=True,
)
DEFERRED = Attribute(
    "torch_tensorrt.deferred",
    "boolean",
    'True if the call compiled nothing yet: with `ir="torch_compile"`, the compilation starts at the first call of '
    "the returned module.",
    phase.COMPILE,
)
ENGINES_SIZE = Attribute(
    "torch_tensorrt.engines.size", "int", "Total size of all engines, in bytes.", phase.COMPILE, phase.SAVE, phase.LOAD
)

# --- lowering -------------------------------------------------------------------------------------------------
PASS_NAME = Attribute(
    "torch_tensorrt.pass.name",
    Identifier(),
    "Name of the function that implements the lowering pass.",
    phase.PASS,
    at_start=True,
)

# --- partition and fallback -----------------------------------------------------------------------------------
PARTITIONER = Attribute(
    "torch_tensorrt.partitioner",
    Enumeration("fast", "global", "resource"),
    "Partitioner that split the graph: `fast`, `global` or `resource`.",
    phase.PARTITION,
    at_start=True,
)
SUBGRAPHS_TENSORRT = Attribute(
    "torch_tensorrt.subgraphs.tensorrt", "int", "Number of subgraphs that run in TensorRT.", phase.PARTITION
)
SUBGRAPHS_TORCH = Attribute(
    "torch_tensorrt.subgraphs.torch", "int", "Number of subgraphs that run in PyTorch.", phase.PARTITION
)
FALLBACK_REASON_CLASSES = Attribute(
    "torch_tensorrt.fallback.reason_classes",
    [_REASON],
    "Reasons why work that was to run in TensorRT runs in PyTorch, most frequent first; absent if nothing fell back. "
    "On a cache lookup, the reason why an engine is built although it was to come from the cache.",
    *_SPLIT,
    phase.CACHE_LOOKUP,
    stable=True,
)
FALLBACK_OPERATOR_NAMES = Attribute(
    "torch_tensorrt.fallback.operators.names",
    [Operator()],
    "Operators left in PyTorch, most frequent first (at most 20).",
    *_SPLIT,
    stable=True,
)
FALLBACK_OPERATOR_COUNTS = Attribute(
    "torch_tensorrt.fallback.operators.counts",
    "int[]",
    "Number of occurrences of each operator in `torch_tensorrt.fallback.operators.names`.",
    *_SPLIT,
    stable=True,
)
FALLBACK_OPERATOR_REASONS = Attribute(
    "torch_tensorrt.fallback.operators.reasons",
    [_REASON],
    "Class of reason for each operator in `torch_tensorrt.fallback.operators.names`.",
    *_SPLIT,
    stable=True,
)
FALLBACK_OPERATOR_PLACES = Attribute(
    "torch_tensorrt.fallback.operators.places",
    [LineText()],
    "Line of the user's model that first calls each operator in `torch_tensorrt.fallback.operators.names` "
    "(`models/net.py:12`), from the stack that PyTorch recorded for the node. `?` if PyTorch recorded none, or only "
    "lines of its own.",
    *_SPLIT,
)
FALLBACK_OPERATOR_PLACE_COUNTS = Attribute(
    "torch_tensorrt.fallback.operators.place_counts",
    "int[]",
    "Number of different lines of the user's model that call each operator in "
    "`torch_tensorrt.fallback.operators.names`. 0 if no line is known.",
    *_SPLIT,
)
FALLBACK_OPERATORS_OMITTED = Attribute(
    "torch_tensorrt.fallback.operators.omitted",
    "int",
    "Number of kinds of operators left in PyTorch that `torch_tensorrt.fallback.operators.names` omits.",
    *_SPLIT,
)
FALLBACK_OPERATORS_STAND_IN = Attribute(
    "torch_tensorrt.fallback.stand_in_operators",
    [Operator()],
    "Operators left in PyTorch (at most 20) that a graph has only because the stand-in for a GPU keeps tensors on the "
    "CPU: variants for the CPU, such as `aten.mkldnn_rnn_layer`. A GPU has other operators in their place.",
    *_SPLIT,
)
STAND_IN_DECOMPOSED = Attribute(
    "torch_tensorrt.stand_in.decomposed_operators",
    [Operator()],
    "Variants of operators for the CPU that the stand-in for a GPU decomposed as Torch-TensorRT decomposes those for a "
    "GPU.",
    phase.COMPILE,
)
FALLBACK_TOTAL_REASONS = Attribute(
    "torch_tensorrt.fallback.totals.reasons",
    [_REASON],
    "Classes of reason to which the exact totals in `torch_tensorrt.fallback.totals.operators` and "
    "`torch_tensorrt.fallback.totals.subgraphs` belong. The totals include the operators that "
    "`torch_tensorrt.fallback.operators.names` omits.",
    *_SPLIT,
)
FALLBACK_TOTAL_OPERATORS = Attribute(
    "torch_tensorrt.fallback.totals.operators",
    "int[]",
    "Number of operators left in PyTorch for each of `torch_tensorrt.fallback.totals.reasons`.",
    *_SPLIT,
)
FALLBACK_TOTAL_SUBGRAPHS = Attribute(
    "torch_tensorrt.fallback.totals.subgraphs",
    "int[]",
    "Number of subgraphs left in PyTorch for each of `torch_tensorrt.fallback.totals.reasons`. A subgraph counts for "
    "the reason of most of its operators; a graph left whole counts as one. The global partitioner makes no PyTorch "
    "subgraphs.",
    *_SPLIT,
)
COMPILE_OUTCOME = Attribute(
    "torch_tensorrt.compile.outcome",
    Enumeration.of(Outcome),
    "How the compilation ended: `complete`, `fallback` (it returned, but work that was to run in TensorRT runs in "
    "PyTorch) or `failed` (it raised an exception).",
    phase.COMPILE,
    stable=True,
)
FALLBACK_REASON_CLASS = Attribute(
    "torch_tensorrt.fallback.reason_class",
    _REASON,
    "Class of reason why operators run in PyTorch: one of the values of `torch_tensorrt.fallback.reason_classes`.",
    metric=True,
    stable=True,
)

# --- failures ---------------------------------------------------------------------------------------------------
UNSUPPORTED_NAMES = Attribute(
    "torch_tensorrt.unsupported.operators.names",
    [Operator()],
    "Operators because of which a compilation with `require_full_compilation` failed, most frequent first (at most "
    "20). Nothing runs after the failure, so these operators are not fallback.",
    *_SPLIT,
    stable=True,
)
UNSUPPORTED_COUNTS = Attribute(
    "torch_tensorrt.unsupported.operators.counts",
    "int[]",
    "Number of occurrences of each operator in `torch_tensorrt.unsupported.operators.names`.",
    *_SPLIT,
)
UNSUPPORTED_REASONS = Attribute(
    "torch_tensorrt.unsupported.operators.reasons",
    [_REASON],
    "Class of reason for each operator in `torch_tensorrt.unsupported.operators.names`, as in "
    "`torch_tensorrt.fallback.operators.reasons`.",
    *_SPLIT,
)
UNSUPPORTED_PLACES = Attribute(
    "torch_tensorrt.unsupported.operators.places",
    [LineText()],
    "Line of the user's model that first calls each operator in `torch_tensorrt.unsupported.operators.names`, as in "
    "`torch_tensorrt.fallback.operators.places`.",
    *_SPLIT,
)
UNSUPPORTED_PLACE_COUNTS = Attribute(
    "torch_tensorrt.unsupported.operators.place_counts",
    "int[]",
    "Number of different lines of the user's model that call each operator in "
    "`torch_tensorrt.unsupported.operators.names`. 0 if no line is known.",
    *_SPLIT,
)
UNSUPPORTED_OMITTED = Attribute(
    "torch_tensorrt.unsupported.operators.omitted",
    "int",
    "Number of kinds of unsupported operators that `torch_tensorrt.unsupported.operators.names` omits.",
    *_SPLIT,
)
UNSUPPORTED_TOTAL_REASONS = Attribute(
    "torch_tensorrt.unsupported.totals.reasons",
    [_REASON],
    "Classes of reason to which the exact totals in `torch_tensorrt.unsupported.totals.operators` belong.",
    phase.COMPILE,
    phase.REFIT,
)
UNSUPPORTED_TOTAL_OPERATORS = Attribute(
    "torch_tensorrt.unsupported.totals.operators",
    "int[]",
    "Number of operators that were not going to run in TensorRT, for each of "
    "`torch_tensorrt.unsupported.totals.reasons`. Present on a compilation or a refit that raised an exception, so "
    "that these operators run nowhere.",
    phase.COMPILE,
    phase.REFIT,
)
REFUSED_OPERATORS = Attribute(
    "torch_tensorrt.refused.operators.names",
    [Operator()],
    "Operators that have converters, but whose validators refused a node (at most 20).",
    *_SPLIT,
)
REFUSED_VALIDATORS = Attribute(
    "torch_tensorrt.refused.operators.validators",
    [Validators()],
    "Validators that were asked about the first refused node of each operator in "
    "`torch_tensorrt.refused.operators.names`, by their qualified names (at most 4). `supports_dynamic_shapes=False` "
    "means that the node has dynamic shapes and a converter supports only static ones. A validator gives no reason.",
    *_SPLIT,
)
REFUSED_ARGUMENTS = Attribute(
    "torch_tensorrt.refused.operators.arguments",
    [OperatorArguments()],
    "Arguments of the first refused node of each operator in `torch_tensorrt.refused.operators.names`, such as `self: "
    "float64, dim`. The names are those of the operator's schema. A tensor has its data type, and `dynamic` for a "
    "symbolic shape; no other value is recorded.",
    *_SPLIT,
)
FAILED_OPERATOR = Attribute(
    "torch_tensorrt.failed.operator",
    Operator(),
    "Operator whose conversion failed, in the form that `torch_executed_ops` accepts. For a node without an operator, "
    "the kind of node (`placeholder`, `get_attr`, `output`).",
    phase.CONSTRUCT_NETWORK,
)
FAILED_NODE_NAME = Attribute(
    "torch_tensorrt.failed.node.name",
    Identifier(),
    "Name of the node whose conversion failed. Present only if the name was made from the operator's name: other "
    "names may be the program's own words.",
    phase.CONSTRUCT_NETWORK,
)
FAILED_NODE_POSITION = Attribute(
    "torch_tensorrt.failed.node.position",
    "int",
    "Position of the node whose conversion failed, from 1 to `torch_tensorrt.failed.nodes.count`.",
    phase.CONSTRUCT_NETWORK,
)
FAILED_NODES = Attribute(
    "torch_tensorrt.failed.nodes.count",
    "int",
    "Number of nodes in the graph in which a conversion failed, including inputs, constants and the output.",
    phase.CONSTRUCT_NETWORK,
)
FAILED_CONVERTER = Attribute(
    "torch_tensorrt.failed.converter",
    Identifier(),
    "Converter that failed, by its qualified name. Absent if the operator has no converter.",
    phase.CONSTRUCT_NETWORK,
)

# --- one engine -----------------------------------------------------------------------------------------------
ENGINE_NAME = Attribute(
    "torch_tensorrt.engine.name",
    Identifier(),
    "Name that Torch-TensorRT gives to the engine's subgraph, such as `_run_on_acc_0`.",
    phase.CONVERT,
    phase.SETUP_ENGINE,
    phase.EXECUTE,
    phase.PROGRESS,
    at_start=True,
    stable=True,
)
ENGINE_MODULES = Attribute(
    "torch_tensorrt.engine.modules",
    [ModulePath()],
    "First and last module of the model in the engine, in the order of the graph, such as `layer2.0` and `layer4.1`; "
    "one entry if they are the same. For a module of `torch.nn` inside a module of the program's own, the latter. "
    "Absent if the graph does not name its modules, as with `torch.compile`, and for a run of an engine from a file.",
    *phase.CONVERSIONS,
    phase.EXECUTE,
    at_start=True,
)
ENGINE_OPERATORS = Attribute(
    "torch_tensorrt.engine.operators",
    "int",
    "Number of operators in the engine's subgraph.",
    phase.CONVERT,
    at_start=True,
)
RUNTIME = Attribute(
    "torch_tensorrt.runtime",
    Enumeration("python", "cpp"),
    "Runtime that runs the engine: `python` or `cpp`.",
    phase.SETUP_ENGINE,
)
CONVERTER_OPERATORS = Attribute(
    "torch_tensorrt.converters.operators",
    [Operator()],
    "Operators whose converters took longest, longest first (at most 20).",
    phase.CONSTRUCT_NETWORK,
)
CONVERTER_COUNTS = Attribute(
    "torch_tensorrt.converters.counts",
    "int[]",
    "Number of conversions of each operator in `torch_tensorrt.converters.operators`.",
    phase.CONSTRUCT_NETWORK,
)
CONVERTER_DURATIONS = Attribute(
    "torch_tensorrt.converters.durations",
    "double[]",
    "Total time in the converters of each operator in `torch_tensorrt.converters.operators`, in seconds.",
    phase.CONSTRUCT_NETWORK,
)
TIMING_CACHE_FILE = Attribute(
    "torch_tensorrt.timing_cache.file",
    Enumeration("read", "created"),
    "Whether the timing cache file was `read`, or `created` because it did not exist. Absent on TensorRT-RTX.",
    *phase.CONVERSIONS,
)

# --- the engine cache -----------------------------------------------------------------------------------------
CACHE_RESULT = Attribute(
    "torch_tensorrt.engine_cache.result",
    Enumeration("hit", "miss", "disabled", "rejected"),
    "Result of the engine-cache lookup: `hit`, `miss`, `disabled` (Torch-TensorRT did not look) or `rejected` (an "
    "entry existed and was not used). Present on every conversion, with or without a lookup.",
    *phase.CONVERSIONS,
    phase.CACHE_LOOKUP,
    stable=True,
)
CACHE_REASON = Attribute(
    "torch_tensorrt.engine_cache.reason",
    Enumeration.of(CacheReason),
    "Reason why the engine cache is `disabled`, an entry was `rejected`, or a new engine was `refused`. On a `miss`, "
    "present only if the cache's folder has entries of the same graph; the value then states whether they differ in "
    "inputs or in settings.",
    *phase.CONVERSIONS,
    phase.CACHE_LOOKUP,
    phase.CACHE_INSERT,
    stable=True,
)
CACHE_SETTINGS = Attribute(
    "torch_tensorrt.engine_cache.rejected.settings",
    [Identifier()],
    "Names of the settings that differ between a rejected entry and this compilation (at most 20).",
    phase.CACHE_LOOKUP,
    stable=True,
)
CACHE_NEIGHBOR_SETTINGS = Attribute(
    "torch_tensorrt.engine_cache.miss.settings.names",
    [Identifier()],
    "Names of settings, each of which is the only difference between this compilation and an entry of the same graph "
    "and inputs (at most 20). Present only on a miss. Absent if more than one setting differs, or a setting whose "
    "values cannot be listed.",
    phase.CACHE_LOOKUP,
)
CACHE_NEIGHBOR_STORED = Attribute(
    "torch_tensorrt.engine_cache.miss.settings.stored_values",
    [SettingValue()],
    "Value in the cache entry of each of `torch_tensorrt.engine_cache.miss.settings.names`; `?` for a value that is "
    "not a number, boolean, data type or enumeration.",
    phase.CACHE_LOOKUP,
)
CACHE_NEIGHBOR_REQUESTED = Attribute(
    "torch_tensorrt.engine_cache.miss.settings.requested_values",
    [SettingValue()],
    "Value in this compilation of each of `torch_tensorrt.engine_cache.miss.settings.names`; `?` for a value that is "
    "not a number, boolean, data type or enumeration.",
    phase.CACHE_LOOKUP,
)
CACHE_KEY = Attribute(
    "torch_tensorrt.engine_cache.key",
    Digest(),
    "Digest, as 16 hexadecimal digits, of the hash under which the cache stores the engine. Equal keys mean equal "
    "hashes.",
    phase.CACHE_LOOKUP,
    phase.CACHE_INSERT,
    at_start=True,
)
CACHE_ENTRY_SIZE = Attribute(
    "torch_tensorrt.engine_cache.entry.size",
    "int",
    "Size of the packed entry that the cache returned or received, in bytes. Absent for a cache that packs entries in "
    "its own way.",
    phase.CACHE_LOOKUP,
    phase.CACHE_INSERT,
)
CACHE_INSERTED = Attribute(
    "torch_tensorrt.engine_cache.insert.result",
    Enumeration("inserted", "refreshed", "refused"),
    "Result of the insertion into the engine cache: `inserted`, `refreshed` (the key already had an entry) or "
    "`refused` (nothing was stored).",
    phase.CACHE_INSERT,
)

# --- files and refits -----------------------------------------------------------------------------------------
FILE_FORMAT = Attribute(
    "torch_tensorrt.file.format",
    Enumeration("exported_program", "torchscript", "aot_inductor", "executorch", "mutable_module"),
    "Format of the file that was saved or loaded: `exported_program`, `torchscript`, `aot_inductor`, `executorch` or "
    "`mutable_module`.",
    phase.SAVE,
    phase.LOAD,
)
REFIT_OUTPUTS_MATCH = Attribute(
    "torch_tensorrt.refit.outputs_match",
    "boolean",
    "Whether the refitted module computes the same outputs as the model, as checked by `verify_output`. "
    "Torch-TensorRT only logs a difference.",
    phase.REFIT,
)

# --- runs -----------------------------------------------------------------------------------------------------
EXECUTE_FIRST = Attribute(
    "torch_tensorrt.execute.first",
    "boolean",
    "Whether this run is the first run of the engine that torchspan saw.",
    phase.EXECUTE,
    at_start=True,
)
EXECUTE_SHAPES_CHANGED = Attribute(
    "torch_tensorrt.execute.shapes_changed",
    "boolean",
    "True if the inputs have other shapes than at the last run of this engine that torchspan recorded.",
    phase.EXECUTE,
    at_start=True,
    stable=True,
)
EXECUTE_GPU_DURATION = Attribute(
    "torch_tensorrt.execute.gpu_duration",
    "double",
    "Time on the device from the start of the run to its end, in seconds, between two CUDA events on the stream that "
    "the program uses. With `TORCHSPAN_GPU_TIME=sampled`.",
    phase.EXECUTE,
)
EXECUTE_FOLDED, EXECUTE_FOLDED_SUM, EXECUTE_FOLDED_MAX = folded(
    phase.EXECUTE,
    count="Number of runs of engines below this span that have no span because of the rate limits. Also set on the "
    "user's spans.",
    total="Total duration of the runs counted in `torch_tensorrt.execute.folded.count`, in seconds. Also set on the "
    "user's spans.",
    longest="Duration of the longest run counted in `torch_tensorrt.execute.folded.count`, in seconds. Also set on the "
    "user's spans.",
    stable=True,
)
