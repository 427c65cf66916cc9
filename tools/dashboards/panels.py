# SPDX-License-Identifier: Apache-2.0
"""Panels that keep the rules: each has a unit, a description that ends with its source, and a legend."""

from dataclasses import dataclass
from enum import Enum

from grafana_foundation_sdk.builders import bargauge, common, dashboard, prometheus, stat, table, tempo, timeseries
from grafana_foundation_sdk.models import common as shapes
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models import prometheus as prometheus_models
from grafana_foundation_sdk.models import tempo as tempo_models

PROMETHEUS = shapes.DataSourceRef(type_val="prometheus", uid="${prometheus}")
TEMPO = shapes.DataSourceRef(type_val="tempo", uid="${tempo}")

COUNT, SECONDS, BYTES, SHARE = "short", "s", "bytes", "percentunit"
"""Grafana's units."""


class Source(Enum):
    """Where the figures of a panel come from; the value is the last sentence of its description."""

    TORCHSPAN = "Source: torchspan's metrics, which count everything, sampled or not."
    SPAN_METRICS = "Source: the Collector's span metrics (metrics.yaml), which count every span that arrives there."
    TRACES = "Source: TraceQL, over the traces that Tempo has; what was sampled away is not in them."
    COLLECTOR = "Source: the Collector's own metrics."


@dataclass(frozen=True)
class Query:
    """PromQL, and what its series are called: `{{label}}` stands for the value of a label."""

    expression: str
    legend: str
    exemplars: bool = False


def over_time(title, description, source, unit, *queries, stacked=False, width=12):
    """Lines over time; bars that stand on each other where `stacked`, for figures that add up."""
    panel = _described(timeseries.Panel(), title, description, source, width, 8).unit(unit).min(0)
    panel.legend(
        common.VizLegendOptions()
        .show_legend(True)
        .display_mode(shapes.LegendDisplayMode.TABLE if len(queries) > 1 else shapes.LegendDisplayMode.LIST)
        .placement(shapes.LegendPlacement.BOTTOM)
        .calcs(["max"] if not stacked else [])
    )
    panel.tooltip(common.VizTooltipOptions().mode(shapes.TooltipDisplayMode.MULTI).sort(shapes.SortOrder.DESCENDING))
    if stacked:
        panel.draw_style(shapes.GraphDrawStyle.BARS).fill_opacity(80).line_width(0)
        panel.stacking(common.StackingConfig().mode(shapes.StackingMode.NORMAL))
    else:
        panel.show_points(shapes.VisibilityMode.AUTO).fill_opacity(5)
    for reference, query in zip("ABCDEFGH", queries, strict=False):
        panel.with_target(_promql(reference, query).range().exemplar(query.exemplars))
    return panel.datasource(PROMETHEUS)


def in_all(title, description, source, unit, *queries, width=6):
    """A bar for each series, over the whole time range."""
    panel = _described(bargauge.Panel(), title, description, source, width, 8).unit(unit).min(0).no_value("0")
    panel.orientation(shapes.VizOrientation.HORIZONTAL).display_mode(shapes.BarGaugeDisplayMode.BASIC)
    panel.show_unfilled(False).value_mode(shapes.BarGaugeValueMode.TEXT)
    panel.legend(
        common.VizLegendOptions()
        .show_legend(True)
        .display_mode(shapes.LegendDisplayMode.LIST)
        .placement(shapes.LegendPlacement.BOTTOM)
        .calcs([])
    )
    panel.reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]).values(False))
    for reference, query in zip("ABCDEFGH", queries, strict=False):
        panel.with_target(_promql(reference, query).instant())
    return panel.datasource(PROMETHEUS)


def figure(title, description, source, unit, *queries, alarming=None, width=6):
    """A large figure for each series, over the whole time range. alarming: from which figure on it is red."""
    panel = _described(stat.Panel(), title, description, source, width, 8).unit(unit).no_value("0")
    panel.text_mode(shapes.BigValueTextMode.VALUE_AND_NAME).graph_mode(shapes.BigValueGraphMode.NONE)
    panel.reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]).values(False))
    if alarming is not None:
        panel.thresholds(
            dashboard.ThresholdsConfig()
            .mode(models.ThresholdsMode.ABSOLUTE)
            .steps([models.Threshold(color="green"), models.Threshold(value=alarming, color="red")])
        )
    for reference, query in zip("ABCDEFGH", queries, strict=False):
        panel.with_target(_promql(reference, query).instant())
    return panel.datasource(PROMETHEUS)


def spans(title, description, query, *, sort_by=None, width=24, limit=20):
    """A table of spans that a TraceQL search finds; the first column is a link to the trace."""
    panel = _described(table.Panel(), title, description, Source.TRACES, width, 9).unit("none")
    if sort_by:
        panel.sort_by([common.TableSortByFieldState().display_name(sort_by).desc(True)])
    panel.with_target(
        _traceql("A", query).table_type(tempo_models.SearchTableType.SPANS).limit(limit).spss(limit)
    )
    return panel.datasource(TEMPO)


def spans_over_time(title, description, unit, query, *, width=12):
    """Lines over time that TraceQL computes from spans."""
    panel = _described(timeseries.Panel(), title, description, Source.TRACES, width, 8).unit(unit).min(0)
    panel.legend(
        common.VizLegendOptions()
        .show_legend(True)
        .display_mode(shapes.LegendDisplayMode.LIST)
        .placement(shapes.LegendPlacement.BOTTOM)
        .calcs([])
    )
    panel.tooltip(common.VizTooltipOptions().mode(shapes.TooltipDisplayMode.MULTI).sort(shapes.SortOrder.DESCENDING))
    panel.with_target(_traceql("A", query).metrics_query_type(tempo_models.MetricsQueryType.RANGE))
    return panel.datasource(TEMPO)


def _described(panel, title, description, source, width, height):
    return panel.title(title).description(f"{description}\n\n{source.value}").span(width).height(height)


def _promql(reference, query):
    return (
        prometheus.Dataquery()
        .ref_id(reference)
        .datasource(PROMETHEUS)
        .editor_mode(prometheus_models.QueryEditorMode.CODE)
        .expr(query.expression)
        .legend_format(query.legend)
    )


def _traceql(reference, query):
    return (
        tempo.Dataquery()
        .ref_id(reference)
        .datasource(TEMPO)
        .query_type(tempo_models.TempoQueryType.TRACEQL)
        .query(query)
    )
