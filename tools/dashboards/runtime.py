# SPDX-License-Identifier: Apache-2.0
"""Runtime: runs of engines and of execution contexts."""

from dashboards import traceql
from dashboards.frame import framed, percentile, services
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
    lines_of_spans,
    percentiles,
)
from dashboards.promql import INTERVAL, RANGE, Matches, label, measured
from torchspan import phase
from torchspan.words import semconv

_RUNS = measured(semconv.METRIC_EXECUTE_DURATION)
_CONTEXT_RUNS = measured(semconv.METRIC_CONTEXT_DURATION)
_FAILED = {semconv.ERROR_TYPE: Matches(".+")}
_NAMED = (traceql.SERVICE, semconv.ENGINE_NAME)


def made():
    """The dashboard."""
    return framed(
        "torchspan-runtime",
        "Runtime",
        "Runs of TensorRT engines, as the host sees them: how many, how long they took, and what failed.",
        services(f"{_RUNS.name}_count", f"{_CONTEXT_RUNS.name}_count"),
        percentile(),
        since="now-6h",
        rows={"All engines": _runs(), "By engine": _by_engine(), "Errors": _errors(), "Sampling": _sampling()},
    )


def _runs():
    yield bars(
        "Runs",
        "Runs that ended in each interval: of Torch-TensorRT's engines, and of execution contexts that programs use directly.",
        Source.TORCHSPAN,
        Query(_RUNS.counted(INTERVAL), "engines"),
        Query(_CONTEXT_RUNS.counted(INTERVAL), "execution contexts"),
        width=8,
    )
    yield lines(
        "Latency of engines",
        "Percentiles of the duration of runs of Torch-TensorRT's engines in each interval, as the host sees it. The device may still be working at the end of a run.",
        Source.TORCHSPAN,
        SECONDS,
        *percentiles(_RUNS, INTERVAL),
        width=8,
    )
    yield lines(
        "Latency of execution contexts",
        "Percentiles of the duration of runs of execution contexts that programs use directly, in each interval, as the host sees it. "
        "The device may still be working at the end of a run.",
        Source.TORCHSPAN,
        SECONDS,
        *percentiles(_CONTEXT_RUNS, INTERVAL),
        width=8,
    )


def _by_engine():
    yield lines_of_spans(
        "Latency by engine",
        "The chosen percentile of the duration of runs with a span, by service and engine. Tempo's percentiles are powers of two of a "
        "nanosecond, or lie between two such powers.",
        SECONDS,
        f"{traceql.spans(phase.EXECUTE)} {traceql.quantile('$percentile', _NAMED)}",
    )
    changed = f"{traceql.key(semconv.EXECUTE_SHAPES_CHANGED)} = true"
    yield lines_of_spans(
        "Shape changes",
        "Runs with a span whose inputs had other shapes than the engine's previous run with a span, by service and engine. Such a run "
        "of an engine with dynamic shapes may be slower.",
        COUNT,
        f"{traceql.spans(phase.EXECUTE, changed)} {traceql.counted(_NAMED)}",
    )


def _errors():
    error = f"{{{{{label(semconv.ERROR_TYPE)}}}}}"
    yield figure(
        "Failed runs",
        "Runs that raised an exception, or that TensorRT reported as failed.",
        Source.TORCHSPAN,
        COUNT,
        Query(_RUNS.counted(RANGE, where=_FAILED), "engines"),
        Query(_CONTEXT_RUNS.counted(RANGE, where=_FAILED), "execution contexts"),
        alarming=1,
        width=4,
    )
    yield in_all(
        "Failed runs by error",
        "Failed runs of engines and of execution contexts, by `error.type`.",
        Source.TORCHSPAN,
        COUNT,
        Query(_RUNS.counted(RANGE, by=[semconv.ERROR_TYPE], where=_FAILED), f"engines: {error}"),
        Query(_CONTEXT_RUNS.counted(RANGE, by=[semconv.ERROR_TYPE], where=_FAILED), f"execution contexts: {error}"),
        width=8,
    )
    yield found(
        "Traces of failed runs",
        "Runs of engines that failed; the span's id links to the trace.",
        f"{traceql.spans(phase.EXECUTE, traceql.FAILED)} {traceql.shown(semconv.ENGINE_NAME, semconv.ERROR_TYPE)}",
        sort_by="Start time",
        width=12,
    )


def _sampling():
    emitted = measured(semconv.METRIC_SPAN_EMITTED)
    yield lines(
        "Sampled share",
        "Share of the runs that have a span, in each interval. Runs without a span are counted on the span around them. The figures "
        "above include all runs.",
        Source.TORCHSPAN,
        SHARE,
        *(
            Query(f"{emitted.counted(INTERVAL, where={semconv.PHASE: of.name})} / ({runs.counted(INTERVAL)} > 0)", name)
            for name, of, runs in (
                ("engines", phase.EXECUTE, _RUNS),
                ("execution contexts", phase.RUN_CONTEXT, _CONTEXT_RUNS),
            )
        ),
        width=24,
    )
