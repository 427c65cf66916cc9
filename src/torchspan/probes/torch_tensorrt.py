# SPDX-License-Identifier: Apache-2.0
"""Torch-TensorRT's hook points, in the order of a compilation.

The main wheel and the RTX wheel have the same names. Rows without versions hold for every supported one.
"""

from __future__ import annotations

from functools import partial

from torchspan import phase, semconv
from torchspan.probes._probe import Action, Probe
from torchspan.probes.describe import (
    artifacts,
    cache,
    cache_seen,
    compilation,
    conversion,
    fallback,
    log,
    lowering,
    partition,
    refit,
)

_row = partial(Probe, library="torch_tensorrt")
_FALLBACK = (
    semconv.OPERATORS_TENSORRT, semconv.COVERAGE, semconv.FALLBACK_REASON, semconv.FALLBACK_OPERATORS,
    semconv.FALLBACK_COUNTS, semconv.FALLBACK_REASONS, semconv.FALLBACK_OMITTED, semconv.FALLBACK_TOTAL_REASONS,
    semconv.FALLBACK_TOTAL_OPERATORS, semconv.FALLBACK_TOTAL_SUBGRAPHS,
)  # fmt: skip

_ENTRY = (
    _row(
        target="torch_tensorrt._compile:compile",
        phases=(phase.COMPILE,),
        start=compilation.of_module("torch_tensorrt.compile"),
        end=compilation.torch_tensorrt_compiled,
        uses=compilation.program_given("module"),
        why="torch_tensorrt.compile, the entry point most programs call",
    ),
    _row(
        target="torch_tensorrt.dynamo._compiler:compile",
        phases=(phase.COMPILE,),
        start=compilation.of_exported_program("torch_tensorrt.dynamo.compile"),
        uses=compilation.program_given("exported_program"),
        why="torch_tensorrt.dynamo.compile; below torch_tensorrt.compile it adds its settings to that span",
    ),
    _row(
        target="torch_tensorrt.dynamo.backend.backends:torch_tensorrt_backend",
        action=Action.WATCH,
        why="what Dynamo's registry holds as 'tensorrt'; replacing it there would take its tags away",
    ),
    _row(
        target="torch_tensorrt.dynamo.backend.backends:aot_torch_tensorrt_aten_backend",
        action=Action.WATCH,
        why="hands every torch.compile graph to _pretraced_backend, directly or through aot_autograd",
    ),
    _row(
        target="torch_tensorrt.dynamo.backend.backends:_pretraced_backend",
        phases=(phase.COMPILE,),
        start=compilation.torch_compile_backend,
        end=compilation.torch_compile_result,
        why="where every form of torch.compile(backend='tensorrt') ends up, looked up as a global at each call: "
        "patching Dynamo's registry would miss functions compiled earlier; it also swallows failures",
    ),
)

_OTHER_ENTRIES = (
    _row(
        target="torch_tensorrt._compile:cross_compile_for_windows",
        phases=(phase.COMPILE,),
        start=compilation.of_module("torch_tensorrt.cross_compile_for_windows"),
        why="compiles and saves for Windows",
    ),
    _row(
        target="torch_tensorrt.dynamo._compiler:cross_compile_for_windows",
        phases=(phase.COMPILE,),
        start=compilation.of_exported_program("torch_tensorrt.dynamo.cross_compile_for_windows"),
        why="the same for an exported program, without saving",
    ),
    _row(
        target="torch_tensorrt._compile:convert_method_to_trt_engine",
        phases=(phase.CONVERT_TO_ENGINE,),
        start=compilation.of_module("torch_tensorrt.convert_method_to_trt_engine"),
        why="a module becomes the bytes of one engine",
    ),
    _row(
        target="torch_tensorrt.dynamo._compiler:convert_exported_program_to_serialized_trt_engine",
        phases=(phase.CONVERT_TO_ENGINE,),
        start=compilation.of_exported_program(
            "torch_tensorrt.dynamo.convert_exported_program_to_serialized_trt_engine"
        ),
        uses=compilation.program_given("exported_program"),
        why="the same for an exported program; no partitioning, everything has to be supported",
    ),
    _row(
        target="torch_tensorrt.dynamo.runtime._MutableTorchTensorRTModule:MutableTorchTensorRTModule.compile",
        phases=(phase.COMPILE,),
        start=compilation.mutable_compile,
        why="a module that compiles itself: exports first, then calls dynamo.compile",
    ),
    _row(
        target="torch_tensorrt.dynamo.runtime._MutableTorchTensorRTModule:MutableTorchTensorRTModule.refit_gm",
        phases=(phase.REFIT,),
        start=refit.mutable_refit,
        why="and refits itself when its weights were changed; a refit that fails is followed by a compilation",
    ),
    _row(
        target="torch_tensorrt.dynamo._refit:refit_module_weights",
        phases=(phase.REFIT,),
        start=refit.refit_module_weights,
        end=refit.refitted,
        why="new weights for a compiled module: lowers and partitions the new program, then refits engine by engine",
    ),
    _row(
        target="torch_tensorrt.dynamo.utils:check_module_output",
        action=Action.FACTS,
        phases=(phase.REFIT,),
        end=refit.outputs_match,
        why="verify_output: a difference is only logged",
    ),
    _row(
        target="torch_tensorrt._compile:save",
        phases=(phase.SAVE,),
        start=artifacts.save,
        end=artifacts.saved,
        why="torch_tensorrt.save, every format",
    ),
    _row(
        target="torch_tensorrt.dynamo._compiler:save_cross_compiled_exported_program",
        phases=(phase.SAVE,),
        start=artifacts.save_cross_compiled,
        end=artifacts.saved,
        why="saving what was compiled for Windows",
    ),
    _row(
        target="torch_tensorrt.dynamo.runtime._MutableTorchTensorRTModule:MutableTorchTensorRTModule.save",
        phases=(phase.SAVE,),
        start=artifacts.save_mutable,
        end=artifacts.saved,
        why="saving a mutable module",
    ),
    _row(
        target="torch_tensorrt.dynamo._exporter:export",
        action=Action.STEP,
        why="the compiled module becomes an exported program: by surgery on its graph, or by exporting it again",
    ),
    _row(
        target="torch_tensorrt._compile:load",
        phases=(phase.LOAD,),
        start=artifacts.load,
        end=artifacts.loaded,
        why="torch_tensorrt.load: tries torch.export.load, then torch.jit.load",
    ),
    _row(
        target="torch_tensorrt.dynamo._compiler:load_cross_compiled_exported_program",
        phases=(phase.LOAD,),
        start=artifacts.load_cross_compiled,
        end=artifacts.loaded,
        why="loading what was compiled for Windows, there",
    ),
    _row(
        target="torch_tensorrt.dynamo.runtime._MutableTorchTensorRTModule:MutableTorchTensorRTModule.load",
        phases=(phase.LOAD,),
        start=artifacts.load_mutable,
        end=artifacts.loaded,
        why="loading a mutable module",
    ),
)

_TRACE_AND_LOWER = (
    _row(
        target="torch_tensorrt.dynamo._tracer:trace",
        phases=(phase.TRACE,),
        start=compilation.trace,
        end=compilation.exported,
        remembered=True,
        why="from module to exported program",
    ),
    _row(
        target="torch.export:export",
        phases=(phase.EXPORT,),
        start=compilation.export,
        end=compilation.exported,
        remembered=True,
        why="from module to exported program, under whatever name somebody calls it: trace has its own, so may the "
        "program; the compilation of the program links to it",
    ),
    _row(
        target="torch_tensorrt.dynamo.lowering.passes._aten_lowering_pass:pre_export_lowering",
        phases=(phase.LOWER_PRE_EXPORT,),
        start=lowering.graph_in,
        end=lowering.graph_out,
        why="passes before decomposition",
    ),
    _row(
        target="torch_tensorrt.dynamo.lowering._decompositions:get_decompositions",
        action=Action.STEP,
        why="collects the decomposition table; part of the time before decomposing",
    ),
    _row(
        target="torch.export:ExportedProgram.run_decompositions",
        phases=(phase.DECOMPOSE,),
        start=lowering.graph_in,
        end=lowering.graph_out,
        within=phase.LOWERING,
        why="decomposition, often the longest part before the build; a method of torch, so only where graphs are lowered",
    ),
    _row(
        target="torch.export:ExportedProgram.module",
        action=Action.STEP,
        why="unlifting the exported program into a graph module",
    ),
    _row(
        target="torch_tensorrt.dynamo.lowering._buffer_lifting:lift_mutated_buffers",
        action=Action.STEP,
        since=(2, 14),
        why="mutated buffers become engine inputs",
    ),
    _row(
        target="torch_tensorrt.dynamo.lowering._buffer_lifting:inline_lifted_buffers_into_gm",
        action=Action.STEP,
        since=(2, 14),
        why="and are put back after conversion",
    ),
    _row(
        target="torch_tensorrt.dynamo.backend.backends:fold_get_attr_item_calls",
        action=Action.STEP,
        since=(2, 12),
        why="torch.compile only: before AOT tracing",
    ),
    _row(
        target="torch_tensorrt.dynamo.backend.backends:repair_input_aliasing",
        action=Action.STEP,
        why="torch.compile only: before AOT tracing",
    ),
    _row(
        target="torch_tensorrt.dynamo.backend.backends:remove_detach",
        action=Action.STEP,
        why="torch.compile only: called directly, not through the pass manager",
    ),
    _row(
        target="torch_tensorrt.dynamo.backend.backends:aot_export_joint_simple",
        phases=(phase.DECOMPOSE,),
        start=lowering.graph_in,
        end=lowering.graph_out,
        why="torch.compile's decomposition: AOTAutograd traces the graph to ATen",
    ),
    _row(
        target="torch_tensorrt.dynamo.backend.backends:remove_sym_nodes",
        action=Action.STEP,
        why="torch.compile only: after AOT tracing",
    ),
    _row(
        target="torch_tensorrt.dynamo.lowering.passes._aten_lowering_pass:post_lowering",
        phases=(phase.LOWER,),
        start=lowering.graph_in,
        end=lowering.graph_out,
        why="passes after decomposition, constant folding among them",
    ),
    _row(
        target="torch_tensorrt.dynamo.lowering.passes.pass_manager:DynamoPassManager.__call__",
        action=Action.PASSES,
        phases=(phase.PASS,),
        end=lowering.graph_out,
        detail="passes",
        why="runs the passes from lists made at import, so patching a pass by name does nothing; each call gets a "
        "copy of the manager, the user's own passes and the Debugger's included",
    ),
    _row(
        target="torch_tensorrt.dynamo.utils:deallocate_module",
        action=Action.STEP,
        why="moving weights off the GPU and collecting garbage: up to a third of a small compile",
    ),
    _row(
        target="torch_tensorrt.dynamo.utils:release_host_and_device_memory",
        action=Action.STEP,
        why="collecting garbage once per engine",
    ),
)

_PARTITION = (
    _row(
        target="torch_tensorrt.dynamo._compiler:compile_module",
        action=Action.FACTS,
        phases=(phase.COMPILE,),
        start=compilation.compile_module_settings,
        end=compilation.compile_module_result,
        why="partition and conversion of every route; knows the engines, and returns its argument when it skips",
    ),
    _row(
        target="torch_tensorrt.dynamo.partitioning.common:get_graph_converter_support",
        action=Action.FACTS,
        phases=(phase.COMPILE, phase.REFIT),
        end=compilation.converter_support,
        why="counts supported operators before anything is decided",
    ),
    _row(
        target="torch_tensorrt.dynamo.partitioning._global_partitioner:TorchTensorRTOperatorSupport.is_node_supported",
        action=Action.TALLY,
        phases=(phase.PARTITION, phase.COMPILE, phase.REFIT),
        count=fallback.count_verdict,
        why="the verdict on each node; the library adds up all causes in one counter",
    ),
    _row(
        target="torch_tensorrt.dynamo.partitioning._adjacency_partitioner:OpSupportTester.is_node_supported",
        action=Action.TALLY,
        phases=(phase.PARTITION, phase.COMPILE, phase.REFIT),
        count=fallback.count_verdict,
        why="the same in the fast partitioner",
    ),
    _row(
        target="torch_tensorrt.dynamo.partitioning._adjacency_partitioner:partition",
        phases=(phase.PARTITION,),
        start=partition.partitioner("fast"),
        end=partition.split,
        share=_FALLBACK,
        share_with=(phase.COMPILE, phase.REFIT),
        why="the fast partitioner, the default",
    ),
    _row(
        target="torch_tensorrt.dynamo.partitioning._global_partitioner:partition",
        phases=(phase.PARTITION,),
        start=partition.partitioner("global"),
        end=partition.split,
        share=_FALLBACK,
        share_with=(phase.COMPILE, phase.REFIT),
        why="the global partitioner, by choice or after the fast one failed",
    ),
    _row(
        target="torch_tensorrt.dynamo.partitioning._resource_partitioner:resource_partition",
        phases=(phase.PARTITION,),
        start=partition.partitioner("resource"),
        end=partition.subgraphs,
        why="splits subgraphs further so that building fits into memory",
    ),
    _row(
        target="torch_tensorrt.dynamo.partitioning.common:construct_submodule_inputs",
        action=Action.STEP,
        why="shapes for each engine's inputs",
    ),
    _row(
        target="torch_tensorrt.dynamo._DryRunTracker:dryrun_stats_display",
        action=Action.STEP,
        why="the library's own report, the oracle for our counts",
    ),
)

_CONVERT = (
    _row(
        target="torch_tensorrt.dynamo.conversion._conversion:convert_module",
        phases=(phase.CONVERT,),
        start=conversion.convert,
        why="one subgraph on its way to an engine",
    ),
    _row(
        target="torch_tensorrt.dynamo.conversion._conversion:interpret_module_to_result",
        action=Action.FACTS,
        phases=(phase.CONVERT, phase.CONVERT_TO_ENGINE),
        start=cache.availability,
        end=conversion.interpreted,
        why="returns the engine's bytes, from the cache or from a build; decides whether to look into the cache",
    ),
    _row(
        target="torch_tensorrt.dynamo.conversion._symbolic_shape_capture:extract_symbolic_shape_expressions",
        action=Action.STEP,
        why="output shapes as functions of input shapes",
    ),
    _row(
        target="torch_tensorrt.dynamo._engine_cache:BaseEngineCache.get_hash",
        action=Action.STEP,
        why="hashing the subgraph for the engine cache",
    ),
    _row(
        target="torch_tensorrt.dynamo.conversion._conversion:pull_cached_engine",
        phases=(phase.CACHE_LOOKUP,),
        start=cache.key,
        end=cache.looked_up,
        failed=cache.lookup_failed,
        share=(semconv.CACHE_RESULT, semconv.CACHE_REASON),
        share_with=(phase.CONVERT, phase.CONVERT_TO_ENGINE),
        why="the look into the engine cache; after a hit it refits, so a hit has a price",
    ),
    _row(
        target="torch_tensorrt.dynamo._engine_cache:BaseEngineCache.check",
        action=Action.STEP,
        count=cache_seen.count_read,
        count_raised=True,
        why="reading from a cache store, the user's own included (not one with a `check` of its own)",
    ),
    _row(
        target="torch_tensorrt.dynamo._engine_cache:pickle.loads",
        action=Action.TALLY,
        phases=(phase.CACHE_LOOKUP,),
        count=cache_seen.count_unpickled,
        count_raised=True,
        why="the packed entry on its way in, whoever stored it: its size, and that there was one where the library "
        "then says there was none",
    ),
    _row(
        target="torch_tensorrt.dynamo._settings:settings_are_compatible",
        action=Action.TALLY,
        phases=(phase.CACHE_LOOKUP,),
        count=cache_seen.count_settings,
        why="which settings of an entry differ; upstream raises a bare AssertionError",
    ),
    _row(
        target="torch_tensorrt._Input:Input.equivalent_spec",
        action=Action.TALLY,
        phases=(phase.CACHE_LOOKUP,),
        count=cache_seen.count_input,
        why="whether an entry was built for these inputs; upstream raises a bare AssertionError",
    ),
    _row(
        target="torch_tensorrt.dynamo._refit:_refit_single_trt_engine_with_gm",
        action=Action.STEP,
        count=cache_seen.count_refit,
        count_raised=True,
        changes=conversion.refitted_engine,
        why="what a cache hit costs: the engine gets this model's weights; from here on it is another engine",
    ),
    _row(
        target="torch_tensorrt.dynamo.conversion._conversion:insert_engine_to_cache",
        phases=(phase.CACHE_INSERT,),
        start=cache.key,
        end=cache.inserted,
        failed=cache.insertion_failed,
        why="a new engine goes into the cache",
    ),
    _row(
        target="torch_tensorrt.dynamo._engine_cache:BaseEngineCache.insert",
        action=Action.STEP,
        why="writing to a cache store",
    ),
    _row(
        target="torch_tensorrt.dynamo._engine_cache:BaseEngineCache.pack",
        action=Action.TALLY,
        phases=(phase.CACHE_INSERT,),
        count=cache_seen.count_packed,
        why="the packed entry on its way out: its size, whoever stores it",
    ),
    _row(
        target="torch_tensorrt.dynamo._engine_cache:DiskEngineCache.clear_cache",
        action=Action.TALLY,
        phases=(phase.CACHE_INSERT,),
        before=cache_seen.entries,
        count=cache_seen.count_evicted,
        why="entries that make room for a new one",
    ),
    _row(
        target="torch_tensorrt.dynamo._engine_cache:DiskEngineCache.save",
        action=Action.TALLY,
        phases=(phase.CACHE_INSERT,),
        before=cache_seen.free_bytes,
        count=cache_seen.count_saved,
        why="an entry that found no room is a line in the log and counts as inserted",
    ),
    _row(
        target="torch_tensorrt.dynamo.conversion._TRTInterpreter:TRTInterpreter.run",
        action=Action.WATCH,
        why="network, configuration and build in a row, each with a hook of its own",
    ),
    _row(
        target="torch_tensorrt.dynamo.conversion._TRTInterpreter:TRTInterpreter._construct_trt_network_def",
        phases=(phase.CONSTRUCT_NETWORK,),
        end=conversion.network,
        why="runs the converters; __init__ is left alone, the Debugger swaps it and puts back what it found",
    ),
    _row(
        target="torch_tensorrt.dynamo.conversion._TRTInterpreter:TRTInterpreter.run_node",
        action=Action.TALLY,
        phases=(phase.CONSTRUCT_NETWORK,),
        count=conversion.count_converter,
        why="converter time by kind of operator; converters come from a registry, not by name",
    ),
    _row(
        target="torch_tensorrt.dynamo.conversion._TRTInterpreter:TRT_INTERPRETER_CALL_PRE_OBSERVER",
        action=Action.WATCH,
        why="the library's only observer: fires where construct_network starts, and only in the thread that "
        "registered (its callbacks live in a context variable)",
    ),
    _row(
        target="torch_tensorrt.dynamo.conversion._TRTInterpreter:TRTInterpreter._populate_trt_builder_config",
        action=Action.STEP,
        why="the builder's configuration, which is read when the build starts",
    ),
    _row(
        target="torch_tensorrt.dynamo.conversion._TRTInterpreter:TRTInterpreter._create_timing_cache",
        action=Action.STEP,
        phases=(phase.CONVERT,),
        start=conversion.timing_cache_in,
        why="reading the timing cache (nothing on TensorRT-RTX)",
    ),
    _row(
        target="torch_tensorrt.dynamo.conversion._TRTInterpreter:TRTInterpreter._save_timing_cache",
        action=Action.STEP,
        phases=(phase.CONVERT,),
        end=conversion.timing_cache_out,
        why="writing the timing cache (nothing on TensorRT-RTX)",
    ),
    _row(
        target="torch_tensorrt.dynamo.conversion._TRTInterpreter:TRTInterpreter._save_weight_mapping",
        action=Action.STEP,
        until=(2, 12),
        why="maps weights for refitting; slow on refittable engines",
    ),
)

_RUN = (
    _row(
        target="torch_tensorrt.dynamo.runtime._TorchTensorRTModule:TorchTensorRTModule.setup_engine",
        phases=(phase.SETUP_ENGINE,),
        start=conversion.setup,
        end=conversion.was_set_up,
        produces=conversion.engine_of_module,
        serialized=conversion.serialized_of,
        why="a serialized engine becomes one that runs",
    ),
    _row(
        target="torch_tensorrt.dynamo.runtime._PythonTorchTensorRTModule:PythonTorchTensorRTModule.setup_engine",
        phases=(phase.SETUP_ENGINE,),
        start=conversion.setup,
        end=conversion.was_set_up,
        produces=conversion.module_itself,
        serialized=conversion.serialized_of,
        until=(2, 12),
        why="the same in the older Python runtime",
    ),
    _row(
        target="torch_tensorrt.dynamo.runtime._TRTEngine:TRTEngine._setup_engine",
        action=Action.MAKES,
        produces=conversion.module_itself,
        serialized=conversion.serialized_of,
        since=(2, 13),
        why="every engine of the Python runtime is made here, a loaded one too; its first run is worth seeing",
    ),
    _row(
        target="torch_tensorrt.dynamo.runtime._TRTEngine:TRTEngine.execute",
        action=Action.WATCH,
        since=(2, 13),
        why="what the operator calls in the Python runtime; the C++ one has no such place, so the operator is hooked",
    ),
    _row(
        target="torch_tensorrt.dynamo.runtime._TRTEngine:TRTEngine._create_execution_context",
        action=Action.STEP,
        since=(2, 13),
        why="made late, at the first run: part of why that is slow",
    ),
    _row(
        target="torch.ops:tensorrt.execute_engine",
        action=Action.EXECUTE,
        phases=(phase.EXECUTE,),
        since=(2, 13),  # before, only where the C++ runtime is loaded
        why="one run of one engine: the operator that modules, recompiled and reloaded programs all call; its "
        "Python entry is replaced (torch._ops), so graphs do not break and fake tensors are left alone",
    ),
    _row(
        target="torch_tensorrt.dynamo.runtime._TorchTensorRTModule:TorchTensorRTModule.forward",
        action=Action.WATCH,
        why="calls that operator; a wrapper here would break graphs, and count each run twice",
    ),
    _row(
        target="torch_tensorrt.dynamo.runtime._PythonTorchTensorRTModule:PythonTorchTensorRTModule.forward",
        action=Action.EXECUTE,
        phases=(phase.EXECUTE,),
        until=(2, 12),
        why="the older Python runtime runs engines itself, without the operator",
    ),
)

_LOG = (
    _row(
        target="torch_tensorrt.logging:_TRTLogger.log",
        action=Action.LINES,
        line=log.tensorrt_line,
        why="TensorRT calls it for every line of its log, whatever the level; a handler would see only what the level "
        "lets through, and be closed by dictConfig, which Torch-TensorRT's Debugger calls",
    ),
)

PROBES: tuple[Probe, ...] = _ENTRY + _OTHER_ENTRIES + _TRACE_AND_LOWER + _PARTITION + _CONVERT + _RUN + _LOG
