# SPDX-License-Identifier: Apache-2.0
"""Times of the layers of an engine, as TensorRT reports them to a profiler.

A profiler is attached to an execution context for one run at a time, so that runs between the requested ones do not wait for the
device. What this relies on:

- `enqueueV3` reports each layer before it returns, unless `enqueue_emits_profile` is False: `IExecutionContext::setEnqueueEmitsProfile`
  in NvInferRuntime.h, `IExecutionContext.report_to_profiler` in the Python API.
- `IExecutionContext.profiler` returns the object that was set, and None takes it off: python/src/infer/pyCore.cpp of NVIDIA/TensorRT
  binds `getProfiler` and `setProfiler` as they are. The context keeps each profiler that it has had until its own end
  (`py::keep_alive`), so ours lets go of what it has gathered, and forwards what it still gets.
- What a profiler raises ends in `PyProfiler::reportLayerTime` there, which writes it to stderr.
"""

from __future__ import annotations

import functools
import sys
from array import array
from statistics import median
from threading import get_ident
from typing import Any

from torchspan import phase, semconv
from torchspan._base import reading
from torchspan._base.by_identity import ByIdentity
from torchspan._base.forks import in_each_child
from torchspan._base.logs import Log
from torchspan.engine import RecordedRun

logger = Log("torchspan")

EACH = "*"
"""The name that stands for each engine."""
MOST_RUNS = 10_000
"""Most runs of a request."""
REQUESTS_LIMIT = 100
"""Most names with a request. The oldest yields."""
LAYERS_LIMIT = 5_000
"""Most layers of an engine that are told apart."""
TIMES_LIMIT = 500_000
"""Most times of layers of an engine: sorting more of them would delay the program."""
SHOWN = 40
"""Most layers of a table."""
_NAME_LENGTH = 1_000
_LONGEST_MS = 86_400_000.0


class LayerSamples:
    """The layer times of an engine in its timed runs."""

    def __init__(self) -> None:
        self.runs = 0
        """How many runs had a profiler of ours."""
        self.is_complete = False
        self._timed = 0
        self._ms: dict[str, array[float]] = {}
        self._count = 0
        self._beyond_ms = array("d")
        self._beyond = 0

    def add(self, reports: LayerReports) -> None:
        """Add one run."""
        self.runs += 1
        self._timed += reports.has_reported
        beyond, beyond_ms = reports.beyond, reports.beyond_ms
        for name, ms in reports.ms.items():
            if name in self._ms or len(self._ms) < LAYERS_LIMIT:
                self._ms.setdefault(name, array("d")).append(ms)
                self._count += 1
            else:
                beyond, beyond_ms = beyond + 1, beyond_ms + ms
        if beyond:
            self._beyond_ms.append(beyond_ms)
            self._beyond = max(beyond, self._beyond)

    def is_enough(self, runs: int) -> bool:
        """Whether these are the runs, or the most times that are kept."""
        return self.runs >= runs or self._count >= TIMES_LIMIT

    def table(self) -> dict[str, Any]:
        """The attributes of the span; none if no layer was reported."""
        if not self._timed:
            return {}
        medians = sorted(((name, median(ms)) for name, ms in self._ms.items()), key=lambda layer: -layer[1])
        shown, omitted = medians[:SHOWN], [ms for _, ms in medians[SHOWN:]]
        omitted_ms = sum(omitted) + (median(self._beyond_ms) if self._beyond else 0.0)
        sum_ms = sum(ms for _, ms in shown) + omitted_ms
        table: dict[str, Any] = {
            semconv.LAYER_NAMES: [name for name, _ in shown],
            semconv.LAYER_DURATIONS: [round(ms / 1000, 9) for _, ms in shown],
            semconv.LAYER_SHARES: [round(ms / sum_ms, 6) if sum_ms else 0.0 for _, ms in shown],
            semconv.LAYER_RUNS: self._timed,
        }
        if omitted or self._beyond:
            table[semconv.LAYERS_OMITTED] = len(omitted) + self._beyond
            table[semconv.LAYERS_OMITTED_DURATION] = round(omitted_ms / 1000, 9)
        return table


class LayerReports:
    """What TensorRT reports of one run.

    Args:
        previous: The profiler that the context had, which receives every report.
        thread: The thread of the run, whose reports are kept. None: none are.
    """

    def __init__(self, previous: Any, thread: int | None) -> None:
        self._previous, self._thread = previous, thread
        self.ms: dict[str, float] = {}
        self.beyond, self.beyond_ms = 0, 0.0
        self.has_reported = False

    def add(self, name: Any, ms: Any) -> None:
        """TensorRT's report of a layer. Raises what the previous profiler raises."""
        if get_ident() == self._thread:  # another thread may run the same context
            self._add(name, ms)
        if self._previous is not None:
            self._previous.report_layer_time(name, ms)

    def _add(self, name: Any, ms: Any) -> None:
        if type(name) is not str or type(ms) is not float or not 0 <= ms <= _LONGEST_MS:
            return
        self.has_reported = True
        name = name[:_NAME_LENGTH]
        if name in self.ms or len(self.ms) < LAYERS_LIMIT:
            self.ms[name] = self.ms.get(name, 0.0) + ms
        else:
            self.beyond, self.beyond_ms = self.beyond + 1, self.beyond_ms + ms


class LayerRequest:
    """What the program wants of the engines of one name.

    Args:
        runs: In how many runs of each.
    """

    def __init__(self, runs: int) -> None:
        self.runs = runs
        self.engines: ByIdentity[LayerSamples] = ByIdentity()
        self._said: set[str] = set()

    def begin(self, runner: Any) -> LayerSamples | None:
        """The samples of an engine that is about to run; None if it has its table, or cannot be remembered."""
        samples = self.engines.get(runner)
        if samples is None:
            self.engines[runner] = LayerSamples()
            samples = self.engines.get(runner)
        return None if samples is None or samples.is_complete else samples

    def refuse(self, name: Any, samples: LayerSamples, why: str) -> None:
        """End the request for one engine. Each reason is one line in the log."""
        samples.is_complete = True
        if why not in self._said:
            self._said.add(why)
            logger.warning("torchspan records no layer times of engine %s: %s.", semconv.identifier(name or "?"), why)


_REQUESTS: dict[str, LayerRequest] = {}
"""By the names of engines."""


def request_layers(name: str, runs: int) -> None:
    """Time the layers of the engines of this name, from now on. Replaces an earlier request for the name."""
    _REQUESTS.pop(name, None)
    _REQUESTS[name] = LayerRequest(runs)
    if len(_REQUESTS) > REQUESTS_LIMIT:
        _REQUESTS.pop(next(iter(_REQUESTS)), None)


class _Attachment:
    """A profiler of ours on a context during one run."""

    def __init__(self, context: Any, request: LayerRequest, samples: LayerSamples) -> None:
        self.context, self.request, self.samples = context, request, samples
        self._previous: Any = None
        self._profiler: Any = None

    def attach(self) -> str | None:
        """Attach the profiler. Returns why that cannot be done, if so."""
        try:
            if not self.context.enqueue_emits_profile:
                return "enqueue_emits_profile of its execution context is False; set it to True"
            self._previous = self.context.profiler
            reports = LayerReports(self._previous, get_ident())
            self._profiler = _profiler_type(_interface(self.context))(reports)
            self.context.profiler = self._profiler
        except Exception as error:
            return f"its execution context takes no profiler ({reading.class_name(type(error))})"
        return None

    def give_back(self) -> LayerReports:
        """Put the previous profiler back, unless the program has set another one. Returns what was reported."""
        reports: LayerReports = self._profiler.reports
        self._profiler.reports = LayerReports(self._previous, None)
        if self.context.profiler is self._profiler:
            self.context.profiler = self._previous
        return reports


class LayerTimes:
    """Attaches profilers to the runs that were asked for, and puts the table on the last of them: a `Companion` of runs.

    Args:
        setting: The setting `layers`: `off`, or `NAME:RUNS`.
    """

    def __init__(self, setting: str) -> None:
        self._attached: dict[int, _Attachment] = {}
        """By the addresses of contexts."""
        _REQUESTS.clear()
        if setting != "off":
            name, _, runs = setting.rpartition(":")
            request_layers(name, int(runs))
        in_each_child(self._begin_child)

    def _begin_child(self) -> None:
        self._attached.clear()

    def begin(self, run: RecordedRun) -> _Attachment | None:
        """See `Companion`."""
        if not _REQUESTS or not run.event.is_sampled or run.event.phase not in _TIMED:
            return None
        name = _engine_name(run)
        request = _REQUESTS.get(name) or _REQUESTS.get(EACH)
        samples = None if request is None else request.begin(run.runner)
        if request is None or samples is None:
            return None
        context, why_not = _context(run)
        if context is not None and not _is_capturing():
            attachment = _Attachment(context, request, samples)
            # One step, because two threads may run it at once.
            if self._attached.setdefault(id(context), attachment) is not attachment:
                return None
            why_not = attachment.attach()
            if why_not is None:
                return attachment
            self._attached.pop(id(context), None)
        if why_not is not None:
            request.refuse(name, samples, why_not)
        return None

    def end(self, token: _Attachment | None, run: RecordedRun) -> None:
        """See `Companion`."""
        if token is None:
            return
        request, samples = token.request, token.samples
        try:
            samples.add(token.give_back())
        finally:
            self._attached.pop(id(token.context), None)
        if samples.is_enough(request.runs):
            samples.is_complete = True
            table = samples.table()
            run.event.additions.update(table)
            if not table:
                request.refuse(_engine_name(run), samples, f"TensorRT reported no layer in {samples.runs} runs")


_TIMED = (phase.EXECUTE, phase.RUN_CONTEXT)


def _engine_name(run: RecordedRun) -> Any:
    if run.event.phase is phase.EXECUTE:
        return run.event.attributes.get(semconv.ENGINE_NAME)
    return reading.text(reading.attribute(reading.attribute(run.runner, "engine"), "name"))


def _context(run: RecordedRun) -> tuple[Any, str | None]:
    """The execution context of a run, if it has one yet, and why its layers cannot be timed.

    Torch-TensorRT's engine makes its context when the property `context` is first read; the field is `_context`
    (torch_tensorrt/dynamo/runtime/_TRTEngine.py). The module of earlier versions has it as `context`.
    """
    context = run.runner
    if run.event.phase is phase.EXECUTE:
        fields = reading.instance_dict(run.runner)
        field = "_context" if "_context" in fields else "context"
        if field not in fields:
            return None, "Torch-TensorRT's C++ runtime does not hand out its execution context; use the Python runtime"
        uses_graphs = reading.loaded("torch_tensorrt.runtime", "get_cudagraphs_mode")
        if uses_graphs is not None and uses_graphs():
            return None, "Torch-TensorRT replays CUDA graphs, which report nothing; turn them off for these runs"
        context = fields[field]
    return context, None


def _is_capturing() -> bool:
    """Whether the stream is being captured into a CUDA graph, where no one may wait for the device."""
    cuda: Any = sys.modules.get("torch.cuda")
    return cuda is not None and cuda.is_initialized() and bool(cuda.is_current_stream_capturing())


def _interface(context: Any) -> Any:
    """`IProfiler` of the library that made the context. Raises LookupError if it is not loaded."""
    for library in map(sys.modules.get, ("tensorrt", "tensorrt_rtx")):
        if library is not None and isinstance(context, library.IExecutionContext):
            return library.IProfiler
    raise LookupError


@functools.cache
def _profiler_type(interface: Any) -> Any:
    class LayerProfiler(interface):  # type: ignore[misc]
        """TensorRT's interface, which must be initialized by name."""

        def __init__(self, reports: LayerReports) -> None:
            interface.__init__(self)
            self.reports = reports

        def report_layer_time(self, layer_name: Any, ms: Any) -> None:
            self.reports.add(layer_name, ms)

    return LayerProfiler
