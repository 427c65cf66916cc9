# SPDX-License-Identifier: Apache-2.0
"""The reachability table: every way into Torch-TensorRT, and the hooks that each one passes.

A `Route` is a column, a name in `HOOKS` a row. A hook that a route names is *real*: it has to fire in a run of that
route, and no other hook may. `MISSING` holds the cells that no machine without a GPU (or without what else is named)
can show, each with its reason. `tests/pipeline/test_routes.py` runs the routes and writes which fired.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from support import route_runs as run

_C = "torch_tensorrt._compile:"
_D = "torch_tensorrt.dynamo._compiler:"
_B = "torch_tensorrt.dynamo.backend.backends:"
_L = "torch_tensorrt.dynamo.lowering."
_A = "torch_tensorrt.dynamo.lowering.passes._aten_lowering_pass:"
_P = "torch_tensorrt.dynamo.partitioning."
_V = "torch_tensorrt.dynamo.conversion._conversion:"
_I = "torch_tensorrt.dynamo.conversion._TRTInterpreter:TRTInterpreter."
_E = "torch_tensorrt.dynamo._engine_cache:BaseEngineCache."
_R = "torch_tensorrt.dynamo.runtime."
_M = _R + "_MutableTorchTensorRTModule:MutableTorchTensorRTModule."

HOOKS = {
    # entry points
    "compile": (_C + "compile",),
    "dynamo.compile": (_D + "compile",),
    "cross_compile": (_C + "cross_compile_for_windows",),
    "dynamo.cross_compile": (_D + "cross_compile_for_windows",),
    "convert_method": (_C + "convert_method_to_trt_engine",),
    "convert_program": (_D + "convert_exported_program_to_serialized_trt_engine",),
    "backend": (_B + "_pretraced_backend",),
    "mutable.compile": (_M + "compile",),
    "mutable.refit": (_M + "refit_gm",),
    "refit": ("torch_tensorrt.dynamo._refit:refit_module_weights",),
    "verify_output": ("torch_tensorrt.dynamo.utils:check_module_output",),
    "save": (_C + "save",),
    "mutable.save": (_M + "save",),
    "load": (_C + "load",),
    "mutable.load": (_M + "load",),
    "exporter": ("torch_tensorrt.dynamo._exporter:export",),
    # trace and lowering
    "trace": ("torch_tensorrt.dynamo._tracer:trace",),
    "export": (
        "torch.export._trace:_export",
        "torch.export._trace:_export_to_aten_ir_make_fx",
    ),
    "strict export": ("torch.export._trace:_export_to_torch_ir",),
    "pre_export_lowering": (_A + "pre_export_lowering",),
    "get_decompositions": (_L + "_decompositions:get_decompositions",),
    "attention of the CPU": (_L + "_decompositions:scaled_dot_product_attention_decomposition",),
    "run_decompositions": ("torch.export:ExportedProgram.run_decompositions",),
    "program.module": ("torch.export:ExportedProgram.module",),
    "aot_export": (_B + "aot_export_joint_simple",),
    "post_lowering": (_A + "post_lowering",),
    "passes": (_L + "passes.pass_manager:DynamoPassManager.__call__",),
    "deallocate": ("torch_tensorrt.dynamo.utils:deallocate_module",),
    # partition
    "compile_module": (_D + "compile_module",),
    "support": (_P + "common:get_graph_converter_support",),
    "verdict": (_P + "_global_partitioner:TorchTensorRTOperatorSupport.is_node_supported",),
    "verdict: fast": (_P + "_adjacency_partitioner:OpSupportTester.is_node_supported",),
    "partition: fast": (_P + "_adjacency_partitioner:partition",),
    "partition: global": (_P + "_global_partitioner:partition",),
    "partition: resource": (_P + "_resource_partitioner:resource_partition",),
    "inputs": (_P + "common:construct_submodule_inputs",),
    # conversion
    "convert_module": (_V + "convert_module",),
    "interpret": (_V + "interpret_module_to_result",),
    "symbolic shapes": ("torch_tensorrt.dynamo.conversion._symbolic_shape_capture:extract_symbolic_shape_expressions",),
    "cache key": (_E + "get_hash",),
    "cache lookup": (_V + "pull_cached_engine",),
    "cache check": (_E + "check",),
    "cache entry": (
        "torch_tensorrt.dynamo._engine_cache:pickle.loads",
        "torch_tensorrt.dynamo._settings:settings_are_compatible",
        "torch_tensorrt._Input:Input.equivalent_spec",
    ),
    "cache insert": (
        _V + "insert_engine_to_cache",
        _E + "insert",
        _E + "pack",
        "torch_tensorrt.dynamo._engine_cache:DiskEngineCache.save",
    ),
    "refit engine": ("torch_tensorrt.dynamo._refit:_refit_single_trt_engine_with_gm",),
    "network": (_I + "_construct_trt_network_def", _I + "run_node"),
    "official observer": ("torch_tensorrt.dynamo.observer:Observer.observe",),
    "timing cache": (_I + "_create_timing_cache", _I + "_save_timing_cache"),
    "build": ("tensorrt:Builder.build_serialized_network",),
    "release": ("torch_tensorrt.dynamo.utils:release_host_and_device_memory",),
    "log": ("torch_tensorrt.logging:_TRTLogger.log",),
    # runtime
    "deserialize": ("tensorrt:Runtime.deserialize_cuda_engine",),
    "setup": (_R + "_TorchTensorRTModule:TorchTensorRTModule.setup_engine",),
    "engine": (_R + "_TRTEngine:TRTEngine._setup_engine",),
    "execute": ("torch.ops:tensorrt.execute_engine",),
    "context": (_R + "_TRTEngine:TRTEngine._create_execution_context",),
}
"""Row of the table -> the targets of its probes; a row has fired when all of them have."""


@dataclass(frozen=True)
class Route:
    """One way in. `prepare(tmp_path, monkeypatch)` runs before the bridge is enabled and returns what is run under it.

    hooks: names in HOOKS that fire, and no other does. tree: the spans, by name. raises: what the program gets.
    missing: hooks that would fire elsewhere, and what is needed for it.
    """

    name: str
    prepare: Callable
    hooks: frozenset[str]
    tree: str
    raises: type[BaseException] | None = None
    missing: dict[str, str] = field(default_factory=dict)


def _flat(group):
    return [group] if isinstance(group, str) else [name for each in group for name in _flat(each)]


def route(name, prepare, hooks, tree, *, without=(), raises=None, missing=None):
    """A Route; `hooks` are names in HOOKS and groups of them, less those in `without`."""
    names = frozenset(_flat(hooks)) - set(without)
    assert names | set(missing or {}) | set(without) <= HOOKS.keys(), name
    return Route(name, prepare, names, tree, raises, missing or {})


TRACED = ("trace", "export")
LOWERED = (
    "pre_export_lowering", "get_decompositions", "run_decompositions", "program.module", "post_lowering", "passes",
)  # fmt: skip
SPLIT = ("support", "verdict", "verdict: fast", "partition: fast", "inputs")
MODULE = ("compile_module", SPLIT)
BUILT = (
    "interpret", "symbolic shapes", "network", "official observer", "timing cache", "build",
    "log", "deserialize", "release",
)  # fmt: skip
SET_UP = ("setup", "engine")
WHOLE = (LOWERED, MODULE, "convert_module", BUILT, SET_UP)
AOT = (
    "backend", "get_decompositions", "aot_export", "post_lowering", "passes", MODULE, "convert_module",
    BUILT, SET_UP,
)  # fmt: skip
RUN = ("execute",)
FIRST_RUN = (*RUN, "context")


def under(root, *parts):
    """A tree: a line, and below it the lines of the parts."""
    return "\n".join([root, *("  " + line for part in parts for line in part.splitlines())])


EXPORT_TREE = under("torch.export", "torch.export.trace")
STRICT_TREE = under("torch.export", "torch.export.capture", "torch.export.trace")
TRACE_TREE = under("torch_tensorrt.trace", EXPORT_TREE)
LOWER_TREE = "torch_tensorrt.lower.pre_export\ntorch_tensorrt.decompose\ntorch_tensorrt.lower"
BUILD_TREE = "torch_tensorrt.construct_network\ntensorrt.build_engine\ntensorrt.deserialize_engine"
SETUP_TREE = under("torch_tensorrt.setup_engine", "tensorrt.deserialize_engine")
CONVERT_TREE = under("torch_tensorrt.convert", BUILD_TREE, SETUP_TREE)
COMPILE_TREE = under("torch_tensorrt.compile", LOWER_TREE, "torch_tensorrt.partition", CONVERT_TREE)
TRACE_AND_COMPILE_TREE = under(
    "torch_tensorrt.compile", TRACE_TREE, LOWER_TREE, "torch_tensorrt.partition", CONVERT_TREE
)
FRAME, BACKEND = "torch.compile_frame", "torch.compile_phase backend_compile"
AOT_TREE = under(
    FRAME,
    under(
        BACKEND,
        under(
            "torch_tensorrt.compile",
            "torch_tensorrt.decompose",
            "torch_tensorrt.lower",
            "torch_tensorrt.partition",
            CONVERT_TREE,
        ),
    ),
)
EXECUTE = "torch_tensorrt.execute"
AOT_AND_RUN_TREE = AOT_TREE + "\n" + EXECUTE
REFIT_TREE = under("torch_tensorrt.refit", LOWER_TREE, "torch_tensorrt.partition", "torch_tensorrt.construct_network")

MAIN_WHEEL = "TensorRT's wheel of torch-tensorrt with its C++ runtime, which needs a GPU"
CPP_RUNTIME = "the C++ runtime, which needs a GPU"
EXECUTORCH = "the executorch package, and a GPU"

ROUTES = (
    # --- dynamo.compile, torch_tensorrt.compile
    route("dynamo.compile", run.dynamo_compile(), ("dynamo.compile", WHOLE), COMPILE_TREE),
    route(
        "compile ir=dynamo",
        run.compile_with(ir="dynamo"),
        ("compile", TRACED, "dynamo.compile", WHOLE),
        TRACE_AND_COMPILE_TREE,
    ),
    route(
        "compile ir=default", run.compile_with(), ("compile", TRACED, "dynamo.compile", WHOLE), TRACE_AND_COMPILE_TREE
    ),
    route(
        "compile ir=torch_compile",
        run.compile_and_call(ir="torch_compile"),
        ("compile", AOT, FIRST_RUN),
        "torch_tensorrt.compile\n" + AOT_AND_RUN_TREE,
    ),
    route(
        "attention without a GPU",
        run.attention_of_the_cpu,
        ("attention of the CPU", AOT, FIRST_RUN),
        AOT_AND_RUN_TREE,
    ),
    route(
        "compile ir=ts",
        run.compile_with(ir="ts"),
        ("compile",),
        "torch_tensorrt.compile",
        raises=ValueError,
        missing={"build": MAIN_WHEEL},
    ),
    route(
        "compile ir=fx",
        run.compile_with(ir="fx"),
        ("compile",),
        "torch_tensorrt.compile",
        raises=ValueError,
        missing={"build": MAIN_WHEEL},
    ),
    route(
        "global partitioner",
        run.compile_with(ir="dynamo", use_fast_partitioner=False),
        ("compile", TRACED, "dynamo.compile", WHOLE, "partition: global"),
        TRACE_AND_COMPILE_TREE,
        without=("partition: fast", "verdict: fast"),
    ),
    route(
        "fast partitioner fails",
        run.fast_partitioner_fails,
        ("compile", TRACED, "dynamo.compile", WHOLE, "partition: global"),
        under(
            "torch_tensorrt.compile",
            TRACE_TREE,
            LOWER_TREE,
            "torch_tensorrt.partition",
            "torch_tensorrt.partition",
            CONVERT_TREE,
        ),
    ),
    route(
        "resource partitioner",
        run.compile_with(ir="dynamo", enable_resource_partitioning=True),
        ("compile", TRACED, "dynamo.compile", WHOLE, "partition: resource"),
        under(
            "torch_tensorrt.compile",
            TRACE_TREE,
            LOWER_TREE,
            "torch_tensorrt.partition",
            "torch_tensorrt.partition",
            CONVERT_TREE,
        ),
    ),
    route(
        "require_full_compilation",
        run.compile_with(ir="dynamo", require_full_compilation=True),
        ("compile", TRACED, "dynamo.compile", WHOLE),
        TRACE_AND_COMPILE_TREE,
    ),
    route(
        "require_full_compilation refused",
        run.compile_with(run.models.Fallback, run.models.image(), ir="dynamo", require_full_compilation=True),
        ("compile", TRACED, "dynamo.compile", LOWERED, "compile_module", SPLIT),
        under("torch_tensorrt.compile", TRACE_TREE, LOWER_TREE, "torch_tensorrt.partition"),
        without=("inputs",),
        raises=AssertionError,
    ),
    route(
        "skipped by min_block_size",
        run.compile_with(ir="dynamo", min_block_size=5),
        ("compile", TRACED, "dynamo.compile", LOWERED, "compile_module", "support", "verdict"),
        under("torch_tensorrt.compile", TRACE_TREE, LOWER_TREE),
    ),
    route(
        "dry run",
        run.dry_run,
        ("compile", TRACED, "dynamo.compile", LOWERED, MODULE),
        under("torch_tensorrt.compile", TRACE_TREE, LOWER_TREE, "torch_tensorrt.partition"),
    ),
    route(
        "lazy engine init",
        run.compile_with(ir="dynamo", lazy_engine_init=True),
        ("compile", TRACED, "dynamo.compile", WHOLE),
        under(
            "torch_tensorrt.compile",
            TRACE_TREE,
            LOWER_TREE,
            "torch_tensorrt.partition",
            under("torch_tensorrt.convert", BUILD_TREE),
            SETUP_TREE,
        ),
    ),
    route(
        "weights moved off the GPU",
        run.compile_with(ir="dynamo", offload_module_to_cpu=True),
        ("compile", TRACED, "dynamo.compile", WHOLE, "deallocate"),
        TRACE_AND_COMPILE_TREE,
    ),
    route(
        "buffers that change",
        run.compile_with(run.models.Counter, ir="dynamo"),
        ("compile", TRACED, "dynamo.compile", WHOLE),
        TRACE_AND_COMPILE_TREE,
    ),
    # --- torch.compile
    route(
        "torch.compile made before us",
        run.torch_compile_made_before,
        (AOT, FIRST_RUN),
        AOT_AND_RUN_TREE,
    ),
    route('torch.compile "tensorrt"', run.torch_compile("tensorrt"), (AOT, FIRST_RUN), AOT_AND_RUN_TREE),
    route(
        'torch.compile "torch_tensorrt"',
        run.torch_compile("torch_tensorrt"),
        (AOT, FIRST_RUN),
        AOT_AND_RUN_TREE,
    ),
    route("torch.compile by function", run.torch_compile_by_function, (AOT, FIRST_RUN), AOT_AND_RUN_TREE),
    route(
        'torch.compile "aot_torch_tensorrt_aten"',
        run.torch_compile("aot_torch_tensorrt_aten"),
        (AOT, FIRST_RUN),
        AOT_AND_RUN_TREE,
    ),
    # --- bytes of an engine, other platforms
    route(
        "convert_method_to_trt_engine",
        run.convert_method,
        ("convert_method", TRACED, "convert_program", LOWERED, BUILT),
        under("torch_tensorrt.convert_to_engine", TRACE_TREE, LOWER_TREE, BUILD_TREE),
    ),
    route(
        "convert_exported_program…",
        run.convert_program,
        ("convert_program", LOWERED, BUILT),
        under("torch_tensorrt.convert_to_engine", LOWER_TREE, BUILD_TREE),
    ),
    route(
        "cross compile",
        run.cross_compile,
        ("cross_compile", TRACED, "dynamo.cross_compile", LOWERED, MODULE, "convert_module", BUILT),
        under(
            "torch_tensorrt.compile",
            TRACE_TREE,
            LOWER_TREE,
            "torch_tensorrt.partition",
            under("torch_tensorrt.convert", BUILD_TREE),
        ),
        raises=RuntimeError,  # upstream: "Engine has not been setup yet", of every graph that ends in an engine
        missing={"exporter": CPP_RUNTIME},
    ),
    route(
        "cross compile refused",
        run.cross_compile_refused,
        ("cross_compile",),
        "torch_tensorrt.compile",
        raises=NotImplementedError,
    ),
    # --- modules that compile themselves
    route(
        "mutable: first call",
        run.mutable(["first"]),
        ("mutable.compile", "export", "strict export", "dynamo.compile", WHOLE, FIRST_RUN),
        under("torch_tensorrt.compile", STRICT_TREE, LOWER_TREE, "torch_tensorrt.partition", CONVERT_TREE)
        + "\n"
        + EXECUTE,
    ),
    route("mutable: same shape", run.mutable(["first", "again"]), RUN, ""),
    route(
        "mutable: new weights",
        run.mutable(["first", "weights"]),
        ("mutable.refit", "refit", "refit engine", LOWERED, SPLIT, "network", "official observer", "deallocate", RUN),
        REFIT_TREE,
    ),
    route(
        "mutable: new shape",
        run.mutable(["first", "shape"]),
        ("mutable.compile", "export", "strict export", "dynamo.compile", WHOLE, FIRST_RUN),
        under("torch_tensorrt.compile", STRICT_TREE, LOWER_TREE, "torch_tensorrt.partition", CONVERT_TREE)
        + "\n"
        + EXECUTE,
    ),
    route("mutable: save", run.mutable_save, ("mutable.save",), "torch_tensorrt.save"),
    route(
        "mutable: load",
        run.mutable_load,
        ("mutable.load", "deserialize", "engine", "export", "deallocate"),
        under("torch_tensorrt.load", "tensorrt.deserialize_engine", EXPORT_TREE),
    ),
    # --- refit
    route(
        "refit of a copy",
        run.refit(),
        ("refit", "refit engine", LOWERED, SPLIT, "network", "official observer"),
        REFIT_TREE,
        missing={"setup": CPP_RUNTIME},
    ),
    route(
        "refit in place, verified",
        run.refit(in_place=True, verify_output=True),
        ("refit", "verify_output", "refit engine", LOWERED, SPLIT, "network", "official observer", FIRST_RUN),
        under(
            "torch_tensorrt.refit",
            LOWER_TREE,
            "torch_tensorrt.partition",
            "torch_tensorrt.construct_network",
            EXECUTE,
        ),
        missing={"setup": CPP_RUNTIME},
    ),
    # --- files
    route(
        "save retrace=True",
        run.save(retrace=True),
        ("save", "export", "execute"),  # with fake tensors: no run
        under("torch_tensorrt.save", EXPORT_TREE),
    ),
    route("save retrace=False", run.save(retrace=False), ("save", "exporter"), "torch_tensorrt.save"),
    route(
        "save torchscript",
        run.save(output_format="torchscript"),
        ("save", "execute"),
        under("torch_tensorrt.save", EXECUTE),
        raises=RuntimeError,  # the Python runtime's engine is not a TorchScript object
    ),
    route(
        "save aot_inductor",
        run.save(output_format="aot_inductor"),
        ("save", "export", "execute", "program.module"),
        under("torch_tensorrt.save", EXPORT_TREE),
        raises=Exception,  # InductorError: the same
    ),
    route(
        "save executorch",
        run.save(output_format="executorch"),
        ("save",),
        "torch_tensorrt.save",
        raises=ImportError,
        missing={"export": EXECUTORCH},
    ),
    route(
        "load",
        run.load,
        ("load", "deserialize", "engine"),
        under("torch_tensorrt.load", "tensorrt.deserialize_engine"),
    ),
    # --- the engine cache
    route(
        "cache: miss",
        run.cached(),
        ("dynamo.compile", WHOLE, "cache key", "cache lookup", "cache check", "cache insert"),
        under(
            "torch_tensorrt.compile",
            LOWER_TREE,
            "torch_tensorrt.partition",
            under(
                "torch_tensorrt.convert",
                "torch_tensorrt.engine_cache.lookup",
                BUILD_TREE,
                "torch_tensorrt.engine_cache.insert",
                SETUP_TREE,
            ),
        ),
    ),
    route(
        "cache: hit",
        run.cached(1),
        ("dynamo.compile", WHOLE, "cache key", "cache lookup", "cache check", "cache entry", "refit engine"),
        under(
            "torch_tensorrt.compile",
            LOWER_TREE,
            "torch_tensorrt.partition",
            under(
                "torch_tensorrt.convert",
                under(
                    "torch_tensorrt.engine_cache.lookup",
                    "tensorrt.deserialize_engine",
                    "torch_tensorrt.construct_network",
                ),
                SETUP_TREE,
            ),
        ),
        without=("timing cache", "build", "log", "release"),
    ),
    route(
        "cache: hit without weights",
        run.cached(1, strip_engine_weights=True),
        ("dynamo.compile", WHOLE, "cache key", "cache lookup", "cache check", "cache entry"),
        under(
            "torch_tensorrt.compile",
            LOWER_TREE,
            "torch_tensorrt.partition",
            under("torch_tensorrt.convert", "torch_tensorrt.engine_cache.lookup", SETUP_TREE),
        ),
        without=(
            "network",
            "official observer",
            "timing cache",
            "build",
            "log",
            "release",
        ),
    ),
    # --- runs
    route("call of an engine not run yet", run.call, FIRST_RUN, ""),
    route("call", run.call_again, RUN, ""),
    route("call of a loaded program", run.call_loaded, ("execute", "context"), ""),
)
"""Every column. Runs without a recording span around them leave none: tests/pipeline/test_execution.py has the others."""


def report(fired):
    """The table as Markdown, from what fired: `fired` maps the name of each route to names in HOOKS."""
    lines = ["# Which hooks fired in this run", "", "| route | hook | |", "|---|---|---|"]
    for each in ROUTES:
        for hook in HOOKS:
            if hook in fired[each.name]:
                lines.append(f"| {each.name} | {hook} | real |")
            elif hook in each.missing:
                lines.append(f"| {each.name} | {hook} | not here: needs {each.missing[hook]} |")
    return "\n".join([*lines, ""])
