# SPDX-License-Identifier: Apache-2.0
"""torch.compile: frames, why they were compiled again, where their graphs broke, and where their time went."""

from dashboards import traceql
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
from torchspan import phase, semconv

_FRAMES = measured(semconv.METRIC_FRAME_DURATION)
_BACKWARDS = measured(semconv.METRIC_BACKWARD_DURATION)
_PHASES = measured(semconv.METRIC_COMPILE_PHASE_DURATION)
_RECOMPILES = measured(semconv.METRIC_RECOMPILES)
_BREAKS = measured(semconv.METRIC_GRAPH_BREAKS)
_LIMITS = measured(semconv.METRIC_RECOMPILE_LIMITS)
_CACHES = {
    "AOTAutograd": (measured(semconv.METRIC_AOTAUTOGRAD_CACHE), semconv.AOTAUTOGRAD_CACHE),
    "Inductor": (measured(semconv.METRIC_INDUCTOR_CACHE), semconv.INDUCTOR_CACHE),
}

_COLORS = {"compiled": "green", "skipped": "yellow", "limit": "orange", "fallen_back": "orange", "failed": "red"}
_USED = Matches("hit|miss")
_OF_CODE = (semconv.CODE_FUNCTION, semconv.CODE_FILE, semconv.CODE_LINE)


def made():
    """The dashboard."""
    return framed(
        "torchspan-torch-compile",
        "torch.compile",
        "Frames that torch.compile compiled, whatever the backend: how they ended, why they were compiled again, why their graphs "
        "broke, whether calls find compiled code, and how long it took.",
        services(f"{_FRAMES.name}_count"),
        percentile(),
        at_least(),
        since="now-24h",
        rows={
            "Outcome": _outcomes(),
            "Recompilations and graph breaks": _reasons(),
            "Calls": _calls(),
            "Duration": _durations(),
            "Caches": _caches(),
            "Traces": _traces(),
        },
    )


def _outcomes():
    outcome = _legend(semconv.FRAME_OUTCOME)
    yield in_all(
        "Frames",
        "Frames whose compilation ended within the time range, by outcome: `compiled`; `skipped` (Dynamo gave it up, and it runs "
        "eagerly); `limit` (the recompile limit was reached); `fallen_back` (a failure was caught, and it runs eagerly); `failed` (the call raised).",
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
        width=12,
    )
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
        "Frames that were to be compiled again because a guard failed, by what the guard concerns. Those that had reached the recompile "
        "limit are in it.",
        Source.TORCHSPAN,
        COUNT,
        Query(_RECOMPILES.counted(RANGE, by=[semconv.RECOMPILE_CLASS]), guard),
        width=8,
    )
    yield bars(
        "Recompilations over time",
        "Frames that were to be compiled again in each interval, by what the guard concerns that failed.",
        Source.TORCHSPAN,
        Query(_RECOMPILES.counted(INTERVAL, by=[semconv.RECOMPILE_CLASS]), guard),
        width=16,
    )
    yield in_all(
        "Graph breaks",
        "Graph breaks by their class, those that leave a whole frame to Python included. `requested` and `disabled` are what the program "
        "asked for.",
        Source.TORCHSPAN,
        COUNT,
        Query(_BREAKS.counted(RANGE, by=[semconv.GRAPH_BREAK_CLASS]), reason),
        width=8,
    )
    yield bars(
        "Graph breaks over time",
        "Graph breaks in each interval, by their class.",
        Source.TORCHSPAN,
        Query(_BREAKS.counted(INTERVAL, by=[semconv.GRAPH_BREAK_CLASS]), reason),
        width=16,
    )


def _calls():
    yield bars(
        "Calls of compiled frames",
        "Calls in each interval of frames that had been compiled, by whether compiled code fitted: `hit`, or `miss`, after which the frame "
        "is compiled again or runs eagerly.",
        Source.TORCHSPAN,
        Query(
            measured(semconv.METRIC_GUARD_CHECKS).counted(INTERVAL, by=[semconv.GUARD_CHECK_RESULT]),
            _legend(semconv.GUARD_CHECK_RESULT),
        ),
        colors={"hit": "green", "miss": "orange"},
        width=18,
    )
    yield figure(
        "Calls that ran eagerly",
        "Calls of frames that had been compiled, for which no compiled code fitted and none was compiled: after a recompile limit, or "
        "under the stance `eager_on_recompile`.",
        Source.TORCHSPAN,
        COUNT,
        Query(measured(semconv.METRIC_EAGER_CALLS).counted(RANGE), "eager calls"),
        alarming=1,
        width=6,
    )


def _durations():
    yield lines(
        "Duration of frames",
        "Percentiles of how long frames took, from tracing to the compiled code, in each interval. A dot is an exemplar: it leads to "
        "its trace.",
        Source.TORCHSPAN,
        SECONDS,
        *percentiles(_FRAMES, INTERVAL),
    )
    yield lines(
        "Duration of backward graphs",
        "Percentiles of how long backward graphs took that were compiled when they first ran, in each interval.",
        Source.TORCHSPAN,
        SECONDS,
        *percentiles(_BACKWARDS, INTERVAL),
    )
    of_phase = _legend(semconv.COMPILE_PHASE_NAME)
    yield lines(
        "Duration by phase",
        "The chosen percentile of how long each phase of Dynamo, AOTAutograd and Inductor took, in each interval: phases of at least 1 ms. "
        "Phases lie inside each other, as spans do.",
        Source.TORCHSPAN,
        SECONDS,
        Query(_PHASES.quantile("$percentile", INTERVAL, by=[semconv.COMPILE_PHASE_NAME]), of_phase, exemplars=True),
    )
    yield in_all(
        "Time by phase",
        "Seconds that each phase of Dynamo, AOTAutograd and Inductor took in all: phases of at least 1 ms. Phases lie inside each other, so "
        "they do not add up to the time of frames.",
        Source.TORCHSPAN,
        SECONDS,
        Query(_PHASES.added_up(RANGE, by=[semconv.COMPILE_PHASE_NAME]), of_phase),
        width=12,
    )


def _caches():
    yield figure(
        "Cache hit ratio",
        "Share of the graphs looked for in the caches of AOTAutograd and Inductor that were taken from them. Graphs that a cache does not "
        "take do not count.",
        Source.TORCHSPAN,
        SHARE,
        *(Query(_hit_ratio(*each), name) for name, each in _CACHES.items()),
        nothing="no lookups",
        width=8,
    )
    for name, (lookups, result) in _CACHES.items():
        yield in_all(
            f"Lookups in {name}'s cache",
            f"Graphs looked for in {name}'s cache, by what it answered: `bypass` stands for a graph that it does not take.",
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
        "Frames that were to be compiled again, with the guard that failed; the span's id leads to the trace. Tempo finds at most 100.",
        _frames(f"{traceql.key(semconv.RECOMPILE_CLASS)} != nil")
        + traceql.shown(*_OF_CODE, semconv.RECOMPILE_CLASS, semconv.RECOMPILE_REASON, semconv.FRAME_OUTCOME),
    )
    yield found(
        "Frames whose graph broke",
        "Frames with a graph break; the span's id leads to the trace, where each break is an event with its reason and its line. Tempo "
        "finds at most 100.",
        _frames(f"{traceql.key(semconv.GRAPH_BREAK_CLASSES)} != nil")
        + traceql.shown(*_OF_CODE, semconv.GRAPH_BREAK_CLASSES, semconv.FRAME_OUTCOME),
    )
    yield found(
        "Slowest frames",
        "Frames, the longest first; the span's id leads to the trace. Tempo finds at most 100 of those that took as long as is chosen "
        "above, and not always the longest: raise the time until it finds fewer.",
        _frames("duration >= $at_least") + traceql.shown(*_OF_CODE, semconv.COMPILE_ID, semconv.FRAME_OUTCOME),
    )


def _frames(condition):
    return f"{traceql.spans(phase.COMPILE_FRAME, condition)} "


def _legend(key):
    return f"{{{{{label(key)}}}}}"
