# SPDX-License-Identifier: Apache-2.0
"""Attributes about TensorRT and TensorRT-RTX: parser, builder, engines, execution contexts and the log."""

from __future__ import annotations

from torchspan.words import phase
from torchspan.words.redaction.kinds_of_text import (
    BuildPhaseName,
    Digest,
    Enumeration,
    Identifier,
    LayerName,
    Text,
    Version,
)
from torchspan.words.redaction.operator_text import OnnxOperator
from torchspan.words.redaction.size_text import DataType, ShapeText
from torchspan.words.semconv._table import Attribute, folded

TENSORRT_VERSION = Attribute(
    "tensorrt.version",
    Version(),
    "Version of the TensorRT library in use. On a resource, the version that is installed.",
    *phase.ENTRIES,
    *phase.PLAIN,
    at_start=True,
    resource=True,
)
TENSORRT_PACKAGE = Attribute(
    "tensorrt.package",
    Enumeration("tensorrt", "tensorrt_rtx"),
    "TensorRT package in use: `tensorrt` or `tensorrt_rtx`. On a resource, the package that is installed.",
    *phase.ENTRIES,
    *phase.PLAIN,
    at_start=True,
    resource=True,
)

# --- networks and engines -------------------------------------------------------------------------------------
NETWORK_LAYERS = Attribute(
    "tensorrt.network.layers",
    "int",
    "Number of layers in the network.",
    phase.CONSTRUCT_NETWORK,
    phase.PARSE,
    phase.BUILD_ENGINE,
    at_start=True,
)
ENGINE_SIZE = Attribute(
    "tensorrt.engine.size",
    "int",
    "Size of the serialized engine, in bytes.",
    *phase.CONVERSIONS,
    phase.CACHE_LOOKUP,
    phase.BUILD_ENGINE,
    phase.DESERIALIZE_ENGINE,
    phase.SETUP_ENGINE,
    at_start=True,
)
ENGINE_ID = Attribute(
    "tensorrt.engine.id",
    Digest(),
    "Id of an engine: 16 hexadecimal digits, computed from the length of the serialized engine and from blocks spread "
    "over its bytes. Equal ids mean equal bytes, in any process and at any time, except for changes that fall between "
    "the blocks (a refit of few weights may). Different ids mean different bytes, which may still compute the same. "
    "On a run, the id is that of the engine's bytes when the engine was set up or last refitted through "
    "Torch-TensorRT; absent while those bytes are unknown. On metrics of the calls of a compiled module, the id is "
    "the one that the module's engine had when torchspan began to follow the module. It is absent there if the module "
    "has several engines.",
    *phase.CONVERSIONS,
    phase.CACHE_LOOKUP,
    phase.CACHE_INSERT,
    phase.BUILD_ENGINE,
    phase.DESERIALIZE_ENGINE,
    phase.SETUP_ENGINE,
    phase.EXECUTE,
    at_start=True,
)

# --- the ONNX parser ------------------------------------------------------------------------------------------
MODEL_SIZE = Attribute(
    "tensorrt.parser.model.size",
    "int",
    "Size of the ONNX model in bytes, excluding weights that are stored in separate files.",
    phase.PARSE,
    at_start=True,
)
PARSER_ERROR = Attribute(
    "tensorrt.parser.error",
    Text(),
    "First error that this parse added to the parser's list, as in the table of messages. The whole text, in the "
    "user's own file, has the first 20 errors, each with its operator and the index and name of its node.",
    phase.PARSE,
)
PARSER_FAILED_OPERATORS = Attribute(
    "tensorrt.parser.failed_operators",
    [OnnxOperator()],
    "ONNX operators that the parser's errors concern (at most 20).",
    phase.PARSE,
)

# --- the builder ----------------------------------------------------------------------------------------------
BUILDER_FLAGS = Attribute(
    "tensorrt.builder.flags",
    [Identifier()],
    "Flags that are set in the builder configuration.",
    phase.BUILD_ENGINE,
    at_start=True,
)
BUILDER_LEVEL = Attribute(
    "tensorrt.builder.optimization_level",
    "int",
    "Optimization level of the builder configuration.",
    phase.BUILD_ENGINE,
    at_start=True,
)
BUILDER_WORKSPACE = Attribute(
    "tensorrt.builder.workspace_size",
    "int",
    "Workspace that the builder may use, in bytes.",
    phase.BUILD_ENGINE,
    at_start=True,
)
BUILD_ERROR = Attribute(
    "tensorrt.build.error",
    Text(),
    "Last error line of TensorRT's log on a build that returned no engine, as in `tensorrt.log.message`. The span's "
    "status has the same text as its description.",
    phase.BUILD_ENGINE,
)
BUILD_LOGGER = Attribute(
    "tensorrt.build.logger",
    Identifier(),
    "Class of the logger that received the reason for a build that returned no engine. Lines that go to a logger "
    "class written in Python are events of the span; TensorRT's own `Logger` only prints them.",
    phase.BUILD_ENGINE,
)
MEMORY_BEFORE = Attribute(
    "tensorrt.build.memory.before",
    "int",
    "Physical memory of the whole process before the build, in bytes (`VmRSS`; Linux only).",
    phase.BUILD_ENGINE,
)
MEMORY_PEAK = Attribute(
    "tensorrt.build.memory.peak",
    "int",
    "Peak of the physical memory of the whole process during the build, in bytes, including memory that other threads "
    "used (Linux only).",
    phase.BUILD_ENGINE,
)
MEMORY_PEAK_SAMPLED = Attribute(
    "tensorrt.build.memory.peak_sampled",
    "boolean",
    "How `tensorrt.build.memory.peak` was measured. False: the value is the kernel's own peak (`VmHWM`), which rose "
    "during the build. True: the process had used more memory earlier, so the kernel's peak did not rise. The value "
    "is then the most that torchspan saw before the build, after it, and every 0.25 s in between; the true peak may "
    "be higher.",
    phase.BUILD_ENGINE,
)
GPU_MEMORY_FREE_BEFORE = Attribute(
    "tensorrt.build.gpu_memory.free.before",
    "int",
    "Free memory of the current device before the build, in bytes. Present only if the program itself had initialized "
    "CUDA and used that device.",
    phase.BUILD_ENGINE,
)
GPU_MEMORY_FREE_AFTER = Attribute(
    "tensorrt.build.gpu_memory.free.after",
    "int",
    "Free memory of the current device after the build, in bytes. Present only if the program itself had initialized "
    "CUDA and used that device.",
    phase.BUILD_ENGINE,
)
GPU_MEMORY_TOTAL = Attribute(
    "tensorrt.build.gpu_memory.total",
    "int",
    "Total memory of the current device, in bytes. Present only if the program itself had initialized CUDA and used "
    "that device.",
    phase.BUILD_ENGINE,
)
GPU_MEMORY_USED_PEAK = Attribute(
    "tensorrt.build.gpu_memory.used.peak",
    "int",
    "Most memory of the current device that was in use during the build, in bytes, including memory that other "
    "programs used: the most that torchspan saw before the build, after it, and every 0.25 s in between. Present only "
    "if the program itself had initialized CUDA and used that device.",
    phase.BUILD_ENGINE,
)
BUILD_PHASE_NAME = Attribute(
    "tensorrt.build_phase.name",
    BuildPhaseName(),
    "TensorRT's name of the build phase.",
    phase.BUILD_PHASE,
    at_start=True,
)

# --- the log --------------------------------------------------------------------------------------------------
LOG_EVENT = "tensorrt.log"
"""Event of a line in TensorRT's log, of severity warning or worse, on the innermost span of its thread."""
LOG_SEVERITY = Attribute(
    "tensorrt.log.severity",
    Enumeration("WARNING", "ERROR", "INTERNAL_ERROR"),
    "Severity of the line of TensorRT's log: `WARNING`, `ERROR` or `INTERNAL_ERROR`.",
    event=LOG_EVENT,
)
LOG_MESSAGE = Attribute(
    "tensorrt.log.message",
    Text(),
    "The logged text, as in the table of messages. No name of a layer, node or tensor is kept.",
    event=LOG_EVENT,
)
LOG_COUNT = Attribute(
    "tensorrt.log.count",
    "int",
    "Number of lines with this severity and message. The event has the time of the first.",
    event=LOG_EVENT,
)
LOG_OUT_OF_MEMORY = Attribute(
    "tensorrt.log.out_of_memory",
    "boolean",
    "Whether TensorRT is known to write this line when memory is insufficient: the device's, or the workspace that "
    "the builder may use.",
    event=LOG_EVENT,
)
LOG_OMITTED = Attribute(
    "tensorrt.log.omitted",
    "int",
    "Number of lines of TensorRT's log that have no event, because the span already has events for 20 different lines.",
)
OUT_OF_MEMORY = Attribute(
    "tensorrt.out_of_memory",
    "boolean",
    "True if a line of TensorRT's log means that memory was insufficient (`tensorrt.log.out_of_memory`). If this work "
    "failed, that is the likely cause.",
)
TACTICS_SKIPPED = Attribute(
    "tensorrt.tactics.skipped",
    "int",
    "Number of tactics that TensorRT skipped because memory was insufficient, according to its log.",
)

# --- execution contexts ---------------------------------------------------------------------------------------
CONTEXT_MEMORY = Attribute(
    "tensorrt.engine.device_memory_size",
    "int",
    "Device memory that a context of the engine needs, in bytes.",
    phase.CREATE_CONTEXT,
    at_start=True,
)
RUN_FIRST = Attribute(
    "tensorrt.execute.first",
    "boolean",
    "Whether this run is the first run of the execution context that torchspan saw.",
    phase.RUN_CONTEXT,
    at_start=True,
)
RUN_SHAPES = Attribute(
    "tensorrt.inputs.shapes",
    [ShapeText()],
    "Shape of each input (at most 20). On a run, as set on the execution context. On a build outside every other span "
    "of torchspan, as in the network, where a dynamic dimension is `-1`.",
    phase.BUILD_ENGINE,
    phase.RUN_CONTEXT,
    at_start=True,
)
RUN_DTYPES = Attribute(
    "tensorrt.inputs.dtypes",
    [DataType()],
    "Data type of each input (at most 20).",
    phase.BUILD_ENGINE,
    phase.RUN_CONTEXT,
    at_start=True,
)
RUN_FOLDED, RUN_FOLDED_SUM, RUN_FOLDED_MAX = folded(
    phase.RUN_CONTEXT,
    count="Number of runs of execution contexts below this span that have no span because of the rate limits. Also set "
    "on the user's spans.",
    total="Total duration of the runs counted in `tensorrt.execute.folded.count`, in seconds. Also set on the user's "
    "spans.",
    longest="Duration of the longest run counted in `tensorrt.execute.folded.count`, in seconds. Also set on the "
    "user's spans.",
    stable=True,
)

# --- layers ---------------------------------------------------------------------------------------------------
_LAYERED = (phase.EXECUTE, phase.RUN_CONTEXT)
LAYER_NAMES = Attribute(
    "tensorrt.layers.names",
    [LayerName()],
    "TensorRT's names of the layers of the engine, slowest first (at most 40). On the last of the runs that "
    "`torchspan.layers` or `TORCHSPAN_LAYERS` asked for.",
    *_LAYERED,
)
LAYER_DURATIONS = Attribute(
    "tensorrt.layers.durations",
    "double[]",
    "Time on the device of each of `tensorrt.layers.names`, in seconds: the median of the runs.",
    *_LAYERED,
)
LAYER_SHARES = Attribute(
    "tensorrt.layers.shares",
    "double[]",
    "Share of each of `tensorrt.layers.names` in the sum of all medians, from 0 to 1.",
    *_LAYERED,
)
LAYER_RUNS = Attribute("tensorrt.layers.runs", "int", "Number of runs in which layers were timed.", *_LAYERED)
LAYERS_OMITTED = Attribute(
    "tensorrt.layers.omitted.count", "int", "Number of layers beyond the 40 of `tensorrt.layers.names`.", *_LAYERED
)
LAYERS_OMITTED_DURATION = Attribute(
    "tensorrt.layers.omitted.duration",
    "double",
    "Sum of the medians of the layers that `tensorrt.layers.omitted.count` counts, in seconds.",
    *_LAYERED,
)
