# SPDX-License-Identifier: Apache-2.0
"""Compiles: the outcome and the duration of compilations, and the reasons why work runs in PyTorch."""

from dashboards import traceql
from dashboards.frame import at_least, framed, percentile, services
from dashboards.panels import (
    BYTES,
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
from torchspan.words import phase, semconv

_COMPILATIONS = measured(semconv.METRIC_COMPILE_DURATION)
_PHASES = measured(semconv.METRIC_PHASE_DURATION)
_TORCH_PHASES = measured(semconv.METRIC_TORCH_PHASE_DURATION)
_SIZES = measured(semconv.METRIC_ENGINE_BUILD_SIZE)
_LOOKUPS = measured(semconv.METRIC_CACHE_LOOKUPS)

_COLORS = {"complete": "green", "fallback": "orange", "failed": "red"}
_USED = Matches("hit|miss|rejected")
_EXPORTS = {semconv.PHASE: Matches(f"{phase.EXPORT.name}.*")}
_SUCCEEDED = {semconv.ERROR_TYPE: ""}


def made():
    """The dashboard."""
    return framed(
        "torchspan-compiles",
        "Compiles",
        "What Torch-TensorRT compiled, how long it took, and which work runs in PyTorch, with the reasons.",
        services(f"{_COMPILATIONS.name}_count"),
        percentile(),
        at_least(),
        since="now-24h",
        rows={
            "Outcome": _outcomes(),
            "Duration": _durations(),
            "Engines and their cache": _engines(),
            "Work left in PyTorch": _fallback(),
            "Traces": _traces(),
        },
    )


def while_serving():
    """The panel that counts compilations for which a request may have waited, by Torch-TensorRT and by torch.compile."""
    return figure(
        "Compiled while serving",
        "Compilations for which a request may have waited: they began below a SERVER span, or after `torchspan.mark_ready()`. "
        "`torch.compile_frame` is a frame of torch.compile, whatever its backend. A recompilation is the compilation of a frame that "
        "Dynamo had compiled before.",
        Source.TORCHSPAN,
        COUNT,
        Query(
            measured(semconv.METRIC_SERVING_COMPILATIONS).counted(RANGE, by=[semconv.PHASE, semconv.SERVING_KIND]),
            f"{{{{{label(semconv.PHASE)}}}}} {{{{{label(semconv.SERVING_KIND)}}}}}",
        ),
        alarming=1,
        width=4,
    )


def _outcomes():
    outcome = f"{{{{{label(semconv.COMPILE_OUTCOME)}}}}}"
    yield in_all(
        "Compilations",
        "Compilations that ended within the time range, by outcome: `complete`, `fallback` (work that was to run in TensorRT runs "
        "in PyTorch) and `failed`.",
        Source.TORCHSPAN,
        COUNT,
        Query(_COMPILATIONS.counted(RANGE, by=[semconv.COMPILE_OUTCOME]), outcome),
        colors=_COLORS,
    )
    yield bars(
        "Compilations over time",
        "Compilations that ended in each interval, by outcome.",
        Source.TORCHSPAN,
        Query(_COMPILATIONS.counted(INTERVAL, by=[semconv.COMPILE_OUTCOME]), outcome),
        colors=_COLORS,
        width=8,
    )
    yield while_serving()
    yield lines(
        "Builds in progress",
        "Compilations by Torch-TensorRT, and engine builds outside a compilation, that are running. If a process is killed, its builds are shown for five "
        "more minutes, until the Collector drops its series.",
        Source.TORCHSPAN,
        COUNT,
        Query(measured(semconv.METRIC_BUILD_ACTIVE).now(), "in progress"),
        width=6,
    )


def _durations():
    yield lines(
        "Duration of compilations",
        "Percentiles of the duration of compilations in each interval, including failed ones. A dot is an exemplar, which links to its "
        "trace.",
        Source.TORCHSPAN,
        SECONDS,
        *percentiles(_COMPILATIONS, INTERVAL),
    )
    of_phase = f"{{{{{label(semconv.PHASE)}}}}}"
    yield lines(
        "Duration by phase",
        "The chosen percentile of the duration of each phase of Torch-TensorRT, TensorRT and torch.export in each interval. Phases are "
        "nested, as spans are.",
        Source.TORCHSPAN,
        SECONDS,
        Query(_PHASES.quantile("$percentile", INTERVAL, by=[semconv.PHASE]), of_phase, exemplars=True),
        Query(
            _TORCH_PHASES.quantile("$percentile", INTERVAL, by=[semconv.PHASE], where=_EXPORTS),
            of_phase,
            exemplars=True,
        ),
    )
    yield in_all(
        "Time by phase",
        "Total duration of each phase of Torch-TensorRT, TensorRT and torch.export, in seconds. Phases are nested, so they do not add up "
        "to the duration of compilations.",
        Source.TORCHSPAN,
        SECONDS,
        Query(_PHASES.added_up(RANGE, by=[semconv.PHASE]), of_phase),
        Query(_TORCH_PHASES.added_up(RANGE, by=[semconv.PHASE], where=_EXPORTS), of_phase),
        width=18,
    )
    yield lines(
        "Longest build in progress",
        "Time for which the longest-running compilation or engine build in progress has been running.",
        Source.TORCHSPAN,
        SECONDS,
        Query(measured(semconv.METRIC_BUILD_LONGEST).now(function="max"), "longest"),
        width=6,
    )


def _engines():
    yield figure(
        "Engines",
        "Engines that were built or taken from the engine cache.",
        Source.TORCHSPAN,
        COUNT,
        Query(_SIZES.counted(RANGE), "engines"),
        width=4,
    )
    yield figure(
        "Bytes of engines",
        "Total size of all engines that were built or taken from the engine cache.",
        Source.TORCHSPAN,
        BYTES,
        Query(_SIZES.added_up(RANGE), "bytes"),
        width=4,
    )
    yield lines(
        "Size of engines",
        "Percentiles of the size of the engines that were built or taken from the engine cache, in each interval.",
        Source.TORCHSPAN,
        BYTES,
        *percentiles(_SIZES, INTERVAL),
        width=16,
    )
    hits = _LOOKUPS.counted(RANGE, where={semconv.CACHE_RESULT: "hit"})
    used = _LOOKUPS.counted(RANGE, where={semconv.CACHE_RESULT: _USED})
    yield figure(
        "Cache hit ratio",
        "Share of the engines looked up in the engine cache that were taken from it. Rejected entries count as not found; "
        "conversions for which the cache was disabled do not count.",
        Source.TORCHSPAN,
        SHARE,
        Query(f"({hits} or 0 * {used}) / ({used} > 0)", "hits"),
        nothing="no lookups",
        width=4,
    )
    result, reason = (f"{{{{{label(each)}}}}}" for each in (semconv.CACHE_RESULT, semconv.CACHE_REASON))
    yield in_all(
        "Cache lookups",
        "Engines looked up in the engine cache, by result and, if the result has one, by reason.",
        Source.TORCHSPAN,
        COUNT,
        Query(_LOOKUPS.counted(RANGE, by=[semconv.CACHE_RESULT, semconv.CACHE_REASON]), f"{result} {reason}"),
        width=8,
    )
    of_lookups = {semconv.PHASE: phase.CACHE_LOOKUP.name}
    yield in_all(
        "Cost of cache lookups",
        "Mean duration of an engine-cache lookup, by result. A hit includes the refit of the engine with this model's weights.",
        Source.TORCHSPAN,
        SECONDS,
        Query(
            f"{_PHASES.added_up(RANGE, by=[semconv.CACHE_RESULT], where=of_lookups)} / "
            f"({_PHASES.counted(RANGE, by=[semconv.CACHE_RESULT], where=of_lookups)} > 0)",
            result,
        ),
        width=6,
    )
    yield lines(
        "Duration of conversions by cache result",
        "The chosen percentile of the duration of the conversion of one subgraph to an engine, in each interval: it shows the time that "
        "hits save, and the time that they take.",
        Source.TORCHSPAN,
        SECONDS,
        Query(
            _PHASES.quantile(
                "$percentile",
                INTERVAL,
                by=[semconv.CACHE_RESULT],
                where={semconv.PHASE: Matches("|".join(each.name for each in phase.CONVERSIONS))},
            ),
            result,
            exemplars=True,
        ),
        width=6,
    )


def _fallback():
    reason = f"{{{{{label(semconv.FALLBACK_REASON_CLASS)}}}}}"
    yield in_all(
        "Operators in PyTorch",
        "Operators that were to run in TensorRT but run in PyTorch, by the class of the reason.",
        Source.TORCHSPAN,
        COUNT,
        Query(
            measured(semconv.METRIC_FALLBACK_OPERATORS).counted(
                RANGE, by=[semconv.FALLBACK_REASON_CLASS], where=_SUCCEEDED
            ),
            reason,
        ),
        width=12,
    )
    yield in_all(
        "Subgraphs in PyTorch",
        "Subgraphs that run in PyTorch, by the class of the reason of most of their operators.",
        Source.TORCHSPAN,
        COUNT,
        Query(measured(semconv.METRIC_FALLBACK_SUBGRAPHS).counted(RANGE, by=[semconv.FALLBACK_REASON_CLASS]), reason),
        width=12,
    )


def _traces():
    yield found(
        "Slowest compilations",
        "Compilations, longest first; the span's id links to the trace. Tempo finds at most 100 of the compilations that took at least "
        "the time chosen above, and not always the longest: raise the time until it finds fewer.",
        f"{traceql.spans(phase.COMPILE, 'duration >= $at_least')} "
        f"{traceql.shown(semconv.MODEL_CLASS, semconv.ENTRY_POINT, semconv.ENGINE_COUNT, semconv.COVERAGE)}",
        shares=[semconv.COVERAGE],
    )
