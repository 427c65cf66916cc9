# SPDX-License-Identifier: Apache-2.0
"""Times of the layers of an engine, as TensorRT reports them to a profiler.

A profiler is attached to an execution context for one run at a time, so that runs between the requested ones do not wait for the
device. What this relies on:

- `enqueueV3` reports each layer before it returns, unless `enqueue_emits_profile` is False: `IExecutionContext::setEnqueueEmitsProfile`
  in NvInferRuntime.h, `IExecutionContext.report_to_profiler` in the Python API.
- `IExecutionContext.profiler` returns the object that was set: python/src/infer/pyCore.cpp of NVIDIA/TensorRT binds `getProfiler` and
  `setProfiler` as they are. `setProfiler` refuses null: TensorRT-RTX 1.4 logs an error and keeps the profiler. So a context that
  had none keeps that of torchspan, with `enqueue_emits_profile` False: its runs report nothing and do not wait.
- The context keeps each profiler that it has had until its own end (`py::keep_alive`), so that of torchspan gives up what it has
  gathered, and forwards what it still gets.
- What a profiler raises ends in `PyProfiler::reportLayerTime` there, which writes it to stderr.
"""

from __future__ import annotations

import functools
import sys
from array import array
from threading import get_ident
from typing import Any, NamedTuple

from torchspan.base import reading
from torchspan.base.by_identity import ByIdentity
from torchspan.base.forks import in_each_child
from torchspan.base.logs import Log
from torchspan.engine import Event, Listener, ObservedRun
from torchspan.words import phase, semconv

logger = Log("torchspan")

EACH = "*"
"""The name that stands for each engine."""
MOST_RUNS = 10_000
"""Most runs of a request."""
REQUESTS_LIMIT = 100
"""Most names with a request. The oldest yields."""
TIMES_LIMIT = 500_000
"""Most times of layers of an engine: sorting more of them would delay the program."""
SHOWN = 40
"""Most layers of a table."""
_NAME_LENGTH = 1_000
_LONGEST_MS = 86_400_000.0


class LayerReports:
    """What TensorRT reports of one run: the part of a profiler that is torchspan's own.

    Args:
        previous: The profiler that the context had, which receives every report.
    """

    def __init__(self, previous: Any) -> None:
        super().__init__()
        self._previous = previous
        self._thread: int | None = get_ident()
        self.ms: dict[str, float] = {}
        self.is_silenced = False
        """Whether it stayed on its context, with `enqueue_emits_profile` False."""

    def report_layer_time(self, layer_name: Any, ms: Any) -> None:
        """TensorRT calls it. Raises what the previous profiler raises."""
        # Another thread may run the same context.
        if get_ident() == self._thread and type(layer_name) is str and type(ms) is float and 0 <= ms <= _LONGEST_MS:
            name = layer_name[:_NAME_LENGTH]
            self.ms[name] = self.ms.get(name, 0.0) + ms
        if self._previous is not None:
            self._previous.report_layer_time(layer_name, ms)

    def detach(self, context: Any) -> None:
        """Restore the previous profiler, unless the program has set another one. From now on, reports are forwarded alone.

        Without a previous profiler, this one stays, and the context reports nothing to it.
        """
        self._thread = None
        if context.profiler is not self:
            return
        if self._previous is None:
            context.enqueue_emits_profile = False
            self.is_silenced = True
        else:
            context.profiler = self._previous


class LayerSamples:
    """The layer times of an engine in its timed runs."""

    def __init__(self) -> None:
        self.runs = 0
        """How many runs had a profiler of torchspan."""
        self.is_complete = False
        self.count = 0
        """How many times there are."""
        self._timed = 0
        self._ms: dict[str, array[float]] = {}

    def add(self, reports: LayerReports) -> None:
        """Add one run, whose reports are needed no longer."""
        ms, reports.ms = reports.ms, {}
        self.runs += 1
        self._timed += bool(ms)
        self.count += len(ms)
        for name, layer_ms in ms.items():
            self._ms.setdefault(name, array("d")).append(layer_ms)

    def table(self) -> dict[str, Any]:
        """The attributes of the span; none if no layer was reported."""
        from statistics import median  # 3 ms, for what most programs never ask for

        if not self._timed:
            return {}
        medians = sorted(((name, median(ms)) for name, ms in self._ms.items()), key=lambda layer: -layer[1])
        shown, omitted = medians[:SHOWN], [ms for _, ms in medians[SHOWN:]]
        sum_ms = sum(ms for _, ms in medians)
        table: dict[str, Any] = {
            semconv.LAYER_NAMES: [name for name, _ in shown],
            semconv.LAYER_DURATIONS: [round(ms / 1000, 9) for _, ms in shown],
            semconv.LAYER_SHARES: [round(ms / sum_ms, 6) if sum_ms else 0.0 for _, ms in shown],
            semconv.LAYER_RUNS: self._timed,
        }
        if omitted:
            table[semconv.LAYERS_OMITTED] = len(omitted)
            table[semconv.LAYERS_OMITTED_DURATION] = round(sum(omitted) / 1000, 9)
        return table


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


_ATTACHED: dict[int, ObservedRun] = {}
"""The runs with a profiler of torchspan, by the addresses of their contexts."""
in_each_child(_ATTACHED.clear)


def request_layers(name: str, runs: int) -> None:
    """Time the layers of the engines of this name, from now on. Replaces an earlier request for the name."""
    _REQUESTS.pop(name, None)
    _REQUESTS[name] = LayerRequest(runs)
    if len(_REQUESTS) > REQUESTS_LIMIT:
        _REQUESTS.pop(next(iter(_REQUESTS)), None)


class TimedRun(NamedTuple):
    """A run during which a profiler of torchspan is on a context."""

    context: Any
    profiler: LayerReports
    request: LayerRequest
    samples: LayerSamples


_TIMED = (phase.EXECUTE, phase.RUN_CONTEXT)


class LayerTimes(Listener):
    """Attaches profilers to the runs that were asked for, and puts the table on the last of them.

    Args:
        setting: The setting `layers`: `off`, or `NAME:RUNS`.
    """

    name = "timing layers"
    phases = frozenset(_TIMED)
    is_innermost = True

    def __init__(self, setting: str) -> None:
        _REQUESTS.clear()
        if setting != "off":
            name, _, runs = setting.rpartition(":")
            request_layers(name, int(runs))

    def open(self, event: Event) -> TimedRun | None:
        """See `Listener`."""
        run = event.observed
        if not _REQUESTS or not event.is_sampled or type(run) is not ObservedRun:
            return None
        name = _engine_name(event, run)
        request = _REQUESTS.get(name) or _REQUESTS.get(EACH)
        samples = None if request is None else request.begin(run.runner)
        if request is None or samples is None:
            return None
        context, why_not = _context(event, run)
        # One step, because two threads may run it at once.
        if context is not None and not _is_capturing() and _ATTACHED.setdefault(id(context), run) is run:
            try:
                if context.enqueue_emits_profile or _is_silenced(context.profiler):
                    return TimedRun(context, _attached_to(context), request, samples)
                why_not = "enqueue_emits_profile of its execution context is False; set it to True"
            except Exception as error:
                why_not = f"its execution context takes no profiler ({reading.class_name(type(error))})"
            _ATTACHED.pop(id(context), None)
        if why_not is not None:
            request.refuse(name, samples, why_not)
        return None

    def leave(self, event: Event, token: TimedRun | None) -> None:
        """See `Listener`."""
        if token is None:
            return
        context, profiler, request, samples = token
        try:
            profiler.detach(context)
        finally:
            _ATTACHED.pop(id(context), None)
            samples.add(profiler)
        if samples.runs >= request.runs or samples.count >= TIMES_LIMIT:
            samples.is_complete = True
            table = samples.table()
            event.additions.update(table)
            if not table:
                request.refuse(
                    _engine_name(event, event.observed), samples, f"TensorRT reported no layer in {samples.runs} runs"
                )


def _engine_name(event: Event, run: Any) -> Any:
    if event.phase is phase.EXECUTE:
        return event.attributes.get(semconv.ENGINE_NAME)
    return reading.text(reading.attribute(reading.attribute(run.runner, "engine"), "name"))


def _context(event: Event, run: ObservedRun) -> tuple[Any, str | None]:
    """The execution context of a run, if it has one yet, and why its layers cannot be timed.

    Torch-TensorRT's engine makes its context when the property `context` is first read; the field is `_context`
    (torch_tensorrt/dynamo/runtime/_TRTEngine.py). The module of earlier versions has it as `context`.
    """
    if event.phase is phase.RUN_CONTEXT:
        return run.runner, None
    fields = reading.instance_dict(run.runner)
    field = "_context" if "_context" in fields else "context"
    if field not in fields:
        return None, "Torch-TensorRT's C++ runtime does not hand out its execution context"
    uses_graphs = reading.loaded("torch_tensorrt.runtime", "get_cudagraphs_mode")
    if uses_graphs is not None and uses_graphs():
        return None, "Torch-TensorRT replays CUDA graphs, which report nothing; turn them off for these runs"
    return fields[field], None


def _is_capturing() -> bool:
    """Whether the stream is being captured into a CUDA graph, where no one may wait for the device."""
    cuda: Any = sys.modules.get("torch.cuda")
    return cuda is not None and cuda.is_initialized() and bool(cuda.is_current_stream_capturing())


def _attached_to(context: Any) -> LayerReports:
    """A new profiler, attached to `context`. Raises what the context raises."""
    libraries = filter(None, map(sys.modules.get, ("tensorrt", "tensorrt_rtx")))
    interface = next(library.IProfiler for library in libraries if isinstance(context, library.IExecutionContext))
    previous = context.profiler
    profiler: LayerReports = _profiler_type(interface)(None if _is_silenced(previous) else previous)
    context.profiler = profiler
    if _is_silenced(previous):
        context.enqueue_emits_profile = True
    return profiler


def _is_silenced(profiler: Any) -> bool:
    """Whether it is one of torchspan that stayed on a context without another."""
    return isinstance(profiler, LayerReports) and profiler.is_silenced


@functools.cache
def _profiler_type(interface: type) -> Any:
    return type("LayerProfiler", (LayerReports, interface), {})
