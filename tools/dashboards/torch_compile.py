# SPDX-License-Identifier: Apache-2.0
"""torch.compile: frames, the reasons of recompilations and graph breaks, and the durations."""

from dashboards import compiles, traceql
from dashboards.frame import at_least, framed, percentile, services
from dashboards.panels import (
    COUNT,
    SECONDS,
    SHARE,
    Query,
    Source,
    bars,
    figure,
    found,
    in_all,
    lines,
    percentiles,
)
from dashboards.promql import INTERVAL, RANGE, Matches, label, measured
from torchspan import phase
from torchspan.words import semconv

_FRAMES = measured(semconv.METRIC_FRAME_DURATION)
_BACKWARDS = measured(semconv.METRIC_BACKWARD_DURATION)
_PHASES = measured(semconv.METRIC_COMPILE_PHASE_DURATION)
_TORCH_PHASES = measured(semconv.METRIC_TORCH_PHASE_DURATION)
_RECOMPILES = measured(semconv.METRIC_RECOMPILES)
_BREAKS = measured(semconv.METRIC_GRAPH_BREAKS)
_LIMITS = measured(semconv.METRIC_RECOMPILE_LIMITS)
_CACHES = {
    "AOTAutograd": (measured(semconv.METRIC_AOTAUTOGRAD_CACHE), semconv.AOTAUTOGRAD_CACHE),
    "Inductor": (measured(semconv.METRIC_INDUCTOR_CACHE), semconv.INDUCTOR_CACHE),
}

_COLORS = {"compiled": "green", "skipped": "yellow", "limit": "orange", "fallen_back": "orange", "failed": "red"}
_USED = Matches("hit|miss")
_LEFT = {semconv.PHASE: Matches(f"{phase.COMPILE_WAIT.name}|{phase.COMPILE_WORKER.name}")}
_OF_CODE = (semconv.CODE_FUNCTION, semconv.CODE_FILE, semconv.CODE_LINE)


def made():
    """The dashboard."""
    return framed(
        "torchspan-torch-compile",
        "torch.compile",
        "Frames that torch.compile compiled, with any backend: how the compilations ended, why frames were compiled again, why graphs "
        "broke, and how long compilations took.",
        services(f"{_FRAMES.name}_count"),
        percentile(),
        at_least(),
        since="now-24h",
        rows={
            "Outcome": _outcomes(),
            "Recompilations and graph breaks": _reasons(),
            "Duration": _durations(),
            "Caches": _caches(),
            "Traces": _traces(),
        },
    )


def _outcomes():
    outcome = _legend(semconv.FRAME_OUTCOME)
    yield in_all(
        "Frames",
        "Frames whose compilation ended within the time range, by outcome: `compiled`; `skipped` (Dynamo gave up on the frame, which runs "
        "eagerly); `limit` (the recompile limit was reached); `fallen_back` (a failure was caught, and the frame runs eagerly); `failed` "
        "(the call raised an exception).",
        Source.TORCHSPAN,
        COUNT,
        Query(_FRAMES.counted(RANGE, by=[semconv.FRAME_OUTCOME]), outcome),
        colors=_COLORS,
        width=8,
    )
    yield bars(
        "Frames over time",
        "Frames whose compilation ended in each interval, by outcome.",
        Source.TORCHSPAN,
        Query(_FRAMES.counted(INTERVAL, by=[semconv.FRAME_OUTCOME]), outcome),
        colors=_COLORS,
        width=8,
    )
    yield compiles.while_serving()
    yield figure(
        "Recompile limits reached",
        "Frames that have reached a recompile limit of `torch._dynamo.config`. Calls for which nothing was compiled run eagerly from "
        "then on.",
        Source.TORCHSPAN,
        COUNT,
        Query(_LIMITS.counted(RANGE, by=[semconv.RECOMPILE_LIMIT]), _legend(semconv.RECOMPILE_LIMIT)),
        alarming=1,
        width=4,
    )


def _reasons():
    guard, reason = _legend(semconv.RECOMPILE_CLASS), _legend(semconv.GRAPH_BREAK_CLASS)
    yield in_all(
        "Recompilations",
        "Frames that were to be compiled again because a guard failed, by what the guard concerns. Frames that had reached the recompile "
        "limit are included.",
        Source.TORCHSPAN,
        COUNT,
        Query(_RECOMPILES.counted(RANGE, by=[semconv.RECOMPILE_CLASS]), guard),
        width=8,
    )
    yield bars(
        "Recompilations over time",
        "Frames that were to be compiled again in each interval, by what the failed guard concerns.",
        Source.TORCHSPAN,
        Query(_RECOMPILES.counted(INTERVAL, by=[semconv.RECOMPILE_CLASS]), guard),
        width=16,
    )
    yield in_all(
        "Graph breaks",
        "Graph breaks by class, including those that leave a whole frame to Python. `requested` and `disabled` mean that the program "
        "asked for the graph break.",
        Source.TORCHSPAN,
        COUNT,
        Query(_BREAKS.counted(RANGE, by=[semconv.GRAPH_BREAK_CLASS]), reason),
        width=8,
    )
    yield bars(
        "Graph breaks over time",
        "Graph breaks in each interval, by class.",
        Source.TORCHSPAN,
        Query(_BREAKS.counted(INTERVAL, by=[semconv.GRAPH_BREAK_CLASS]), reason),
        width=16,
    )


def _durations():
    yield lines(
        "Duration of frames",
        "Percentiles of the duration of the compilation of frames, from tracing to the compiled code, in each interval. A dot is an "
        "exemplar, which links to its trace.",
        Source.TORCHSPAN,
        SECONDS,
        *percentiles(_FRAMES, INTERVAL),
    )
    yield lines(
        "Duration of backward graphs",
        "Percentiles, in each interval, of the duration of the compilation of backward graphs that were compiled when they first ran.",
        Source.TORCHSPAN,
        SECONDS,
        *percentiles(_BACKWARDS, INTERVAL),
    )
    of_phase = _legend(semconv.COMPILE_PHASE_NAME)
    yield lines(
        "Duration by phase",
        "The chosen percentile of the duration of each phase of Dynamo, AOTAutograd and Inductor in each interval. Only phases of at least "
        "1 ms count. Phases are nested, as spans are.",
        Source.TORCHSPAN,
        SECONDS,
        Query(_PHASES.quantile("$percentile", INTERVAL, by=[semconv.COMPILE_PHASE_NAME]), of_phase, exemplars=True),
    )
    yield in_all(
        "Time by phase",
        "Total duration of each phase of Dynamo, AOTAutograd and Inductor, in seconds. Only phases of at least 1 ms count. Phases are "
        "nested, so they do not add up to the duration of frames.",
        Source.TORCHSPAN,
        SECONDS,
        Query(_PHASES.added_up(RANGE, by=[semconv.COMPILE_PHASE_NAME]), of_phase),
        width=12,
    )
    yield lines(
        "Compilations in progress",
        "Frames and backward graphs that are being compiled. If a process is killed, its compilations are shown for five more minutes, "
        "until the Collector drops its series.",
        Source.TORCHSPAN,
        COUNT,
        Query(measured(semconv.METRIC_FRAMES_ACTIVE).now(), "in progress"),
        width=8,
    )
    yield lines(
        "Longest compilation in progress",
        "Time for which the longest-running compilation of a frame or a backward graph has been running.",
        Source.TORCHSPAN,
        SECONDS,
        Query(measured(semconv.METRIC_FRAMES_LONGEST).now(function="max"), "longest"),
        width=8,
    )
    yield in_all(
        "Waits and workers",
        "Total duration, in seconds, of waits of threads for another thread's compilation (`torch.compile_wait`), and of the work of "
        "Inductor's threads and processes (`torch.compile_worker`). They run at the same time.",
        Source.TORCHSPAN,
        SECONDS,
        Query(_TORCH_PHASES.added_up(RANGE, by=[semconv.PHASE], where=_LEFT), _legend(semconv.PHASE)),
        width=8,
    )


def _caches():
    yield figure(
        "Cache hit ratio",
        "Share of the graphs looked up in the caches of AOTAutograd and Inductor that were taken from them. Graphs that a cache does not "
        "accept do not count.",
        Source.TORCHSPAN,
        SHARE,
        *(Query(_hit_ratio(*each), name) for name, each in _CACHES.items()),
        nothing="no lookups",
        width=8,
    )
    for name, (lookups, result) in _CACHES.items():
        yield in_all(
            f"Lookups in {name}'s cache",
            f"Graphs looked up in {name}'s cache, by result: `bypass` means that the cache does not accept the graph.",
            Source.TORCHSPAN,
            COUNT,
            Query(lookups.counted(RANGE, by=[result]), _legend(result)),
            width=8,
        )


def _hit_ratio(lookups, result):
    hits, used = (lookups.counted(RANGE, where={result: each}) for each in ("hit", _USED))
    return f"({hits} or 0 * {used}) / ({used} > 0)"


def _traces():
    yield found(
        "Frames that were compiled again",
        "Frames that were to be compiled again, with the guard that failed; the span's id links to the trace. Tempo finds at most 100.",
        _frames(f"{traceql.key(semconv.RECOMPILE_CLASS)} != nil")
        + traceql.shown(*_OF_CODE, semconv.RECOMPILE_CLASS, semconv.RECOMPILE_REASON, semconv.FRAME_OUTCOME),
    )
    yield found(
        "Frames whose graph broke",
        "Frames with a graph break; the span's id links to the trace, where each break is an event with its reason and its line. Tempo "
        "finds at most 100.",
        _frames(f"{traceql.key(semconv.GRAPH_BREAK_CLASSES)} != nil")
        + traceql.shown(*_OF_CODE, semconv.GRAPH_BREAK_CLASSES, semconv.FRAME_OUTCOME),
    )
    yield found(
        "Slowest frames",
        "Frames, longest first; the span's id links to the trace. Tempo finds at most 100 of the frames that took at least the time "
        "chosen above, and not always the longest: raise the time until it finds fewer.",
        _frames("duration >= $at_least") + traceql.shown(*_OF_CODE, semconv.COMPILE_ID, semconv.FRAME_OUTCOME),
    )


def _frames(condition):
    return f"{traceql.spans(phase.COMPILE_FRAME, condition)} "


def _legend(key):
    return f"{{{{{label(key)}}}}}"
