# SPDX-License-Identifier: Apache-2.0
"""Observers of PyTorch's work for a compilation: frames, phases and exports."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from torchspan import phase
from torchspan.observers._observable import CallableObservers
from torchspan.observers._official import missing, official

__all__ = [
    "compile_backward",
    "compile_frame",
    "compile_phase",
    "compile_wait",
    "compile_worker",
    "export",
    "export_capture",
    "export_decompose",
    "export_trace",
    "run_disabled",
    "run_graph",
]

compile_frame: CallableObservers = official("torch.compile_frame", phase.COMPILE_FRAME)
"""One frame that `torch.compile` compiles or gives up on."""

compile_backward: CallableObservers = official("torch.compile_backward", phase.COMPILE_BACKWARD)
"""The compilation of one backward graph of `torch.compile`, when the graph first runs."""

compile_phase: CallableObservers = official("torch.compile_phase", phase.COMPILE_PHASE)
"""One phase of Dynamo, AOTAutograd or Inductor, however short."""

compile_wait: CallableObservers = official("torch.compile_wait", phase.COMPILE_WAIT)
"""A thread's wait for another thread's compilation. Both observers run when the wait is over."""

compile_worker: CallableObservers = official("torch.compile_worker", phase.COMPILE_WORKER)
"""Work that a compilation leaves to one of Inductor's threads or processes."""

run_graph: CallableObservers = official("torch.run_graph", phase.RUN_GRAPH)
"""One run of a compiled graph. Only with `TORCHSPAN_GRAPH_RUNS`."""

run_disabled: CallableObservers = official("torch.run_disabled", phase.RUN_DISABLED)
"""One call of a function that `torch.compiler.disable` excludes from compilation. Only with `TORCHSPAN_DISABLED_CALLS`."""

export: CallableObservers = official("torch.export", phase.EXPORT)
"""`torch.export.export`, called by Torch-TensorRT or by the program itself."""
export_capture: CallableObservers = official("torch.export_capture", phase.EXPORT_CAPTURE)
"""Dynamo's capture of the module's Python code, in a strict export."""
export_trace: CallableObservers = official("torch.export_trace", phase.EXPORT_TRACE)
"""Tracing to ATen operators, in a strict or non-strict export."""
export_decompose: CallableObservers = official("torch.export_decompose", phase.EXPORT_DECOMPOSE)
"""`ExportedProgram.run_decompositions`, called by the program itself."""

if not TYPE_CHECKING:  # a type checker knows the names

    def __getattr__(name: str) -> NoReturn:
        missing(__name__, name)
