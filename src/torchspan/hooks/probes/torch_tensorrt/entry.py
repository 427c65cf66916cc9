# SPDX-License-Identifier: Apache-2.0
"""What programs call: compilations, other outputs, refits, files."""

from __future__ import annotations

from torchspan.hooks.probes._actions import Annotate, Record, Shares, Step
from torchspan.hooks.probes._probe import Function, Method, Probe, torch_tensorrt_probe
from torchspan.hooks.probes.describe import artifacts, compilation
from torchspan.words import phase, semconv

PROBES: tuple[Probe, ...] = (
    torch_tensorrt_probe(
        target=Function("torch_tensorrt._compile:compile"),
        action=Record(
            phase.COMPILE,
            start=compilation.of_module("torch_tensorrt.compile"),
            end=compilation.torch_tensorrt_compiled,
            links_to=compilation.program_given("module"),
            failed=compilation.failed,
            follows=compilation.compiled_module,
        ),
        why="torch_tensorrt.compile, the entry point most programs call",
    ),
    torch_tensorrt_probe(
        target=Function("torch_tensorrt.dynamo._compiler:compile"),
        action=Record(
            phase.COMPILE,
            start=compilation.of_exported_program("torch_tensorrt.dynamo.compile"),
            links_to=compilation.program_given("exported_program"),
            failed=compilation.failed,
            follows=compilation.compiled_module,
        ),
        why="torch_tensorrt.dynamo.compile; below torch_tensorrt.compile it adds its settings to that span",
    ),
    torch_tensorrt_probe(
        target=Function("torch_tensorrt.dynamo.backend.backends:_pretraced_backend"),
        action=Record(
            phase.COMPILE,
            start=compilation.torch_compile_backend,
            takes=(semconv.MODEL_CLASS,),
            end=compilation.torch_compile_result,
            failed=compilation.failed,
            shares=Shares((phase.COMPILE_FRAME,), scratch=(compilation.SWALLOWED,)),
            follows=compilation.compiled_module,
        ),
        why="called by every form of torch.compile(backend='tensorrt'), and looked up as a global at each call; "
        "patching Dynamo's registry would miss functions compiled earlier; this function also swallows failures",
    ),
    torch_tensorrt_probe(
        target=Function("torch_tensorrt._compile:cross_compile_for_windows"),
        action=Record(
            phase.COMPILE,
            start=compilation.of_module("torch_tensorrt.cross_compile_for_windows"),
            failed=compilation.failed,
        ),
        why="compiles and saves for Windows",
    ),
    torch_tensorrt_probe(
        target=Function("torch_tensorrt.dynamo._compiler:cross_compile_for_windows"),
        action=Record(
            phase.COMPILE,
            start=compilation.of_exported_program("torch_tensorrt.dynamo.cross_compile_for_windows"),
            failed=compilation.failed,
        ),
        why="the same for an exported program, without saving",
    ),
    torch_tensorrt_probe(
        target=Function("torch_tensorrt._compile:convert_method_to_trt_engine"),
        action=Record(
            phase.CONVERT_TO_ENGINE,
            start=compilation.with_inputs(compilation.of_module("torch_tensorrt.convert_method_to_trt_engine")),
        ),
        why="a module becomes the bytes of one engine",
    ),
    torch_tensorrt_probe(
        target=Function("torch_tensorrt.dynamo._compiler:convert_exported_program_to_serialized_trt_engine"),
        action=Record(
            phase.CONVERT_TO_ENGINE,
            start=compilation.with_inputs(
                compilation.of_exported_program(
                    "torch_tensorrt.dynamo.convert_exported_program_to_serialized_trt_engine"
                )
            ),
            links_to=compilation.program_given("exported_program"),
        ),
        why="the same for an exported program; there is no partitioning, so every operator has to be supported",
    ),
    torch_tensorrt_probe(
        target=Method("torch_tensorrt.dynamo.runtime._MutableTorchTensorRTModule:MutableTorchTensorRTModule.compile"),
        action=Record(
            phase.COMPILE,
            start=compilation.mutable_compile,
            failed=compilation.failed,
            follows=compilation.compiled_by_itself,
            around="recompiling",
        ),
        why="a module that compiles itself: exports first, then calls dynamo.compile",
    ),
    torch_tensorrt_probe(
        target=Method("torch_tensorrt.dynamo.runtime._MutableTorchTensorRTModule:MutableTorchTensorRTModule.refit_gm"),
        action=Record(phase.REFIT, start=compilation.mutable_refit, failed=compilation.failed),
        why="a module that refits itself when its weights have changed; a failed refit is followed by a compilation",
    ),
    torch_tensorrt_probe(
        target=Function("torch_tensorrt.dynamo._refit:refit_module_weights"),
        action=Record(
            phase.REFIT, start=compilation.refit_module_weights, end=compilation.refitted, failed=compilation.failed
        ),
        why="new weights for a compiled module; lowers and partitions the new program, then refits engine by engine",
    ),
    torch_tensorrt_probe(
        target=Function("torch_tensorrt.dynamo.utils:check_module_output"),
        action=Annotate((phase.REFIT,), end=compilation.outputs_match),
        why="verify_output: a difference is only logged",
    ),
    torch_tensorrt_probe(
        target=Function("torch_tensorrt._compile:save"),
        action=Record(phase.SAVE, start=artifacts.save, end=artifacts.saved),
        why="torch_tensorrt.save, every format",
    ),
    torch_tensorrt_probe(
        target=Method("torch_tensorrt.dynamo.runtime._MutableTorchTensorRTModule:MutableTorchTensorRTModule.save"),
        action=Record(phase.SAVE, start=artifacts.save_mutable, end=artifacts.saved),
        why="saves a mutable module",
    ),
    torch_tensorrt_probe(
        target=Function("torch_tensorrt.dynamo._exporter:export"),
        action=Step(),
        why="makes an exported program of the compiled module, by changing its graph or by exporting it again",
    ),
    torch_tensorrt_probe(
        target=Function("torch_tensorrt._compile:load"),
        action=Record(phase.LOAD, start=artifacts.load, end=artifacts.loaded),
        why="torch_tensorrt.load: tries torch.export.load, then torch.jit.load",
    ),
    torch_tensorrt_probe(
        target=Method("torch_tensorrt.dynamo.runtime._MutableTorchTensorRTModule:MutableTorchTensorRTModule.load"),
        action=Record(phase.LOAD, start=artifacts.load_mutable, end=artifacts.loaded),
        why="loads a mutable module",
    ),
)
