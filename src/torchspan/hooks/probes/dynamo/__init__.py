# SPDX-License-Identifier: Apache-2.0
"""Hook points of torch.compile: what Dynamo, AOTAutograd and Inductor report about their work, and where they use threads.

The first is a function that PyTorch keeps to be overridden (torch/_utils_internal.py) and looks up by name at each call.
"""

from __future__ import annotations

from functools import partial

from torchspan.hooks.probes._actions import Record, Tap
from torchspan.hooks.probes._probe import Function, Lock, Method, Probe
from torchspan.words import phase

row = partial(Probe, library="torch")

PROBES: tuple[Probe, ...] = (
    row(
        target=Function("torch._dynamo.utils:record_chromium_event_internal"),
        action=Tap("dynamo:reported"),
        why="beginning and end of each phase of Dynamo, AOTAutograd and Inductor, in the thread that does the work",
    ),
    row(
        target=Method("torch._dynamo.metrics_context:MetricsContext.update_outer"),
        action=Tap("dynamo:measured"),
        why="what Dynamo measures of a frame, also inside another frame's compilation: why it was compiled again, guards, failure",
    ),
    row(
        target=Method("torch._dynamo.utils:ChromiumEventLogger.log_instant_event"),
        action=Tap("dynamo:hit"),
        why="the time that a hit in a cache of compiled graphs saves, which the end of the phase does not report",
    ),
    row(
        target=Method("torch._dynamo.symbolic_convert:InstructionTranslatorBase.log_graph_break"),
        action=Tap("dynamo:broke"),
        why="each graph break with its type and place, including those that leave the whole frame to Python, which are in no list",
    ),
    row(
        target=Function("torch._dynamo.convert_frame:is_generator"),
        action=Tap("dynamo:generator"),
        why="a generator, which Dynamo refuses before it begins to compile, so that it reports nothing",
    ),
    row(
        target=Method("torch._dynamo.output_graph:OutputGraph.call_user_compiler"),
        action=Tap("dynamo:captured"),
        why="the graph of a frame before any backend receives it; what the program declared a black box is one node there",
    ),
    row(
        target=Function("torch._dynamo.external_utils:wrap_inline"),
        action=Tap("dynamo:wrapped"),
        why="where `torch.compile` was called for a module of a library, which has no code of the program that would name its place",
    ),
    row(
        target=Lock("torch._dynamo.convert_frame:compile_lock"),
        action=Record(phase.COMPILE_WAIT, around="dynamo:lock"),
        why="the lock under which one thread at a time compiles; Dynamo does not report that others wait for it",
    ),
)
"""Every row of Dynamo."""

WORKERS: tuple[Probe, ...] = (
    row(
        target=Method("torch._inductor.async_compile:AsyncCompile.submit"),
        action=Record(phase.COMPILE_WORKER, around="dynamo:thread"),
        why="work of Inductor's threads, such as a C++ compiler; they do not know for which compilation they work",
    ),
    row(
        target=Method("torch._inductor.compile_worker.subproc_pool:SubprocPool.submit"),
        action=Record(phase.COMPILE_WORKER, around="dynamo:process"),
        why="work of Inductor's processes, such as a Triton kernel, from its submission to its result",
    ),
)
"""Every row of Inductor, which PyTorch imports when it is first used."""

__all__ = ["PROBES", "WORKERS"]
