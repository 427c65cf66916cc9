# SPDX-License-Identifier: Apache-2.0
"""The table of metrics."""

from __future__ import annotations

from torchspan.words import phase
from torchspan.words.semconv import input_limits, opentelemetry, torch, torch_tensorrt, torchspan
from torchspan.words.semconv.measures import (
    SHORT_S,
    Count,
    Duration,
    Gathered,
    LongestRunning,
    Metric,
    Rows,
    RunDuration,
    RunningWork,
    Size,
    Total,
)
from torchspan.words.semconv.tensorrt import ENGINE_ID, ENGINE_SIZE

SIZES = tuple(4**exponent for exponent in range(7, 18))
"""16 KiB to 16 GiB."""

METRIC_COMPILE_DURATION = Metric(
    "torch_tensorrt.compile.duration",
    "s",
    "Duration of compilations by Torch-TensorRT, including failed ones.",
    torch_tensorrt.ENTRY_POINT,
    torch_tensorrt.COMPILE_OUTCOME,
    opentelemetry.ERROR_TYPE,
    torchspan.WHILE_SERVING,
    measure=Duration(of=(phase.COMPILE,)),
    stable=True,
)
METRIC_FRAME_DURATION = Metric(
    "torch.compile.frame.duration",
    "s",
    "Duration of the compilation of frames by `torch.compile`, from tracing to the compiled code, including frames "
    "that Dynamo gave up on.",
    torch.FRAME_OUTCOME,
    opentelemetry.ERROR_TYPE,
    measure=Duration(of=(phase.COMPILE_FRAME,)),
    stable=True,
)
METRIC_BACKWARD_DURATION = Metric(
    "torch.compile.backward.duration",
    "s",
    "Duration of the compilation of backward graphs of `torch.compile` that were compiled when they first ran.",
    opentelemetry.ERROR_TYPE,
    measure=Duration(of=(phase.COMPILE_BACKWARD,)),
    stable=True,
)
METRIC_COMPILE_PHASE_DURATION = Metric(
    "torch.compile.phase.duration",
    "s",
    "Duration of phases of Dynamo, AOTAutograd and Inductor that took at least 1 ms. Phases are nested, as spans are.",
    torch.COMPILE_PHASE_NAME,
    opentelemetry.ERROR_TYPE,
    measure=Duration(of=(phase.COMPILE_PHASE,)),
    stable=True,
)
METRIC_GRAPH_BREAKS = Metric(
    "torch.compile.graph_breaks",
    "{break}",
    "Number of graph breaks, including those that leave a whole frame to Python.",
    torch.GRAPH_BREAK_CLASS,
    measure=Rows(
        of=(phase.COMPILE_FRAME,),
        lists=((torch.GRAPH_BREAK_CLASSES, torch.GRAPH_BREAK_COUNTS),),
        by=torch.GRAPH_BREAK_CLASS,
    ),
    stable=True,
)
METRIC_RECOMPILES = Metric(
    "torch.compile.recompiles",
    "{frame}",
    "Number of frames that were to be compiled again because a guard failed, including frames that had reached the "
    "recompile limit.",
    torch.RECOMPILE_CLASS,
    measure=Count(of=(phase.COMPILE_FRAME,), key=torch.RECOMPILE_CLASS),
    stable=True,
)
METRIC_RECOMPILE_LIMITS = Metric(
    "torch.compile.limits_reached",
    "{frame}",
    "Number of frames that have reached a recompile limit.",
    torch.RECOMPILE_LIMIT,
    measure=Count(of=(phase.COMPILE_FRAME,), key=torch.RECOMPILE_LIMIT),
    stable=True,
)
_COMPILATIONS = (phase.COMPILE_FRAME, phase.COMPILE_BACKWARD)
METRIC_AOTAUTOGRAD_CACHE = Metric(
    "torch.compile.aotautograd_cache.lookups",
    "{lookup}",
    "Number of graphs that were looked up in AOTAutograd's cache.",
    torch.AOTAUTOGRAD_CACHE,
    measure=Count(of=_COMPILATIONS, key=torch.AOTAUTOGRAD_CACHE),
    stable=True,
)
METRIC_INDUCTOR_CACHE = Metric(
    "torch.compile.inductor_cache.lookups",
    "{lookup}",
    "Number of graphs that were looked up in Inductor's cache; only the last lookup of each frame counts.",
    torch.INDUCTOR_CACHE,
    measure=Count(of=_COMPILATIONS, key=torch.INDUCTOR_CACHE),
    stable=True,
)
_OF_THEIR_OWN = (phase.COMPILE, phase.COMPILE_FRAME, phase.COMPILE_BACKWARD, phase.COMPILE_PHASE, phase.IMPORT)
"""Phases, each of which has its own metric of durations."""
_TORCH_PHASES = tuple(
    row for row in phase.PHASES if row.keep and row.name.startswith("torch.") and row not in _OF_THEIR_OWN
)
METRIC_TORCH_PHASE_DURATION = Metric(
    "torch.phase.duration",
    "s",
    "Duration of the phases of PyTorch that have no metric of their own: `torch.export` and its parts, and waits and "
    "workers of `torch.compile`. Phases are nested, as spans are.",
    torchspan.PHASE,
    opentelemetry.ERROR_TYPE,
    measure=Duration(of=_TORCH_PHASES),
    stable=True,
)
METRIC_IMPORT_DURATION = Metric(
    "torchspan.import.duration",
    "s",
    "Duration of imports that have a `torchspan.import` span, including failed ones. Imports are nested, as spans are.",
    opentelemetry.ERROR_TYPE,
    measure=Duration(of=(phase.IMPORT,)),
)
METRIC_PHASE_DURATION = Metric(
    "torch_tensorrt.phase.duration",
    "s",
    "Duration of each phase of Torch-TensorRT and TensorRT. Phases are nested, as spans are. Compilations and runs "
    "have their own metrics.",
    torchspan.PHASE,
    torch_tensorrt.CACHE_RESULT,
    opentelemetry.ERROR_TYPE,
    measure=Duration(of=tuple(row for row in phase.PHASES if row.keep and row not in (*_OF_THEIR_OWN, *_TORCH_PHASES))),
    stable=True,
)
METRIC_ENGINE_BUILD_SIZE = Metric(
    "tensorrt.engine.build.size",
    "By",
    "Size of the engines that were built, by Torch-TensorRT or by the program itself, or taken from the engine cache.",
    measure=Size(of=(*phase.CONVERSIONS, phase.BUILD_ENGINE), key=ENGINE_SIZE),
    bounds=SIZES,
    stable=True,
)
METRIC_CACHE_LOOKUPS = Metric(
    "torch_tensorrt.engine_cache.lookups",
    "{lookup}",
    "Number of engines that were looked up in the engine cache, including engines for which the cache was disabled.",
    torch_tensorrt.CACHE_RESULT,
    torch_tensorrt.CACHE_REASON,
    measure=Count(of=(*phase.CONVERSIONS, phase.CACHE_LOOKUP), key=torch_tensorrt.CACHE_RESULT),
    stable=True,
)
_FALLBACK = (*phase.LOWERING, phase.PARTITION)
METRIC_FALLBACK_OPERATORS = Metric(
    "torch_tensorrt.fallback.operators",
    "{operator}",
    "Number of operators that run in PyTorch, each counted once. With `error.type`, the operators of a failed "
    "compilation that were not going to run in TensorRT.",
    torch_tensorrt.FALLBACK_REASON_CLASS,
    opentelemetry.ERROR_TYPE,
    torchspan.WHILE_SERVING,
    measure=Rows(
        of=_FALLBACK,
        lists=(
            (torch_tensorrt.FALLBACK_TOTAL_REASONS, torch_tensorrt.FALLBACK_TOTAL_OPERATORS),
            (torch_tensorrt.UNSUPPORTED_TOTAL_REASONS, torch_tensorrt.UNSUPPORTED_TOTAL_OPERATORS),
        ),
        by=torch_tensorrt.FALLBACK_REASON_CLASS,
    ),
    stable=True,
)
METRIC_FALLBACK_SUBGRAPHS = Metric(
    "torch_tensorrt.fallback.subgraphs",
    "{subgraph}",
    "Number of subgraphs that run in PyTorch, by the reason of most of their operators.",
    torch_tensorrt.FALLBACK_REASON_CLASS,
    torchspan.WHILE_SERVING,
    measure=Rows(
        of=_FALLBACK,
        lists=((torch_tensorrt.FALLBACK_TOTAL_REASONS, torch_tensorrt.FALLBACK_TOTAL_SUBGRAPHS),),
        by=torch_tensorrt.FALLBACK_REASON_CLASS,
    ),
    stable=True,
)
METRIC_SERVING_COMPILATIONS = Metric(
    "torchspan.serving.compilations",
    "{compilation}",
    "Number of compilations for which a request may have waited: those with `torchspan.while_serving`, including "
    "failed ones and frames that Dynamo gave up on. A compilation by Torch-TensorRT inside a frame of `torch.compile` "
    "is part of that frame's compilation and does not count again.",
    torchspan.PHASE,
    torchspan.SERVING_KIND,
    opentelemetry.ERROR_TYPE,
    measure=Count(of=phase.COMPILATIONS, key=torchspan.SERVING_KIND),
    stable=True,
)
METRIC_FRAMES_ACTIVE = Metric(
    "torch.compile.active",
    "{compilation}",
    "Number of frames and backward graphs of `torch.compile` that are being compiled. Measured from the first one of "
    "the process on.",
    measure=RunningWork(of=_COMPILATIONS),
    stable=True,
)
METRIC_FRAMES_LONGEST = Metric(
    "torch.compile.longest",
    "s",
    "Time for which the longest-running of `torch.compile.active` has been running; 0 if none is running.",
    measure=LongestRunning(of=_COMPILATIONS),
    stable=True,
)
METRIC_BUILD_ACTIVE = Metric(
    "torch_tensorrt.build.active",
    "{build}",
    "Number of compilations by Torch-TensorRT, and of engine builds outside a compilation, that are running. A "
    "compilation inside a frame of `torch.compile` counts here and in `torch.compile.active`. Measured from the first "
    "compilation or build of the process on.",
    measure=RunningWork(of=phase.BUILDS),
    stable=True,
)
METRIC_BUILD_LONGEST = Metric(
    "torch_tensorrt.build.longest",
    "s",
    "Time for which the longest-running of `torch_tensorrt.build.active` has been running; 0 if none is running.",
    measure=LongestRunning(of=phase.BUILDS),
    stable=True,
)
METRIC_EXECUTE_DURATION = Metric(
    "torch_tensorrt.execute.duration",
    "s",
    "Duration of runs of engines through Torch-TensorRT, as the host sees it. Every run counts, whether or not it has "
    "a span.",
    opentelemetry.ERROR_TYPE,
    measure=RunDuration(of=(phase.EXECUTE,)),
    stable=True,
)
METRIC_EXECUTE_GPU_DURATION = Metric(
    "torch_tensorrt.execute.gpu.duration",
    "s",
    "Time on the device of runs of engines through Torch-TensorRT. Only the runs that have a span, and with "
    "`TORCHSPAN_GPU_TIME=sampled`.",
    measure=Size(of=(phase.EXECUTE,), key=torch_tensorrt.EXECUTE_GPU_DURATION),
    bounds=SHORT_S,
)
METRIC_RUN_GRAPH_GPU_DURATION = Metric(
    "torch.run_graph.gpu.duration",
    "s",
    "Time on the device of runs of compiled graphs. Only the runs that have a span, and with "
    "`TORCHSPAN_GPU_TIME=sampled`.",
    measure=Size(of=(phase.RUN_GRAPH,), key=torch.RUN_GRAPH_GPU_DURATION),
    bounds=SHORT_S,
)
METRIC_GPU_TIMES_MISSING = Metric(
    "torchspan.gpu_time.missing_runs",
    "{run}",
    "Number of runs with a span that have no time on the device although `TORCHSPAN_GPU_TIME` asks for it, by reason.",
    torchspan.GPU_TIME_MISSING,
    measure=Count(of=(phase.EXECUTE, phase.RUN_GRAPH), key=torchspan.GPU_TIME_MISSING),
)
METRIC_CONTEXT_DURATION = Metric(
    "tensorrt.execute.duration",
    "s",
    "Duration of runs of execution contexts that the program itself uses, as the host sees it. Every run counts, "
    "whether or not it has a span.",
    opentelemetry.ERROR_TYPE,
    measure=RunDuration(of=(phase.RUN_CONTEXT,)),
    stable=True,
)
DIMENSIONS = tuple(2**exponent for exponent in range(17))
"""1 to 65,536: sizes of dimensions."""
METRIC_INPUT_CALLS = Metric(
    "torchspan.input.calls",
    "{call}",
    "Number of calls of the modules that `TORCHSPAN_INPUTS` selects, by the class of the model.",
    torchspan.CALL_MODULE,
    measure=Total(),
)
METRIC_INPUT_OVERFLOW = Metric(
    "torchspan.input.overflow",
    "{call}",
    "Number of calls in `torchspan.input.calls` whose shape is not one of the first 1,024 shapes of the module.",
    torchspan.CALL_MODULE,
    measure=Total(),
)
METRIC_INPUT_SIZE = Metric(
    "torchspan.input.dimension.size",
    "{element}",
    "Sizes of the dimensions of tensors, from one call in `TORCHSPAN_INPUTS_EVERY` of `torchspan.input.calls`. Only "
    "the first 64 dimensions in the process are measured.",
    torchspan.CALL_MODULE,
    torchspan.CALL_PATH,
    torchspan.CALL_AXIS,
    measure=Gathered(),
    bounds=DIMENSIONS,
)
METRIC_PROFILE_CALLS = Metric(
    "torchspan.input.profile.calls",
    "{call}",
    "Number of calls in `torchspan.input.calls` of a compiled module whose built sizes are known, by how the call "
    "fits the engine (`torchspan.input.profile.fit`).",
    torchspan.CALL_MODULE,
    ENGINE_ID,
    input_limits.PROFILE_FIT,
    measure=Total(),
)
METRIC_SPAN_EMITTED = Metric(
    "torchspan.span.emitted",
    "{span}",
    "Number of torchspan's spans that were sampled and have ended, by kind of work.",
    torchspan.PHASE,
    measure=Total(),
    stable=True,
)
METRIC_SPAN_DROPPED = Metric(
    "torchspan.span.dropped",
    "{span}",
    "Number of torchspan's spans that were not started, by reason. Spans that the SDK loses after their end are in its "
    "own metrics.",
    torchspan.DROPPED_REASON,
    measure=Total(),
    stable=True,
)
METRIC_CALLBACK_FAILURES = Metric(
    "torchspan.callback.failures",
    "{failure}",
    "Number of exceptions that torchspan or a callback raised, and that were caught without effect on the program. "
    "The log has the details.",
    measure=Total(),
    stable=True,
)

METRICS: tuple[Metric, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Metric))
"""Every row of the table of metrics."""
