# SPDX-License-Identifier: Apache-2.0
"""What the phases of a compilation are, and what to do where most of the time is spent in one.

The names of `COMPILE_PHASES` are PyTorch's: those with which torch 2.11 to 2.14 calls `dynamo_timed`, `chromium_event_timed` and
`log_event_start`. The names of `STAGES` are those of spans, steps and build phases, as the waterfall shortens them.
"""

from __future__ import annotations

import fnmatch
import functools
from collections.abc import Mapping
from typing import NamedTuple


class CompilePhase(NamedTuple):
    """One phase.

    meaning: what happens in it, one sentence. advice: what to change where it takes most of the time, one sentence that names the setting;
    empty where there is none. key: PyTorch's other name of it, in `torch._dynamo.utils.compile_times()`; empty where there is none.
    """

    meaning: str
    advice: str = ""
    key: str = ""


_P = CompilePhase

_ONCE = "It happens once in each process: call the model once before the first request."
_KEEP_CACHE = "Keep the folder of `TORCHINDUCTOR_CACHE_DIR` between processes: what is compiled is found there again."
_BLOCK = (
    "Compile the block that repeats instead of the whole model (`model.layers[i].compile()` for each layer): "
    "layers of one class share what was compiled."
)
_NO_AUTOTUNE = (
    'Leave out `mode="max-autotune"`, or name fewer backends in `torch._inductor.config.max_autotune_gemm_backends`.'
)

_DYNAMO = {
    "dynamo": _P("The compilation of one frame; torchspan's span is `torch.compile_frame`.", _BLOCK),
    "entire_frame_compile": _P(
        "The same, without Dynamo's preparation of the frame.", _BLOCK, "_compile.compile_inner"
    ),
    "compile_attempt_*": _P("One attempt at a frame: after a graph break or a change of plan, Dynamo starts it again."),
    "bytecode_tracing": _P("Dynamo executes the frame's bytecode symbolically and writes the graph.", _BLOCK),
    "build_guards": _P("Dynamo writes the guards, the conditions under which the compiled code is valid."),
    "bytecode_hooks_*": _P("A hook of the program or a library on the bytecode that Dynamo wrote."),
    "insert_deferred_runtime_asserts": _P("Dynamo adds the checks of sizes that are known only at run time."),
    "gc": _P(
        "Dynamo collects garbage of the younger generations after a frame.",
        "`TORCH_DYNAMO_RUN_GC_AFTER_COMPILE=0` leaves the collection out.",
    ),
    "backend_compile": _P(
        "The backend compiles the graph: Inductor, Torch-TensorRT or another.", key="OutputGraph.call_user_compiler"
    ),
    "fullgraph_capture": _P(
        "Dynamo captures a whole function as one graph, for an export or an ahead-of-time compilation."
    ),
    "compiler_collective": _P("Dynamo exchanges with the other ranks which sizes are dynamic, and waits for them."),
    "guard_collective": _P("A call waits for the other ranks to agree whether their guards hold."),
    "compiled_autograd": _P("Compiled autograd captures the whole backward pass as one graph."),
    "TranslationValidator.validate": _P(
        "A solver checks Dynamo's conditions on sizes.",
        "`TORCHDYNAMO_TRANSLATION_VALIDATION=0`, the default, leaves it out.",
    ),
    "precompile_build_guards": _P("Dynamo builds the guards of a frame that was loaded from a package."),
    "precompile_load_guards": _P("Dynamo reads the guards of a frame from a package."),
    "pgo.dynamic_whitelist": _P("Dynamo notes which sizes changed between calls."),
    "pgo.*": _P("Dynamo reads or writes its profile of which sizes were dynamic in earlier runs of the program."),
    "invoke_subgraph_*": _P("The compilation of a `torch.compiler.nested_compile_region`, or the reuse of one."),
    "debug_insert_nops": _P("A backend for PyTorch's own tests."),
}
_AOT_AUTOGRAD = {
    "create_aot_dispatcher_function": _P(
        "AOTAutograd: the graph becomes ATen operators, and is handed to the compiler below it."
    ),
    "aot_collect_metadata": _P(
        "AOTAutograd runs the graph without data, to learn which tensors are views or are changed."
    ),
    "aot_trace_joint_graph": _P("AOTAutograd traces forward and backward as one graph."),
    "min_cut_rematerialization_partition": _P(
        "AOTAutograd divides that graph into forward and backward, and decides what is kept and what is computed again."
    ),
    "entire_backward_compile": _P(
        "The compilation of a backward graph when it first runs; torchspan's span is `torch.compile_backward`.",
        key="backward._backward_impl",
    ),
    "AOTAutogradCache.inductor_load": _P("After a hit in AOTAutograd's cache, the compiled code is loaded."),
    "GraphPickler.loads": _P("A graph is read from a cache or another process."),
}
_INDUCTOR = {
    "inductor_import": _P("The first use of Inductor imports it.", _ONCE),
    "inductor_codecache_torch_key": _P(
        "Inductor hashes PyTorch's own source files, as a part of each key of its cache.", _ONCE
    ),
    "CacheBase.get_system.triton_key": _P(
        "Inductor hashes Triton's files, as a part of each key of its cache.",
        "It happens once in each process; without a GPU, an environment without the package `triton` leaves it out.",
        "triton_key",
    ),
    "_recursive_pre_grad_passes": _P(
        "Inductor's passes over Dynamo's graph, before AOTAutograd.", key="pre_grad_passes"
    ),
    "_recursive_joint_graph_passes": _P(
        "Inductor's passes over forward and backward together; the first run in a process also builds the patterns.",
        key="joint_graph_passes",
    ),
    "_recursive_post_grad_passes": _P(
        "Inductor's passes over ATen's graph, before it is lowered.", key="post_grad_passes"
    ),
    "pass.*": _P("One of Inductor's passes over the graph, by the name of its group and its own."),
    "compile_fx.<locals>.fw_compiler_base": _P("Inductor compiles a forward graph."),
    "compile_fx.<locals>.bw_compiler": _P("Inductor compiles a backward graph."),
    "compile_fx_aot": _P("AOTInductor compiles an exported program to a library."),
    "inductor_compile": _P(
        "Inductor compiles one graph: a look-up in its cache, and the work after a miss.", key="compile_fx_inner"
    ),
    "fx_codegen_and_compile": _P(
        "After a miss, Inductor lowers the graph, writes code and compiles it; after a hit, it loads the code."
    ),
    "additional_fake_tensor_prop": _P("Inductor runs the graph without data once more, to learn strides and aliases."),
    "convert_conv_weights_to_channels_last": _P("With freezing, weights of convolutions get another memory layout."),
    "GraphLowering.run": _P("Inductor turns each operator into its own representation of loops."),
    "GraphLowering.compile_to_fn": _P(
        "Inductor makes a function of the lowered graph: schedule, code, and its compilation."
    ),
    "code_gen": _P("Inductor writes the code of the graph and loads it.", key="GraphLowering.compile_to_module"),
    "GraphLowering.codegen": _P("Inductor schedules the loops and writes their code."),
    "GraphLowering.codegen_subgraph": _P("The same for a graph inside the graph, such as a branch."),
    "Scheduler.__init__": _P("Inductor orders the operations, finds dependencies, and fuses."),
    "Scheduler.fused_nodes": _P("Inductor decides which operations become one kernel."),
    "Scheduler.create_combo_kernel_nodes": _P("Inductor puts independent operations into one kernel."),
    "Scheduler.simple_overlap": _P("Inductor orders the operations so that communication and computation overlap."),
    "Scheduler.codegen": _P("Inductor writes each kernel, in C++ or Triton."),
    "generate_kernel_code_from_nodes": _P("Inductor writes one kernel in order to time it."),
    "PythonWrapperCodegen.generate": _P("Inductor writes the Python code that calls the kernels."),
    "CppWrapper?pu.generate": _P("Inductor writes the C++ code that calls the kernels."),
    "CUTLASSGemmTemplate.*": _P("Inductor collects CUTLASS's candidates for a matrix product.", _NO_AUTOTUNE),
    "cutlass_utils.gen_ops": _P("Inductor generates CUTLASS's operations.", _NO_AUTOTUNE),
    "fx.bucketing.*": _P("Inductor merges small collectives into larger ones."),
    "collective_compute_do_bench": _P("Inductor prepares to time collectives and computation."),
    "CompiledArtifact.save": _P("A standalone compilation is written to a file."),
    "CompiledArtifact.load": _P("A standalone compilation is read from a file."),
}
_COMPILERS = {
    "PyCodeCache.load_by_key_path": _P(
        "The Python module that Inductor wrote is imported; in it, the kernels are compiled.", _KEEP_CACHE
    ),
    "compile_file": _P(
        "The C++ compiler compiles one file: a kernel, or headers for all of them.",
        "Keep the folder of `TORCHINDUCTOR_CACHE_DIR` between processes: compiled kernels are found there again, "
        "and `torch.compiler.save_cache_artifacts()` does not contain them.",
    ),
    "async_compile.wait": _P(
        "The frame waits for the workers that compile its kernels.",
        "Keep the folder of `TORCHINDUCTOR_CACHE_DIR` between processes; `TORCHINDUCTOR_COMPILE_THREADS` is the number of workers "
        "(default: one for each core, at most 32).",
    ),
    "async_compile.precompile": _P(
        "Triton compiles a kernel in the process itself.", "Set `TORCHINDUCTOR_COMPILE_THREADS` above 1."
    ),
    "reload_kernel_in_parent": _P("A Triton kernel that a worker compiled is loaded."),
    "cpp_wrapper_compile": _P(
        "The C++ compiler compiles the code that calls the kernels.",
        "`torch._inductor.config.cpp_wrapper = False`, the default, leaves it out.",
    ),
    "AotCodeCompiler.compile": _P("AOTInductor compiles and links the library."),
    "aoti_compile_fatbin": _P("AOTInductor compiles its kernels for several kinds of GPUs."),
    "aoti_precompile_header": _P("AOTInductor compiles headers in advance."),
    "aoti_serialize_constants": _P("AOTInductor writes the weights into the library."),
    "TritonBundler.*": _P("Compiled Triton kernels are written to Inductor's cache, or read from it."),
    "StaticAutotunerFuture.warm_precompile": _P("A Triton kernel from the cache is made ready."),
    "CachingAutotuner.benchmark_all_configs": _P(
        "A Triton kernel's configurations are timed at its first run.", _KEEP_CACHE
    ),
    "CachingAutotuner.combo_sequential_autotune": _P(
        "The parts of a combined Triton kernel are timed one after the other.", _KEEP_CACHE
    ),
    "CachingAutotuner.coordinate_descent_tuning": _P(
        "Variations of a Triton kernel's configuration are timed.",
        "`torch._inductor.config.coordinate_descent_tuning = False`, the default, leaves it out.",
    ),
    "CachingAutotuner.slow_precompile_config": _P("A configuration that is not in the cache is compiled."),
    "*_template_precompiling": _P("The candidates for one operator are compiled in order to time them.", _NO_AUTOTUNE),
    "*_template_autotuning": _P("The candidates for one operator are timed.", _NO_AUTOTUNE),
    "benchmark_fused_nodes": _P(
        "A kernel is timed, to decide about a fusion.",
        "`torch._inductor.config.benchmark_fusion = False`, the default, leaves it out.",
    ),
    "benchmark_codegened_module": _P("The same, for a kernel that is already written."),
    "cudagraphify.get_container": _P("The first CUDA graph of a device prepares its memory."),
    "CUDAGraphNode.record": _P(
        "A CUDA graph is recorded, once for each set of sizes.",
        "`torch._inductor.config.triton.cudagraph_skip_dynamic_graphs = True` records none for dynamic sizes.",
    ),
}

GROUPS: Mapping[str, Mapping[str, CompilePhase]] = {
    "Dynamo": _DYNAMO,
    "AOTAutograd": _AOT_AUTOGRAD,
    "Inductor": _INDUCTOR,
    "Compilers of kernels": _COMPILERS,
}
"""The phases, by the part of PyTorch that does the work."""

COMPILE_PHASES: Mapping[str, CompilePhase] = {name: phase for group in GROUPS.values() for name, phase in group.items()}
"""Each phase that torch.compile reports. `*` stands for any text, `?` for one character."""

_CACHED = (
    "The engine cache keeps engines between processes: "
    "`immutable_weights=False, cache_built_engines=True, reuse_cached_engines=True`."
)
_TIMING = (
    "With TensorRT, lower `optimization_level` and keep the file of `timing_cache_path`; with either, the engine cache "
    "(`cache_built_engines`, `reuse_cached_engines`) keeps engines between processes."
)
_EXPORT = "Export once, write the program with `torch.export.save`, and compile what `torch.export.load` returns."
_FEWER = "Fewer engines, through a larger `min_block_size`, mean fewer of them."

STAGES: Mapping[str, CompilePhase] = {
    "torchspan.import": _P(
        "An import of PyTorch, of Torch-TensorRT, or of what they import at the first compilation.",
        "It happens once in each process: compile or run the model once before the first request.",
    ),
    "compile_frame": _P("Dynamo's own work on a frame.", _BLOCK),
    "compile_wait": _P(
        "A thread waits for another thread's compilation.", "Compile each model once before threads share it."
    ),
    "export": _P("`torch.export.export`.", _EXPORT),
    "export.capture": _P(
        "Dynamo captures the module as a graph, for a strict export.", "`strict=False`, the default, leaves it out."
    ),
    "export.trace": _P("The module runs without data, and becomes a graph of ATen operators.", _EXPORT),
    "export.decompose": _P("The graph is traced again with decompositions.", _EXPORT),
    "trace": _P("Torch-TensorRT exports the module.", _EXPORT),
    "decompose": _P(
        "Operators are replaced by simpler ones: the whole graph is traced again.",
        "`torch_tensorrt.save` keeps the compiled module, and the next process loads it; the engine cache does not leave this stage out.",
    ),
    "get_decompositions": _P("Torch-TensorRT collects the table of decompositions."),
    "ExportedProgram.module": _P("A module is made of the exported program."),
    "lower.pre_export": _P("Torch-TensorRT's passes before decomposition."),
    "lower": _P("Torch-TensorRT's passes over the graph.", "`torchspan run --detail passes` makes each pass a span."),
    "partition": _P(
        "The graph is divided into what TensorRT and what PyTorch runs.", "`use_fast_partitioner=True` is the default."
    ),
    "convert": _P("One subgraph becomes one engine.", _FEWER),
    "construct_network": _P(
        "Converters build TensorRT's network.",
        "`torch_tensorrt.converters.operators` on the span lists the slowest first.",
    ),
    "build_engine": _P("TensorRT builds an engine.", _CACHED),
    "Building engine": _P("TensorRT's build, as its progress monitor reports it.", _CACHED),
    "Building engine from subgraph": _P("TensorRT builds one part of the network.", _CACHED),
    "Cloning network graph": _P("TensorRT copies the network."),
    "Preparing graph for optimization": _P("TensorRT prepares the network."),
    "Optimizing graph": _P("TensorRT fuses layers."),
    "Computing profile costs": _P(
        "TensorRT estimates or measures what layers cost for an optimization profile.", _TIMING
    ),
    "Computing reformatting costs": _P("TensorRT estimates or measures conversions of memory layouts.", _TIMING),
    "Timing graph nodes": _P("TensorRT times layers.", _TIMING),
    "Timing tensor reformats": _P("TensorRT times conversions of memory layouts.", _TIMING),
    "Timing tactics": _P("TensorRT times implementations of layers.", _TIMING),
    "Determining refit engines": _P(
        "TensorRT's phase of that name, with `immutable_weights=True` too.",
        "No setting of Torch-TensorRT leaves it out on TensorRT-RTX; the engine cache (`cache_built_engines`, `reuse_cached_engines`) "
        "keeps engines between processes.",
    ),
    "release_host_and_device_memory": _P(
        "Torch-TensorRT collects garbage after each engine, among all objects of the process.",
        "Call `gc.freeze()` after the imports to leave their objects out.",
    ),
    "deallocate_module": _P(
        "Weights are moved off the GPU, and garbage is collected.", "Call `gc.freeze()` after the imports."
    ),
    "deserialize_engine": _P("TensorRT reads an engine.", _FEWER),
    "setup_engine": _P("A module is made of an engine.", _FEWER),
    "create_context": _P("TensorRT creates an execution context, with its memory on the device.", _FEWER),
    "engine_cache.lookup": _P(
        "The engine cache is searched; after a hit, the engine gets this model's weights.",
        "`torch_tensorrt.save` keeps the compiled module, and the next process neither searches nor refits.",
    ),
    "engine_cache.insert": _P("A new engine is written to the engine cache."),
    "refit": _P("Weights in finished engines are replaced."),
}
"""The stages of a compilation by Torch-TensorRT, of an export and of a build by TensorRT; and imports."""


@functools.lru_cache(maxsize=1024)
def compile_phase(name: str) -> CompilePhase | None:
    """What is known of a phase or a stage: the row of its name, else the first of `COMPILE_PHASES` that matches; None without one."""
    row = COMPILE_PHASES.get(name) or STAGES.get(name)
    return row or next((row for pattern, row in COMPILE_PHASES.items() if fnmatch.fnmatchcase(name, pattern)), None)


__all__ = ["COMPILE_PHASES", "GROUPS", "STAGES", "CompilePhase", "compile_phase"]
