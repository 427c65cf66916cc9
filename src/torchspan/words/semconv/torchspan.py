# SPDX-License-Identifier: Apache-2.0
"""Attributes about the observation itself, and about functions that the program has observed."""

from __future__ import annotations

from torchspan.words import phase
from torchspan.words.redaction.kinds_of_text import (
    Enumeration,
    Identifier,
    ProgramsSpanName,
    RandomId,
    SpanName,
    Version,
)
from torchspan.words.redaction.size_text import ArgumentPath, DataType, ShapeText
from torchspan.words.semconv._table import Attribute, folded
from torchspan.words.semconv.input_limits import DRIFT_EVENT, OUTSIDE_EVENT

LOCAL = "torchspan.local."
"""What the attribute of a whole text begins with, in the user's own file: the text's key follows.

The key of the text of a span's attribute is the attribute's. The text of an event's attribute is on the span, too: see
`event_text_key`.
"""
EVENT_TEXTS = "events."
"""What the keys of the whole texts of events begin with."""


def event_text_key(index: int, key: str) -> str:
    """The key of the whole text of an attribute of the event with this index."""
    return f"{EVENT_TEXTS}{index}.{key}"


_KEPT = tuple(row for row in phase.PHASES if row.keep)
_CLOCKED = tuple(row for row in _KEPT if row not in phase.NOTICED_LATE)
"""Phases whose events are opened when the work starts."""

KEEP = Attribute(
    "torchspan.keep",
    "boolean",
    "Always true: the work is worth keeping at any sampling rate. A tail sampler can select spans by this attribute.",
    *_KEPT,
    phase.DOCTOR,
    at_start=True,
    stable=True,
)
PARENT_SAMPLED = Attribute(
    "torchspan.parent_sampled",
    "boolean",
    "Always false: torchspan's sampler kept this span although the span around it was not sampled. This span has the "
    "trace id of the span around it, and no parent. Absent on all other spans.",
    *(row for row in phase.PHASES if row.keep),
    phase.EXECUTE,
    phase.RUN_CONTEXT,
)
STAND_IN = Attribute(
    "torchspan.stand_in",
    "boolean",
    "True if `torchspan.testing`'s stand-in for a GPU did this step. The duration of the span is then meaningless.",
    phase.DESERIALIZE_ENGINE,
    phase.CREATE_CONTEXT,
    phase.SETUP_ENGINE,
    phase.EXECUTE,
    phase.RUN_CONTEXT,
    at_start=True,
)
WHILE_SERVING = Attribute(
    "torchspan.while_serving",
    "boolean",
    "True if the compilation began after `torchspan.mark_ready()` or below a SERVER span of the same process: a "
    "request may have waited for the compilation.",
    *phase.COMPILATIONS,
    at_start=True,
    stable=True,
)
SERVING_KIND = Attribute(
    "torchspan.serving.kind",
    Enumeration("compilation", "recompilation"),
    "Kind of the compilation, present with `torchspan.while_serving`: `recompilation` if Dynamo had compiled this "
    "frame before (`torch.compile.id`), else `compilation`.",
    *phase.COMPILATIONS,
    at_start=True,
    stable=True,
)
INCOMPLETE = Attribute(
    "torchspan.incomplete", "boolean", "True if torchspan did not see the end of the work and closed the span itself."
)


class MissingGpuTime:
    """Why a run has no time on the device, although `TORCHSPAN_GPU_TIME` asks for it."""

    CAPTURING = "capturing"
    """The stream was being captured into a CUDA graph."""
    OTHER_DEVICE = "other_device"
    """The run was on another device than the current one of its thread."""
    POOL = "pool"
    """The device had not finished as many runs as there are CUDA events for."""
    RUNNING = "running"
    """The device was still running when the span had to be written: at a flush, at the end of the process."""
    UNANSWERED = "unanswered"
    """The device did not finish the run within a minute."""
    FAILED = "failed"
    """CUDA returned an error."""


GPU_TIME_MISSING = Attribute(
    "torchspan.gpu_time.missing",
    Enumeration.of(MissingGpuTime),
    "Why a run has no time on the device although `TORCHSPAN_GPU_TIME` asks for it: `capturing`, the stream was being "
    "captured into a CUDA graph; `other_device`, the run was on another device than the current one of its thread; "
    "`pool`, too many runs were unfinished on the device; `running`, the device had not finished when the span was "
    "written; `unanswered`, the device did not finish within a minute; `failed`, CUDA returned an error.",
    phase.EXECUTE,
    phase.RUN_GRAPH,
)
STEP_NAMES = Attribute(
    "torchspan.steps.names",
    [SpanName()],
    "Names of the short steps inside this span that have no span of their own, longest first (at most 20).",
)
STEP_COUNTS = Attribute("torchspan.steps.counts", "int[]", "Number of times that each of `torchspan.steps.names` ran.")
STEP_DURATIONS = Attribute(
    "torchspan.steps.durations", "double[]", "Total duration of each of `torchspan.steps.names`, in seconds."
)
CPU_THREAD_TIME = Attribute(
    "torchspan.cpu.thread_time",
    "double",
    "Seconds that the thread of the work was on the processor, from 1 ms on. For the rest of the span's duration it "
    "waited: for a device, a disk, a lock, or other threads and processes. Absent if other threads or processes do "
    "the work, and if torchspan noticed it only after its start.",
    *_CLOCKED,
)
CPU_PROCESS_TIME = Attribute(
    "torchspan.cpu.process_time",
    "double",
    "Seconds that all threads of the process together were on the processor during the work, from 1 ms on, and those "
    "of child processes that ended and were waited for meanwhile. Other work of the process counts as well. More than "
    "the span's duration means that several processors worked.",
    *(row for row in _CLOCKED if row.is_long),
)
FOLDED = Attribute(
    "torchspan.folded.count",
    "int",
    "Number of pieces of work inside this span that have no span because of the limit of 2,000 spans per trace. On "
    "torchspan's spans, `torchspan.steps.names` lists them as well; their durations there exclude the steps inside "
    "them. Also set on the user's spans.",
)

OBSERVED_FOLDED, OBSERVED_FOLDED_SUM, OBSERVED_FOLDED_MAX = folded(
    phase.OBSERVED,
    count="Number of calls of observed functions below this span that have no span because of the rate limits. Set on "
    "the user's spans.",
    total="Total duration of the calls counted in `torchspan.observed.folded.count`, in seconds. Set on the user's "
    "spans.",
    longest="Duration of the longest call counted in `torchspan.observed.folded.count`, in seconds. Set on the user's "
    "spans.",
)
OBSERVER_EVENT = "torchspan.observer"
"""Event of an observer that fired. Also on the user's spans."""
OBSERVER_NAME = Attribute(
    "torchspan.observer.name",
    Identifier(),
    "Name of the observer that fired, torchspan's or Torch-TensorRT's.",
    event=OBSERVER_EVENT,
)
OBSERVER_COUNT = Attribute(
    "torchspan.observer.count",
    "int",
    "Number of times that the observer fired in this span. The event has the time of the first.",
    event=OBSERVER_EVENT,
)
OBSERVERS_OMITTED = Attribute(
    "torchspan.observer.omitted",
    "int",
    "Number of times that observers fired in this span without an event of their own.",
)

CALL_EVENT = "torchspan.input"
"""Event of a sampled call of a module that `TORCHSPAN_INPUTS` selects. Also on the user's spans."""
CALL_MODULE = Attribute(
    "torchspan.input.module",
    Identifier(),
    "Class of the module that was called. For a compiled module, the class of the model from which it was compiled; "
    "for a graph that Dynamo captured, `torch.compile`.",
    event=(CALL_EVENT, OUTSIDE_EVENT, DRIFT_EVENT),
)
CALL_PATHS = Attribute(
    "torchspan.input.paths",
    [ArgumentPath()],
    "Path of each tensor in the arguments of the call, such as `past[0][1]` (at most 20). For a graph that "
    "`torch.compile` passes to Torch-TensorRT, `args[0]`, `args[1]` and so on.",
    event=CALL_EVENT,
)
CALL_SHAPES = Attribute(
    "torchspan.input.shapes",
    [ShapeText()],
    "Shape of each tensor in `torchspan.input.paths`.",
    event=CALL_EVENT,
)
CALL_DTYPES = Attribute(
    "torchspan.input.dtypes",
    [DataType()],
    "Data type of each tensor in `torchspan.input.paths`.",
    event=CALL_EVENT,
)
CALL_IS_NEW = Attribute(
    "torchspan.input.new",
    "boolean",
    "True if the module was called with this shape for the first time; false if the call is the one in "
    "`TORCHSPAN_INPUTS_EVERY` that is sampled.",
    event=CALL_EVENT,
)
CALL_COUNT = Attribute(
    "torchspan.input.count",
    "int",
    "Number of calls with this shape so far, including this one. Absent if the module had had 1,024 other shapes "
    "before this one.",
    event=CALL_EVENT,
)
CALL_PATH = Attribute(
    "torchspan.input.path",
    ArgumentPath(),
    "Path of a tensor in the arguments of the call, as in `torchspan.input.paths`.",
    metric=True,
)
CALL_AXIS = Attribute(
    "torchspan.input.axis",
    "int",
    "Number of a dimension of the tensor in `torchspan.input.path`, starting from 0.",
    metric=True,
)

BATCH_REQUESTS = Attribute(
    "torchspan.batch.requests",
    "int",
    "Number of requests for which the batch was run, sampled or not.",
    phase.BATCH,
    at_start=True,
)

IMPORT_MODULE = Attribute(
    "torchspan.import.module",
    Identifier(),
    "The module of a first import: `torch`, `torch_tensorrt`, `tensorrt` or `tensorrt_rtx`; or the library of a module "
    "that was imported: `torch._dynamo`, `torch._inductor`, `triton`, `torch_tensorrt` or `transformers`.",
    phase.IMPORT,
    at_start=True,
)
IMPORT_VERSION = Attribute(
    "torchspan.import.version",
    Version(),
    "Version of the module of a first import. Absent if the import failed.",
    phase.IMPORT,
)

PROGRESS_WORK = Attribute(
    "torchspan.progress.work",
    SpanName(),
    "Name of the parent span. The parent's work is still running, so the parent has not been exported yet.",
    phase.PROGRESS,
    at_start=True,
)
PROGRESS_ELAPSED = Attribute(
    "torchspan.progress.elapsed",
    "double",
    "Time since the work in `torchspan.progress.work` started, in seconds.",
    phase.PROGRESS,
    at_start=True,
    stable=True,
)
PROGRESS_RUNNING = Attribute(
    "torchspan.progress.running",
    SpanName(),
    "Innermost part of the work that is running, by the name that its span will have.",
    phase.PROGRESS,
    at_start=True,
    stable=True,
)
PROGRESS_RUNNING_ELAPSED = Attribute(
    "torchspan.progress.running_elapsed",
    "double",
    "Time since the part in `torchspan.progress.running` started, in seconds.",
    phase.PROGRESS,
    at_start=True,
)
PROGRESS_NUMBER = Attribute(
    "torchspan.progress.number",
    "int",
    "Number of the heartbeat of its work, starting from 1. 0 marks the start of the work, only in torchspan's own "
    "files.",
    phase.PROGRESS,
    at_start=True,
)

OPEN_ANCESTOR_IDS = Attribute(
    "torchspan.open_ancestors.ids",
    [RandomId()],
    "Span ids of the spans around this one that were open when it was written, innermost first (at most 64). Recorded "
    "only in the file of `torchspan run`.",
)
OPEN_ANCESTOR_NAMES = Attribute(
    "torchspan.open_ancestors.names",
    [ProgramsSpanName()],
    "Name of each span in `torchspan.open_ancestors.ids`. Recorded only in the file of `torchspan run`.",
)
OPEN_ANCESTOR_STARTS = Attribute(
    "torchspan.open_ancestors.starts",
    "int[]",
    "Start time of each span in `torchspan.open_ancestors.ids`, in nanoseconds since 1970. Recorded only in the file "
    "of `torchspan run`.",
)

RUN_ID = Attribute(
    "torchspan.run.id",
    RandomId(),
    "Id of the `torchspan run` that wrote the span. Recorded only in the file of `torchspan run`.",
    resource=True,
)
RUN_ENGINES_RUNS = Attribute(
    "torchspan.run.engines.runs",
    "int",
    "Number of runs of engines in the program, also of those without a span. Absent if no engine ran.",
    phase.RUN,
)
RUN_ENGINES_TIME = Attribute(
    "torchspan.run.engines.time",
    "double",
    "Duration of all runs of engines in the program, also of those without a span, summed over its threads and "
    "processes, in seconds. Absent if no engine ran.",
    phase.RUN,
)
RUN_SIGNAL = Attribute(
    "torchspan.run.signal",
    Identifier(),
    "Signal that ended the program, such as `SIGSEGV`; `error.type` has the same value.",
    phase.RUN,
)

PHASE = Attribute(
    "torchspan.phase",
    Enumeration(*(row.name for row in (*phase.PHASES, phase.OPERATOR))),
    "Kind of work: the name of a span without its target.",
    metric=True,
    stable=True,
)


class DroppedReason:
    """Values of `torchspan.dropped.reason`: why a span did not arrive."""

    BUDGET = "budget"
    """The trace had used up its budget of 2,000 spans, or the share of it that this kind of work may use."""
    RANK = "rank"
    """`TORCHSPAN_RANKS` does not include the rank of this process. The sampler was not asked."""
    SAMPLER = "sampler"
    """A sampler other than torchspan's refused a span with `torchspan.keep`, which torchspan's always accepts."""
    PAUSED = "paused"
    """Writing spans had failed 3 times in a row, so torchspan paused it. The log has the cause."""
    INSIDE = "inside"
    """A finalizer, a signal handler or a processor began the work inside what records another event."""
    RING = "ring"
    """The operators of a thread came faster than they were read. The newest were dropped, also those for the table."""
    LATE = "late"
    """The operator, or the call that is only counted, ended after the span in which it began."""


DROPPED_REASON = Attribute(
    "torchspan.dropped.reason",
    Enumeration.of(DroppedReason),
    "Reason why a span of torchspan was not started.",
    metric=True,
    stable=True,
)
