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

COUNT, SECONDS, MILLISECONDS, BYTES, SHARE, NONE = "short", "s", "ms", "bytes", "percentunit", "none"
"""Grafana's units."""

_REFERENCES = "ABCDEFGH"


class Source(Enum):
    """The source of a panel's figures. The value is the last line of the panel's description."""

    TORCHSPAN = "Source: torchspan's metrics, which count everything, sampled or not."
    SPAN_METRICS = "Source: the Collector's span metrics (metrics.yaml), counted before tail sampling."
    TRACES = "Source: TraceQL over the traces in Tempo, without those that were sampled away."
    COLLECTOR = "Source: the Collector's own metrics."
    SDK = "Source: the SDK's own metrics, of all spans of the program. OTEL_PYTHON_SDK_INTERNAL_METRICS_ENABLED=true enables them."


@dataclass(frozen=True)
class Query:
    """A PromQL query, and the name of its series: `{{label}}` is replaced by the value of a label."""

    expression: str
    legend: str
    exemplars: bool = False


def percentiles(histogram, window, *, shares=("0.5", "0.95", "0.99")):
    """A query for each percentile of a histogram, with exemplars."""
    return [Query(histogram.quantile(each, window), f"p{float(each) * 100:g}", exemplars=True) for each in shares]


def lines(title, description, source, unit, *queries, width=12):
    """Lines over time."""
    panel = _over_time(title, description, source, unit, width)
    return _asking(panel, *(_promql(each).range().exemplar(each.exemplars) for each in queries)).datasource(PROMETHEUS)


def bars(title, description, source, *queries, colors=None, width=12):
    """Counts over time: stacked bars of a minute or more each. colors: of series by their names."""
    panel = _colored(_over_time(title, description, source, COUNT, width).interval("1m"), colors)
    panel.draw_style(shapes.GraphDrawStyle.BARS).fill_opacity(80).line_width(0)
    panel.stacking(common.StackingConfig().mode(shapes.StackingMode.NORMAL))
    return _asking(panel, *(_promql(each).range() for each in queries)).datasource(PROMETHEUS)


def in_all(title, description, source, unit, *queries, colors=None, width=6):
    """A bar for each series, over the whole time range. colors: of series by their names."""
    panel = _described(bargauge.Panel(), title, description, source, width).unit(unit).min(0).no_value("0")
    panel.orientation(shapes.VizOrientation.HORIZONTAL).display_mode(shapes.BarGaugeDisplayMode.BASIC)
    panel.show_unfilled(False).value_mode(shapes.BarGaugeValueMode.TEXT).legend(_legend())
    panel.color_scheme(dashboard.FieldColor().mode(models.FieldColorModeId.PALETTE_CLASSIC_BY_NAME))
    _colored(panel, colors)
    panel.reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]).values(False))
    return _asking(panel, *(_promql(each).instant() for each in queries)).datasource(PROMETHEUS)


def figure(title, description, source, unit, *queries, alarming=None, nothing="0", width=6):
    """A large figure for each series, over the whole time range.

    alarming: from which figure on it is red. nothing: what it shows where there is no series.
    """
    panel = _described(stat.Panel(), title, description, source, width).unit(unit).no_value(nothing)
    panel.text_mode(shapes.BigValueTextMode.VALUE_AND_NAME).graph_mode(shapes.BigValueGraphMode.NONE)
    panel.reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]).values(False))
    steps = [models.Threshold(color="blue" if alarming is None else "green")]
    if alarming is not None:
        steps.append(models.Threshold(value=alarming, color="red"))
    panel.thresholds(dashboard.ThresholdsConfig().mode(models.ThresholdsMode.ABSOLUTE).steps(steps))
    return _asking(panel, *(_promql(each).instant() for each in queries)).datasource(PROMETHEUS)


def found(title, description, query, *, shares=(), sort_by="Duration", limit=100, width=24):
    """A table of the spans that a TraceQL search finds; the span's id is a link to its trace.

    shares: attributes between 0 and 1. sort_by: a column, the largest first.
    """
    panel = _described(table.Panel(), title, description, Source.TRACES, width).unit(NONE)
    panel.sort_by([common.TableSortByFieldState().display_name(sort_by).desc(True)])
    for each in shares:
        panel.override_by_name(str(each), [models.DynamicConfigValue(id_val="unit", value=SHARE)])
    spans = _traceql(query).table_type(tempo_models.SearchTableType.SPANS).limit(limit).spss(limit)
    return _asking(panel, spans).datasource(TEMPO)


def lines_of_spans(title, description, unit, query, *, width=12):
    """Lines over time that TraceQL computes from spans."""
    panel = _over_time(title, description, Source.TRACES, unit, width)
    return _asking(panel, _traceql(query).metrics_query_type(tempo_models.MetricsQueryType.RANGE)).datasource(TEMPO)


def _over_time(title, description, source, unit, width):
    panel = _described(timeseries.Panel(), title, description, source, width).unit(unit).min(0).legend(_legend())
    panel.show_points(shapes.VisibilityMode.AUTO).fill_opacity(5)
    return panel.tooltip(
        common.VizTooltipOptions().mode(shapes.TooltipDisplayMode.MULTI).sort(shapes.SortOrder.DESCENDING)
    )


def _colored(panel, colors):
    for name, color in (colors or {}).items():
        fixed = {"mode": "fixed", "fixedColor": color}
        panel.override_by_name(name, [models.DynamicConfigValue(id_val="color", value=fixed)])
    return panel


def _described(panel, title, description, source, width):
    return panel.title(title).description(f"{description}\n\n{source.value}").span(width).height(8)


def _legend():
    return (
        common.VizLegendOptions()
        .show_legend(True)
        .display_mode(shapes.LegendDisplayMode.LIST)
        .placement(shapes.LegendPlacement.BOTTOM)
        .calcs([])
    )


def _asking(panel, *targets):
    for reference, target in zip(_REFERENCES, targets, strict=False):
        panel.with_target(target.ref_id(reference))
    return panel


def _promql(query):
    return (
        prometheus.Dataquery()
        .datasource(PROMETHEUS)
        .editor_mode(prometheus_models.QueryEditorMode.CODE)
        .expr(query.expression)
        .legend_format(query.legend)
    )


def _traceql(query):
    return tempo.Dataquery().datasource(TEMPO).query_type(tempo_models.TempoQueryType.TRACEQL).query(query)
