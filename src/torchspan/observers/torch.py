# SPDX-License-Identifier: Apache-2.0
"""Observers of PyTorch's work for a compilation: frames, phases and exports."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from torchspan.hooks.observers._observable import CallableObservers
from torchspan.hooks.observers._official import missing, pairs_of

compile_frame: CallableObservers
"""One frame that `torch.compile` compiles or gives up on."""

compile_backward: CallableObservers
"""The compilation of one backward graph of `torch.compile`, when the graph first runs."""

compile_phase: CallableObservers
"""One phase of Dynamo, AOTAutograd or Inductor, however short."""

compile_wait: CallableObservers
"""A thread's wait for another thread's compilation. Both observers run when the wait is over."""

compile_worker: CallableObservers
"""Work that a compilation leaves to one of Inductor's threads or processes."""

run_graph: CallableObservers
"""One run of a compiled graph. Only with `TORCHSPAN_GRAPH_RUNS`."""

export: CallableObservers
"""`torch.export.export`, called by Torch-TensorRT or by the program itself."""
export_capture: CallableObservers
"""Dynamo's capture of the module's Python code, in a strict export."""
export_trace: CallableObservers
"""Tracing to ATen operators, in a strict or non-strict export."""
export_decompose: CallableObservers
"""`ExportedProgram.run_decompositions`, called by the program itself."""

if not TYPE_CHECKING:  # a type checker knows the names
    _PAIRS = pairs_of("torch")
    globals().update(_PAIRS)
    __all__ = list(_PAIRS)

    def __getattr__(name: str) -> NoReturn:
        missing(__name__, name)
