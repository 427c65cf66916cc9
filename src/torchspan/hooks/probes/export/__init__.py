# SPDX-License-Identifier: Apache-2.0
"""Hook points of torch.export: the export itself, its parts in either mode, and what is done with the program."""

from __future__ import annotations

from functools import partial

from torchspan.hooks.probes._actions import Record, Shares, Step
from torchspan.hooks.probes._probe import Function, Method, Probe
from torchspan.hooks.probes.describe import compilation, export, export_failure
from torchspan.words import phase, semconv

_row = partial(Probe, library="torch")

PROBES: tuple[Probe, ...] = (
    _row(
        target=Function("torch.export._trace:_export"),
        action=Record(
            phase.EXPORT,
            start=export.export,
            end=export.exported,
            failed=export_failure.export,
            remembers_result=True,
            shares=Shares((phase.TRACE,), keys=(semconv.EXPORT_FAILED_REASON,)),
        ),
        why="from module to exported program, for every caller; `torch.export.export` looks it up in its module at each "
        "call, so the export that imports that module is seen as well; the compilation of the program links to it",
    ),
    _row(
        target=Function("torch.export._trace:_export_to_torch_ir"),
        action=Record(phase.EXPORT_CAPTURE, end=compilation.graph_out, within=(phase.EXPORT,)),
        why="a strict export's time in Dynamo, which is most of it",
    ),
    _row(
        target=Function("torch.export._trace:_export_to_aten_ir_make_fx"),
        action=Record(phase.EXPORT_TRACE, within=(phase.EXPORT,)),
        why="tracing to operators, in both modes: Dynamo reports nothing about a non-strict export",
    ),
    _row(
        target=Method("torch.export:ExportedProgram.run_decompositions"),
        action=Record(
            phase.DECOMPOSE,
            start=compilation.graph_in,
            end=compilation.graph_out,
            within=phase.LOWERING,
            elsewhere=phase.EXPORT_DECOMPOSE,
        ),
        why="decomposition, often the longest part before the build, by Torch-TensorRT or by the program itself",
    ),
    _row(
        target=Method("torch.export:ExportedProgram.module"),
        action=Step(follows=compilation.program_with_engines),
        why="unlifting the exported program into a graph module; the module of a program that was loaded runs its engines",
    ),
)
"""Every row. torch 2.11 to 2.14 have all of them."""
