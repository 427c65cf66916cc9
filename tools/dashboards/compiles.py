# SPDX-License-Identifier: Apache-2.0
"""Compiles: what compilations did, where their time went and why work runs in PyTorch."""

from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.models.dashboard import VariableOption

from dashboards import panels, traceql
from dashboards.frame import framed, with_services
from dashboards.panels import BYTES, COUNT, SECONDS, SHARE, Query, Source, figure, in_all, over_time
from dashboards.promql import INTERVAL, RANGE, Matches, counted, label, now, quantile
from torchspan import phase, semconv

_PERCENTILES = ("0.5", "0.95", "0.99")
_ASKED = {semconv.CACHE_RESULT: Matches("hit|miss|rejected")}
_FAILED = {semconv.ERROR_TYPE: Matches(".+")}
_SUCCEEDED = {semconv.ERROR_TYPE: ""}


def made():
    """The dashboard."""
    board = framed(
        "torchspan-compiles",
        "Compiles",
        "What Torch-TensorRT compiled, how long it took, and what runs in PyTorch and why.",
        since="now-24h",
        every="1m",
    )
    board = with_services(board, [semconv.METRIC_COMPILE_DURATION])
    board.with_variable(
        dashboard.CustomVariable("percentile").label("Percentile").values("0.5,0.9,0.95,0.99").current(_option("0.95"))
    )
    for title, drawn in (
        ("Compilations", _compilations()),
        ("Duration", _durations()),
        ("Engines and their cache", _engines()),
        ("Work left in PyTorch", _fallback()),
        ("Traces", _traces()),
    ):
        board.with_row(dashboard.Row(title))
        for each in drawn:
            board.with_panel(each)
    return board


def _compilations():
    metric = semconv.METRIC_COMPILE_DURATION
    yield in_all(
        "Compilations",
        "Compilations that ended within the time range, by outcome.",
        Source.TORCHSPAN,
        COUNT,
        Query(counted(metric, RANGE, part="count", where=_SUCCEEDED), "succeeded"),
        Query(counted(metric, RANGE, part="count", where=_FAILED), "failed"),
    )
    yield over_time(
        "Compilations over time",
        "Compilations that ended in each interval, by outcome.",
        Source.TORCHSPAN,
        COUNT,
        Query(counted(metric, INTERVAL, part="count", where=_SUCCEEDED), "succeeded"),
        Query(counted(metric, INTERVAL, part="count", where=_FAILED), "failed"),
        stacked=True,
        width=8,
    )
    serving = label(semconv.SERVING_KIND)
    yield figure(
        "Compiled while serving",
        "Compilations for which a request may have waited: they began below a SERVER span, or after `torchspan.mark_ready()`. "
        "A recompilation is one of a frame that Dynamo had compiled before.",
        Source.TORCHSPAN,
        COUNT,
        Query(counted(semconv.METRIC_WHILE_SERVING, RANGE, by=[semconv.SERVING_KIND]), f"{{{{{serving}}}}}"),
        alarming=1,
        width=4,
    )
    yield over_time(
        "Builds in progress",
        "Compilations, and engine builds outside of one, that run now. What a process that was killed had running stays for "
        "five minutes, until the Collector drops its series.",
        Source.TORCHSPAN,
        COUNT,
        Query(now(semconv.METRIC_BUILD_ACTIVE), "in progress"),
        width=6,
    )


def _durations():
    yield over_time(
        "Duration of compilations",
        "Percentiles of how long compilations took, failed ones included. Dots are exemplars: each leads to its trace.",
        Source.TORCHSPAN,
        SECONDS,
        *(
            Query(quantile(each, semconv.METRIC_COMPILE_DURATION, INTERVAL), f"p{float(each) * 100:g}", exemplars=True)
            for each in _PERCENTILES
        ),
    )
    by_phase = f"{{{{{label(semconv.PHASE)}}}}}"
    yield over_time(
        "Duration by phase",
        "The chosen percentile of how long each phase took. Phases lie inside each other, as spans do.",
        Source.TORCHSPAN,
        SECONDS,
        Query(
            quantile("$percentile", semconv.METRIC_PHASE_DURATION, INTERVAL, by=[semconv.PHASE]),
            by_phase,
            exemplars=True,
        ),
    )
    yield in_all(
        "Time by phase",
        "Seconds that each phase took in all. Phases lie inside each other, so they do not add up to the time of compilations.",
        Source.TORCHSPAN,
        SECONDS,
        Query(counted(semconv.METRIC_PHASE_DURATION, RANGE, part="sum", by=[semconv.PHASE]), by_phase),
        width=24,
    )


def _engines():
    size = semconv.METRIC_ENGINE_BUILD_SIZE
    yield figure(
        "Engines",
        "Engines that were built or taken from the engine cache.",
        Source.TORCHSPAN,
        COUNT,
        Query(counted(size, RANGE, part="count"), "engines"),
        width=4,
    )
    yield over_time(
        "Size of engines",
        "Percentiles of the bytes of engines that were built or taken from the engine cache.",
        Source.TORCHSPAN,
        BYTES,
        *(Query(quantile(each, size, INTERVAL), f"p{float(each) * 100:g}", exemplars=True) for each in _PERCENTILES),
        width=8,
    )
    lookups = semconv.METRIC_CACHE_LOOKUPS
    yield figure(
        "Cache hit ratio",
        "Share of the engines looked for in the engine cache that were found there and used. Rejected entries count as not "
        "found; conversions without a cache do not count.",
        Source.TORCHSPAN,
        SHARE,
        Query(
            f"{counted(lookups, RANGE, where={semconv.CACHE_RESULT: 'hit'})} / {counted(lookups, RANGE, where=_ASKED)}",
            "hits",
        ),
        width=4,
    )
    result, reason = label(semconv.CACHE_RESULT), label(semconv.CACHE_REASON)
    yield in_all(
        "Cache lookups",
        "Engines looked for in the engine cache, by result and, where there is one, its reason.",
        Source.TORCHSPAN,
        COUNT,
        Query(
            counted(lookups, RANGE, by=[semconv.CACHE_RESULT, semconv.CACHE_REASON]),
            f"{{{{{result}}}}} {{{{{reason}}}}}",
        ),
        width=8,
    )


def _fallback():
    reason = f"{{{{{label(semconv.FALLBACK_REASON_CLASS)}}}}}"
    yield in_all(
        "Operators in PyTorch",
        "Operators that were to run in TensorRT and run in PyTorch, by the class of the reason.",
        Source.TORCHSPAN,
        COUNT,
        Query(
            counted(
                semconv.METRIC_FALLBACK_OPERATORS, RANGE, by=[semconv.FALLBACK_REASON_CLASS], where=_SUCCEEDED
            ),
            reason,
        ),
        width=12,
    )
    yield in_all(
        "Subgraphs in PyTorch",
        "Pieces of graphs that run in PyTorch, by the class of the reason of most of their operators.",
        Source.TORCHSPAN,
        COUNT,
        Query(counted(semconv.METRIC_FALLBACK_SUBGRAPHS, RANGE, by=[semconv.FALLBACK_REASON_CLASS]), reason),
        width=12,
    )


def _traces():
    shown = (semconv.MODEL_CLASS, semconv.ENTRY_POINT, semconv.ENGINE_COUNT, semconv.COVERAGE)
    yield panels.spans(
        "Slowest compilations",
        "The longest of the compilations found, each with a link to its trace. Tempo finds at most 100 in the time range.",
        f"{traceql.spans(phase.COMPILE)} {traceql.select(*shown)}",
        sort_by="Duration",
        limit=100,
    )


def _option(value):
    return VariableOption(text=value, value=value)
