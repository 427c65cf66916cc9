# SPDX-License-Identifier: Apache-2.0
"""Attributes about the observation itself, and about functions that the program has observed."""

from __future__ import annotations

from torchspan import phase
from torchspan.semconv._sizes import ArgumentPath, DataType, Shape
from torchspan.semconv._table import Attribute, folded
from torchspan.semconv._values import Enumeration, Identifier, ProgramsSpanName, RandomId, SpanName, Version
from torchspan.semconv.input_limits import DRIFT_EVENT, OUTSIDE_EVENT

KEEP = Attribute(
    "torchspan.keep",
    "boolean",
    "The work is worth keeping at any sampling rate. A tail sampler can select spans by this attribute.",
    *(each for each in phase.PHASES if each.keep),
    phase.DOCTOR,
    at_start=True,
)
PARENT_SAMPLED = Attribute(
    "torchspan.parent_sampled",
    "boolean",
    "False: the span around this one was not sampled, and torchspan's sampler kept this one. This span has the "
    "trace id of the span around it and no parent. Absent on all other spans.",
    *(each for each in phase.PHASES if each.keep),
    phase.EXECUTE,
    phase.RUN_CONTEXT,
)
STAND_IN = Attribute(
    "torchspan.stand_in",
    "boolean",
    "`torchspan.testing`'s stand-in for a GPU did this step; the span's duration means nothing.",
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
    "The compilation began after `torchspan.mark_ready()` or below a SERVER span of the same process: a request may "
    "have waited for it.",
    phase.COMPILE,
    at_start=True,
)
SERVING_KIND = Attribute(
    "torchspan.serving.kind",
    "string",
    "With `torchspan.while_serving`: `recompilation` where Dynamo had compiled this frame before (`torch.compile.id`), "
    "else `compilation`.",
    phase.COMPILE,
    at_start=True,
    kind=Enumeration("compilation", "recompilation"),
)
INCOMPLETE = Attribute(
    "torchspan.incomplete", "boolean", "torchspan did not see the end of the work and closed the span itself."
)
STEP_NAMES = Attribute(
    "torchspan.steps.names",
    "string[]",
    "Names of short steps inside this span that have no span of their own, longest first.",
    kind=SpanName(),
)
STEP_COUNTS = Attribute("torchspan.steps.counts", "int[]", "How often each of `torchspan.steps.names` ran.")
STEP_DURATIONS = Attribute(
    "torchspan.steps.durations", "double[]", "Seconds that each of `torchspan.steps.names` took in all."
)
FOLDED = Attribute(
    "torchspan.folded.count",
    "int",
    "Pieces of work inside this span that have no span because the trace had its 2,000 spans. On torchspan's spans "
    "they are among `torchspan.steps.names`, without the time of other steps in them. Also on the user's spans.",
)

OBSERVED_FOLDED, OBSERVED_FOLDED_SUM, OBSERVED_FOLDED_MAX = folded(
    phase.OBSERVED,
    count="Calls of observed functions below this span that have no span because of the rate limits; on the user's "
    "spans.",
    total="Seconds that the calls counted in `torchspan.observed.folded.count` took in all; on the user's spans.",
    longest="Seconds of the longest call counted in `torchspan.observed.folded.count`; on the user's spans.",
)
OBSERVER_EVENT = "torchspan.observer"
"""The span event of an observer that fired; also on the user's spans."""
OBSERVER_NAME = Attribute(
    "torchspan.observer.name",
    "string",
    "Name of the observer, torchspan's or Torch-TensorRT's.",
    event=OBSERVER_EVENT,
    kind=Identifier(),
)
OBSERVER_COUNT = Attribute(
    "torchspan.observer.count",
    "int",
    "How often the observer fired in this span; the event has the time of the first.",
    event=OBSERVER_EVENT,
)
OBSERVERS_OMITTED = Attribute(
    "torchspan.observer.omitted", "int", "How often observers fired in this span without an event of their own."
)

CALL_EVENT = "torchspan.input"
"""The span event of a call that `TORCHSPAN_INPUTS` has followed; also on the user's spans."""
CALL_MODULE = Attribute(
    "torchspan.input.module",
    "string",
    "Class of the module that was called; of a compiled one, of the model that it was compiled from, and "
    "`torch.compile` for a graph that PyTorch's Dynamo made.",
    event=(CALL_EVENT, OUTSIDE_EVENT, DRIFT_EVENT),
    kind=Identifier(),
)
CALL_PATHS = Attribute(
    "torchspan.input.paths",
    "string[]",
    "Place of each tensor in the arguments of the call: `past[0][1]`. At most 20. A graph that `torch.compile` hands "
    "to Torch-TensorRT has `args[0]`, `args[1]`.",
    event=CALL_EVENT,
    kind=ArgumentPath(),
)
CALL_SHAPES = Attribute(
    "torchspan.input.shapes",
    "string[]",
    "Shape of each tensor in `torchspan.input.paths`.",
    event=CALL_EVENT,
    kind=Shape(),
)
CALL_DTYPES = Attribute(
    "torchspan.input.dtypes",
    "string[]",
    "Data type of each tensor in `torchspan.input.paths`.",
    event=CALL_EVENT,
    kind=DataType(),
)
CALL_IS_NEW = Attribute(
    "torchspan.input.new",
    "boolean",
    "True: the module was called with this shape for the first time. False: the call is one in TORCHSPAN_INPUTS_EVERY.",
    event=CALL_EVENT,
)
CALL_COUNT = Attribute(
    "torchspan.input.count",
    "int",
    "Calls of this shape so far, this one included; not known once the module has had 1,024 shapes before this one.",
    event=CALL_EVENT,
)
CALL_PATH = Attribute(
    "torchspan.input.path",
    "string",
    "Place of a tensor in the arguments, as in `torchspan.input.paths`.",
    metric=True,
    kind=ArgumentPath(),
)
CALL_AXIS = Attribute("torchspan.input.axis", "int", "Number of a dimension of the tensor, from 0 on.", metric=True)

BATCH_REQUESTS = Attribute(
    "torchspan.batch.requests",
    "int",
    "Requests for which the work was done, sampled or not.",
    phase.BATCH,
    at_start=True,
)

IMPORT_MODULE = Attribute(
    "torchspan.import.module",
    "string",
    "The module: `torch`, `torch_tensorrt`, `tensorrt` or `tensorrt_rtx`.",
    phase.IMPORT,
    at_start=True,
    kind=Identifier(),
)
IMPORT_VERSION = Attribute(
    "torchspan.import.version",
    "string",
    "The module's version, where the import succeeded.",
    phase.IMPORT,
    kind=Version(),
)

PROGRESS_WORK = Attribute(
    "torchspan.progress.work",
    "string",
    "Name of the parent span. Its work is running, so the span has not been exported yet.",
    phase.PROGRESS,
    at_start=True,
    kind=SpanName(),
)
PROGRESS_ELAPSED = Attribute(
    "torchspan.progress.elapsed",
    "double",
    "Seconds since the work in `torchspan.progress.work` started.",
    phase.PROGRESS,
    at_start=True,
)
PROGRESS_RUNNING = Attribute(
    "torchspan.progress.running",
    "string",
    "The innermost part of the work that is running, by the name that its span will have.",
    phase.PROGRESS,
    at_start=True,
    kind=SpanName(),
)
PROGRESS_RUNNING_ELAPSED = Attribute(
    "torchspan.progress.running_elapsed",
    "double",
    "Seconds since the part in `torchspan.progress.running` started.",
    phase.PROGRESS,
    at_start=True,
)
PROGRESS_NUMBER = Attribute(
    "torchspan.progress.number",
    "int",
    "Number of the heartbeat in its work, from 1 on; 0 is the start of the work, in torchspan's own files alone.",
    phase.PROGRESS,
    at_start=True,
)

OPEN_ANCESTOR_IDS = Attribute(
    "torchspan.open_ancestors.ids",
    "string[]",
    "Span ids, innermost first, of the spans around this one that were open when it was written; the 64 innermost. In "
    "the file of `torchspan run` alone.",
    kind=RandomId(),
)
OPEN_ANCESTOR_NAMES = Attribute(
    "torchspan.open_ancestors.names",
    "string[]",
    "Name of each span in `torchspan.open_ancestors.ids`. In the file of `torchspan run` alone.",
    kind=ProgramsSpanName(),
)
OPEN_ANCESTOR_STARTS = Attribute(
    "torchspan.open_ancestors.starts",
    "int[]",
    "Start of each span in `torchspan.open_ancestors.ids`, in nanoseconds since 1970. In the file of `torchspan run` "
    "alone.",
)

RUN_ID = Attribute(
    "torchspan.run.id",
    "string",
    "Id of the `torchspan run` that wrote the span. In the file of `torchspan run` alone.",
    resource=True,
    kind=RandomId(),
)
RUN_PID = Attribute("torchspan.run.pid", "int", "The process that `torchspan run` started.", phase.RUN)
RUN_SIGNAL = Attribute(
    "torchspan.run.signal",
    "string",
    "The signal that ended the program, such as `SIGSEGV`. `error.type` says the same.",
    phase.RUN,
    kind=Identifier(),
)

PHASE = Attribute(
    "torchspan.phase",
    "string",
    "The kind of work: a span's name without its target.",
    metric=True,
    kind=Enumeration(*(each.name for each in phase.PHASES)),
)


class DroppedReason:
    """The values of `torchspan.dropped.reason`: why a span did not arrive."""

    BUDGET = "budget"
    """The trace had its 2,000 spans."""
    RANK = "rank"
    """`TORCHSPAN_RANKS` does not name the rank of this process. The sampler was not asked."""
    SAMPLER = "sampler"
    """Another sampler than torchspan's refused a span that has `torchspan.keep`, which torchspan's always accepts."""
    QUEUE = "queue"
    """The SDK dropped it from the full queue of a batch processor. A larger queue: `OTEL_BSP_MAX_QUEUE_SIZE`."""
    EXPORTER = "exporter"
    """An exporter of the SDK reported a failure for its batch, or raised an exception."""


DROPPED_REASON = Attribute(
    "torchspan.dropped.reason",
    "string",
    "Why the span did not arrive.",
    metric=True,
    kind=Enumeration(
        DroppedReason.BUDGET, DroppedReason.RANK, DroppedReason.SAMPLER, DroppedReason.QUEUE, DroppedReason.EXPORTER
    ),
)
