# SPDX-License-Identifier: Apache-2.0
"""Attributes about TensorRT and TensorRT-RTX: parser, builder, engines, execution contexts and the log."""

from __future__ import annotations

from torchspan import phase
from torchspan.semconv._operators import OnnxOperator
from torchspan.semconv._sizes import DataType, Shape
from torchspan.semconv._table import Attribute, folded
from torchspan.semconv._values import Digest, Enumeration, Identifier, Phrase, Text, Version

TENSORRT_VERSION = Attribute(
    "tensorrt.version",
    "string",
    "Version of the TensorRT library in use; on a resource, of the one that is installed.",
    *phase.ENTRIES,
    *phase.PLAIN,
    at_start=True,
    resource=True,
    kind=Version(),
)
TENSORRT_PACKAGE = Attribute(
    "tensorrt.package",
    "string",
    "The TensorRT package in use: `tensorrt` or `tensorrt_rtx`.",
    *phase.ENTRIES,
    *phase.PLAIN,
    at_start=True,
    resource=True,
    kind=Enumeration("tensorrt", "tensorrt_rtx"),
)

# --- networks and engines -------------------------------------------------------------------------------------
NETWORK_LAYERS = Attribute(
    "tensorrt.network.layers",
    "int",
    "Number of layers of the network.",
    phase.CONSTRUCT_NETWORK,
    phase.PARSE,
    phase.BUILD_ENGINE,
    at_start=True,
)
NETWORK_INPUTS = Attribute(
    "tensorrt.network.inputs", "int", "Number of inputs of the network.", phase.CONSTRUCT_NETWORK
)
NETWORK_OUTPUTS = Attribute(
    "tensorrt.network.outputs", "int", "Number of outputs of the network.", phase.CONSTRUCT_NETWORK
)
ENGINE_SIZE = Attribute(
    "tensorrt.engine.size",
    "int",
    "Bytes of the serialized engine.",
    *phase.CONVERSIONS,
    phase.CACHE_LOOKUP,
    phase.BUILD_ENGINE,
    phase.DESERIALIZE_ENGINE,
    phase.SETUP_ENGINE,
    at_start=True,
)
ENGINE_ID = Attribute(
    "tensorrt.engine.id",
    "string",
    "16 hexadecimal digits made of the serialized engine's length and of blocks spread over its bytes. Equal "
    "ids mean equal bytes, in any process and at any time, except for changes that fall between the blocks (a "
    "refit of few weights may). Different ids mean different bytes, which may still compute the same. On a "
    "run, the id is that of the bytes that the engine had when it was set up or last refitted through "
    "Torch-TensorRT, and it is absent while they are unknown. On metrics of the calls of a compiled module, "
    "it is the id that the module's engine had when torchspan began to follow the module, and it is absent "
    "where the module has several engines.",
    *phase.CONVERSIONS,
    phase.CACHE_LOOKUP,
    phase.CACHE_INSERT,
    phase.BUILD_ENGINE,
    phase.DESERIALIZE_ENGINE,
    phase.SETUP_ENGINE,
    phase.EXECUTE,
    at_start=True,
    kind=Digest(),
)

# --- the ONNX parser ------------------------------------------------------------------------------------------
MODEL_SIZE = Attribute(
    "tensorrt.parser.model.size",
    "int",
    "Bytes of the ONNX model, without weights that lie in files of their own.",
    phase.PARSE,
    at_start=True,
)
PARSER_ERRORS = Attribute(
    "tensorrt.parser.errors", "int", "Errors that this parse added to the parser's list.", phase.PARSE
)
PARSER_ERROR = Attribute(
    "tensorrt.parser.error",
    "string",
    "The first error that this parse added to the parser's list, as a template: every word that is not one of "
    "TensorRT's is `?`. TensorRT's own text with `TORCHSPAN_CAPTURE=text`.",
    phase.PARSE,
    kind=Text(),
)
PARSER_FAILED_OPERATORS = Attribute(
    "tensorrt.parser.failed_operators",
    "string[]",
    "ONNX operators that the parser's errors concern (at most 20).",
    phase.PARSE,
    kind=OnnxOperator(),
)

# --- the builder ----------------------------------------------------------------------------------------------
BUILDER_FLAGS = Attribute(
    "tensorrt.builder.flags",
    "string[]",
    "Flags set in the builder configuration.",
    phase.BUILD_ENGINE,
    at_start=True,
    kind=Identifier(),
)
BUILDER_LEVEL = Attribute(
    "tensorrt.builder.optimization_level",
    "int",
    "Optimization level of the builder configuration.",
    phase.BUILD_ENGINE,
    at_start=True,
)
BUILDER_TIMING_ITERATIONS = Attribute(
    "tensorrt.builder.avg_timing_iterations",
    "int",
    "Timing iterations of the builder for each tactic.",
    phase.BUILD_ENGINE,
    at_start=True,
)
BUILDER_AUX_STREAMS = Attribute(
    "tensorrt.builder.max_aux_streams",
    "int",
    "Limit of auxiliary streams for the builder (-1: TensorRT decides).",
    phase.BUILD_ENGINE,
    at_start=True,
)
BUILDER_PROFILES = Attribute(
    "tensorrt.builder.optimization_profiles",
    "int",
    "Number of optimization profiles of the builder configuration.",
    phase.BUILD_ENGINE,
    at_start=True,
)
BUILDER_WORKSPACE = Attribute(
    "tensorrt.builder.workspace_size",
    "int",
    "Bytes of workspace that the builder may use.",
    phase.BUILD_ENGINE,
    at_start=True,
)
BUILD_ERROR = Attribute(
    "tensorrt.build.error",
    "string",
    "On a build that returned no engine: the last error line of TensorRT's log, as in `tensorrt.log.message`. It is "
    "also the description of the span's status.",
    phase.BUILD_ENGINE,
    kind=Text(),
)
BUILD_LOGGER = Attribute(
    "tensorrt.build.logger",
    "string",
    "On a build that returned no engine: class of the logger that TensorRT gave the reason to. The lines of a class "
    "written in Python are events of the span; TensorRT's own `Logger` only prints them.",
    phase.BUILD_ENGINE,
    kind=Identifier(),
)
MEMORY_BEFORE = Attribute(
    "tensorrt.build.memory.before",
    "int",
    "Bytes of physical memory that the whole process had before the build (`VmRSS`; Linux only).",
    phase.BUILD_ENGINE,
)
MEMORY_PEAK = Attribute(
    "tensorrt.build.memory.peak",
    "int",
    "Bytes of physical memory that the whole process, other threads included, had at its peak during the build (Linux "
    "only).",
    phase.BUILD_ENGINE,
)
MEMORY_PEAK_SAMPLED = Attribute(
    "tensorrt.build.memory.peak_sampled",
    "boolean",
    "False: `tensorrt.build.memory.peak` is the kernel's own mark (`VmHWM`), which rose during the build. True: the "
    "process had had more memory earlier, so that the mark says nothing, and the peak is the most that torchspan saw "
    "before the build, after it, and every 0.25 s in between; the true peak may be higher.",
    phase.BUILD_ENGINE,
)
GPU_MEMORY_FREE_BEFORE = Attribute(
    "tensorrt.build.gpu_memory.free.before",
    "int",
    "Bytes free on the current device before the build; only if the program itself had initialised CUDA and used that "
    "device.",
    phase.BUILD_ENGINE,
)
GPU_MEMORY_FREE_AFTER = Attribute(
    "tensorrt.build.gpu_memory.free.after",
    "int",
    "Bytes free on the current device after the build; only if the program itself had initialised CUDA and used that "
    "device.",
    phase.BUILD_ENGINE,
)
GPU_MEMORY_TOTAL = Attribute(
    "tensorrt.build.gpu_memory.total",
    "int",
    "Bytes of the current device's memory, free or not; only if the program itself had initialised CUDA and used that "
    "device.",
    phase.BUILD_ENGINE,
)
TIMING_CACHE_SIZE_BEFORE = Attribute(
    "tensorrt.timing_cache.size.before",
    "int",
    "Bytes of the timing cache before the build; an empty one has a few hundred. Absent without a timing cache, and on "
    "TensorRT-RTX, which uses none.",
    *phase.CONVERSIONS,
    phase.BUILD_ENGINE,
    at_start=True,
)
TIMING_CACHE_SIZE_AFTER = Attribute(
    "tensorrt.timing_cache.size.after",
    "int",
    "Bytes of the timing cache after the build. Absent without a timing cache, and on TensorRT-RTX, which uses none.",
    *phase.CONVERSIONS,
    phase.BUILD_ENGINE,
)
BUILD_PHASE_NAME = Attribute(
    "tensorrt.build_phase.name",
    "string",
    "TensorRT's name of the build phase.",
    phase.BUILD_PHASE,
    at_start=True,
    kind=Phrase(),
)
BUILD_PHASE_STEPS = Attribute(
    "tensorrt.build_phase.steps",
    "int",
    "Steps that TensorRT announced for the build phase.",
    phase.BUILD_PHASE,
    at_start=True,
)
BUILD_PHASE_STEPS_DONE = Attribute(
    "tensorrt.build_phase.steps_done", "int", "Steps of the build phase that were completed.", phase.BUILD_PHASE
)

# --- the log --------------------------------------------------------------------------------------------------
LOG_EVENT = "tensorrt.log"
"""The span event of a line of TensorRT's log, of severity warning or worse, on the innermost span of its thread."""
LOG_SEVERITY = Attribute(
    "tensorrt.log.severity",
    "string",
    "Severity of the line of TensorRT's log: `WARNING`, `ERROR` or `INTERNAL_ERROR`.",
    event=LOG_EVENT,
    kind=Enumeration("WARNING", "ERROR", "INTERNAL_ERROR"),
)
LOG_MESSAGE = Attribute(
    "tensorrt.log.message",
    "string",
    "First line of the logged text as a template: every word that is not one of TensorRT's is `?`, so that no "
    "name of a layer, node or tensor stays; at most 256 characters. The text itself with "
    "`TORCHSPAN_CAPTURE=text`.",
    event=LOG_EVENT,
    kind=Text(),
)
LOG_COUNT = Attribute(
    "tensorrt.log.count",
    "int",
    "Lines with this severity and message; the event has the time of the first.",
    event=LOG_EVENT,
)
LOG_OUT_OF_MEMORY = Attribute(
    "tensorrt.log.out_of_memory",
    "boolean",
    "TensorRT is known to write this line when memory does not suffice: the device's, or the workspace that the "
    "builder may use.",
    event=LOG_EVENT,
)
LOG_OMITTED = Attribute(
    "tensorrt.log.omitted",
    "int",
    "Lines of TensorRT's log without an event, because the span has events for 20 different lines already.",
)
OUT_OF_MEMORY = Attribute(
    "tensorrt.out_of_memory",
    "boolean",
    "Present where a line of TensorRT's log says that memory did not suffice (`tensorrt.log.out_of_memory`): if "
    "this work failed, that is the likely cause.",
)
TACTICS_SKIPPED = Attribute(
    "tensorrt.tactics.skipped",
    "int",
    "Tactics that TensorRT skipped for lack of memory, according to its log.",
)

# --- execution contexts ---------------------------------------------------------------------------------------
CONTEXT_PROFILES = Attribute(
    "tensorrt.engine.optimization_profiles",
    "int",
    "Number of optimization profiles of the engine.",
    phase.CREATE_CONTEXT,
    at_start=True,
)
CONTEXT_TENSORS = Attribute(
    "tensorrt.engine.io_tensors",
    "int",
    "Number of inputs and outputs of the engine.",
    phase.CREATE_CONTEXT,
    at_start=True,
)
CONTEXT_LAYERS = Attribute(
    "tensorrt.engine.layers",
    "int",
    "Number of layers of the engine, after fusion.",
    phase.CREATE_CONTEXT,
    at_start=True,
)
CONTEXT_MEMORY = Attribute(
    "tensorrt.engine.device_memory_size",
    "int",
    "Bytes of device memory that a context of the engine needs.",
    phase.CREATE_CONTEXT,
    at_start=True,
)
RUN_FIRST = Attribute(
    "tensorrt.execute.first",
    "boolean",
    "True on the first run of this execution context that torchspan saw.",
    phase.RUN_CONTEXT,
    at_start=True,
)
RUN_PROFILE = Attribute(
    "tensorrt.execute.profile",
    "int",
    "The context's optimization profile.",
    phase.RUN_CONTEXT,
    at_start=True,
)
RUN_SHAPES = Attribute(
    "tensorrt.inputs.shapes",
    "string[]",
    "Shape of each input (at most 20): of a run as set on the context; of a build outside every other span of "
    "torchspan as in the network, where a dynamic dimension reads `-1`.",
    phase.BUILD_ENGINE,
    phase.RUN_CONTEXT,
    at_start=True,
    kind=Shape(),
)
RUN_DTYPES = Attribute(
    "tensorrt.inputs.dtypes",
    "string[]",
    "Data type of each input (at most 20).",
    phase.BUILD_ENGINE,
    phase.RUN_CONTEXT,
    at_start=True,
    kind=DataType(),
)
RUN_FOLDED, RUN_FOLDED_SUM, RUN_FOLDED_MAX = folded(
    phase.RUN_CONTEXT,
    count="Runs of execution contexts below this span that have no span because of the rate limits; also on the user's "
    "spans.",
    total="Seconds that the runs counted in `tensorrt.execute.folded.count` took in all; also on the user's spans.",
    longest="Seconds of the longest run counted in `tensorrt.execute.folded.count`; also on the user's spans.",
)
