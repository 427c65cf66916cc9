# SPDX-License-Identifier: Apache-2.0
"""Engines that are set up and run."""

from __future__ import annotations

from torchspan.hooks.probes._actions import Arguments, Record, Runs, Step, Tap
from torchspan.hooks.probes._probe import CustomOperator, Method, Probe, torch_tensorrt_probe
from torchspan.hooks.probes.describe import conversion, execution
from torchspan.words import phase

PROBES: tuple[Probe, ...] = (
    torch_tensorrt_probe(
        target=Method("torch_tensorrt.dynamo.runtime._TorchTensorRTModule:TorchTensorRTModule.setup_engine"),
        action=Record(
            phase.SETUP_ENGINE,
            start=conversion.setup,
            end=conversion.was_set_up,
            creates=conversion.engine_of_module,
        ),
        why="makes a runnable engine of a serialized one",
    ),
    torch_tensorrt_probe(
        target=Method(
            "torch_tensorrt.dynamo.runtime._PythonTorchTensorRTModule:PythonTorchTensorRTModule.setup_engine"
        ),
        action=Record(
            phase.SETUP_ENGINE,
            start=conversion.setup,
            end=conversion.was_set_up,
            creates=conversion.module_itself,
        ),
        until=(2, 12),
        why="the same in the older Python runtime",
    ),
    torch_tensorrt_probe(
        target=Method("torch_tensorrt.dynamo.runtime._TRTEngine:TRTEngine._setup_engine"),
        action=Tap("engines:made"),
        since=(2, 13),
        why="every engine of the Python runtime is made here, including loaded ones; its first run is always recorded",
    ),
    torch_tensorrt_probe(
        target=Method("torch_tensorrt.dynamo.runtime._TRTEngine:TRTEngine._create_execution_context"),
        action=Step(),
        since=(2, 13),
        why="makes the execution context late, at the first run; one reason why that run is slow",
    ),
    torch_tensorrt_probe(
        target=CustomOperator("torch.ops:tensorrt.execute_engine"),
        action=Runs(
            phase=phase.EXECUTE,
            describe=execution.execute,
            arguments=Arguments(names=("input_tensors", "engine"), engine=1, inputs=0),
        ),
        # Up to 2.12 the C++ runtime alone has it: it is hooked with that runtime, and not missed without.
        since=(2, 13),
        why="one run of one engine: the operator that modules, recompiled programs and reloaded programs call; its "
        "Python entry is replaced (torch._ops), so graphs do not break and fake tensors are left alone",
    ),
    torch_tensorrt_probe(
        target=Method("torch_tensorrt.dynamo.runtime._PythonTorchTensorRTModule:PythonTorchTensorRTModule.forward"),
        action=Runs(phase=phase.EXECUTE, describe=execution.execute),
        until=(2, 12),
        why="the older Python runtime runs engines itself, without the operator",
    ),
)
