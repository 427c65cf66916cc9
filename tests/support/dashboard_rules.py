# SPDX-License-Identifier: Apache-2.0
"""What every dashboard of `collector-config/grafana/dashboards` keeps to. Grafana's own linter is not available here."""

import re

from dashboards import collector, sdk
from dashboards.promql import label
from torchspan.words import phase, semconv

SOURCES = {
    "Source: torchspan's metrics, which count everything, sampled or not.": "torchspan",
    "Source: the Collector's span metrics (metrics.yaml), counted before tail sampling.": "span metrics",
    "Source: TraceQL over the traces in Tempo, without those that were sampled away.": "traces",
    "Source: the Collector's own metrics.": "collector",
    "Source: the SDK's own metrics, of all spans of the program. OTEL_PYTHON_SDK_INTERNAL_METRICS_ENABLED=true enables them.": "sdk",
}
"""The last line of a description, and what its queries then read."""

UNITS = {"short", "s", "ms", "bytes", "percentunit", "none"}

_PARTS = {"histogram": ("_bucket", "_sum", "_count"), "counter": ("_total",), "observable_up_down_counter": ("",)}
_SUFFIX = {"s": "_seconds", "By": "_bytes"}
SERIES = {
    label(metric) + _SUFFIX.get(metric.unit, "") + part: {label(each) for each in metric.attributes}
    for metric in semconv.METRICS
    for part in _PARTS.get(metric.instrument, ("",))
}
"""Series of torchspan's in Prometheus, with the labels that they have for its attributes."""

OF_THE_SDK = {name: {label(sdk.ERROR)} for name in (sdk.PROCESSED, sdk.EXPORTED)}
"""Series that the SDK has of itself, with the label that is used."""

ALWAYS = {"job", "instance", "le"}
"""Labels that any series may have."""

_SELECTOR = re.compile(r"([a-zA-Z_:][\w:]*)\{([^}]*)\}")
_MATCHER = re.compile(r'(\w+)(?:=~|!~|!=|=)"')
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_INTRINSIC = {"name", "duration", "status"}
_SPAN_KEY = re.compile(r"\b(?:span|resource)\.([a-z_.0-9]+[a-z0-9])")
_OF_RESOURCE = {"service.name"}


def panels(dashboard):
    """Its panels without the rows' titles."""
    return [each for each in dashboard["panels"] if each["type"] != "row"]


def queries(panel):
    """The text of each query of a panel."""
    return [target.get("expr") or target["query"] for target in panel["targets"]]


def complaints(dashboard):
    """What is not as it should be, a sentence each."""
    found = [*_of_all(dashboard), *_overlaps(dashboard["panels"])]
    for panel in panels(dashboard):
        found += [
            f"{panel['title']}: {each}" for rule in (_look, _legend, _source, _data_sources) for each in rule(panel)
        ]
        for target in panel["targets"]:
            rules = _promql if "expr" in target else _traceql
            found += [f"{panel['title']}: {each}" for each in rules(target)]
    return found


def _of_all(dashboard):
    if not re.fullmatch(r"torchspan-[a-z-]+", dashboard.get("uid") or ""):
        yield "no fixed uid that begins with torchspan-"
    if dashboard["schemaVersion"] > 42:
        yield f"schema version {dashboard['schemaVersion']}: no classic dashboard"
    yield from (f"has the key {key}, which a Grafana writes" for key in ("id", "__inputs") if key in dashboard)
    for what in ("id", "title"):
        values = [each[what] for each in panels(dashboard)]
        yield from (f"two panels with the {what} {each}" for each in sorted(set(values)) if values.count(each) > 1)
    declared = {each["name"] for each in dashboard["templating"]["list"]}
    used = {
        name
        for text in (*(query for panel in panels(dashboard) for query in queries(panel)), "${prometheus} ${tempo}")
        for name in (match[1] or match[2] for match in _VARIABLE.finditer(text))
        if not name.startswith("__")
    }
    yield from (f"no variable ${each}" for each in sorted(used - declared))
    yield from (f"the variable ${each} is used nowhere" for each in sorted(declared - used))


def _overlaps(drawn):
    taken = {}
    for panel in drawn:
        at = panel["gridPos"]
        if at["x"] < 0 or at["x"] + at["w"] > 24:
            yield f"{panel['title']}: reaches beyond the 24 columns"
        for place in {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}:
            other = taken.setdefault(place, panel["title"])
            if other != panel["title"]:
                yield f"{panel['title']}: lies over {other}"
                break


def _look(panel):
    if panel["fieldConfig"]["defaults"].get("unit") not in UNITS:
        yield "no unit of those that are known"
    if len(panel.get("description", "").split("\n")[0]) < 20:
        yield "no description"


def _legend(panel):
    options = panel["options"]
    if panel["type"] in {"timeseries", "bargauge"} and not options["legend"]["showLegend"]:
        yield "no legend"
    if panel["type"] == "stat" and options["textMode"] != "value_and_name":
        yield "no name alongside the figure"
    if panel["type"] == "table" and not options["showHeader"]:
        yield "no header"
    yield from (
        f"the query {each['refId']} has no legend"
        for each in panel["targets"]
        if "expr" in each and each.get("legendFormat") in {None, "", "__auto"}
    )


def _source(panel):
    said = SOURCES.get(panel.get("description", "").split("\n")[-1])
    read = {_reads(target) for target in panel["targets"]}
    if said is None:
        yield "its description does not end with its source"
    elif read != {said}:
        yield f"it says its source is {said}, and reads {', '.join(sorted(read))}"


def _reads(target):
    if "expr" not in target:
        return "traces"
    names = {name for name, _ in _SELECTOR.findall(target["expr"])}
    kinds = {
        "torchspan"
        if name in SERIES
        else "span metrics"
        if name.startswith("traces_span_metrics_")
        else "sdk"
        if name in OF_THE_SDK
        else "collector"
        for name in names
    }
    return " and ".join(sorted(kinds))


def _data_sources(panel):
    for each in (panel, *panel["targets"]):
        kind = each["datasource"]["type"]
        if each["datasource"] != {"type": kind, "uid": f"${{{kind}}}"} or kind not in {"prometheus", "tempo"}:
            yield f"its data source is not a variable: {each['datasource']}"


def _promql(target):
    expression = target["expr"]
    if target.get("instant") == target.get("range"):
        yield f"{target['refId']} is neither for one moment nor over time"
    window = "$__range" if target.get("instant") else "$__rate_interval"
    for each, offset in re.findall(r"\}\[([^\]]*)\](?: offset ([^)\s]+))?", expression):
        if (each, offset) not in {(window, ""), ("1h", window)}:
            yield f"{target['refId']} looks back {each}{offset and f' from {offset} on'} and not {window}"
    selectors = _SELECTOR.findall(expression)
    labels = set()
    for name, matchers in selectors:
        own = SERIES.get(name, OF_THE_SDK.get(name))
        if own is None and name not in COLLECTORS_SERIES:
            yield f"{name} is not a series of torchspan's or the Collector's that is known"
        labels |= own if own is not None else collector.LABELS
        keys = set(_MATCHER.findall(matchers))
        yield from (
            f"{name} has no label {each}"
            for each in sorted(keys - ALWAYS - (own if own is not None else collector.LABELS))
        )
        if not keys & {"job", "instance"}:
            yield f"{name} is not limited to what is chosen"
    asked = {key.strip() for keys in re.findall(r"\bby \(([^)]*)\)", expression) for key in keys.split(",")}
    asked |= set(re.findall(r"\{\{(\w+)\}\}", target.get("legendFormat", "")))
    yield from (f"there is no label {each}" for each in sorted(asked - ALWAYS - labels))
    is_of_torchspan = any(name in SERIES for name, _ in selectors)
    if "histogram_quantile" in expression and is_of_torchspan and not target.get("exemplar"):
        yield f"{target['refId']} shows no exemplars"


def _traceql(target):
    query = target["query"]
    if 'resource.service.name =~ "$service"' not in query:
        yield f"{target['refId']} is not limited to the chosen services"
    (name,) = re.findall(r'\bname = "([^"]*)"', query) or [None]
    work = next((each for each in phase.SPANS if each.name == name), None)
    if work is None:
        yield f"{name} is not a span of torchspan's"
        return
    known = {str(each) for each in semconv.ATTRIBUTES if not each.on or work in each.on}
    for key in _SPAN_KEY.findall(query):
        if key not in known | _OF_RESOURCE:
            yield f"{name} has no attribute {key}"
    for intrinsic in re.findall(r"[{&(] *([a-z]+)\b(?= *(?:[=<>!]|,))", query):
        if intrinsic not in _INTRINSIC:
            yield f"TraceQL has no {intrinsic}"


COLLECTORS_SERIES = {
    f"{series.name}{part}"
    for series in vars(collector).values()
    if hasattr(series, "chosen")
    for part in (("_bucket", "_sum", "_count") if hasattr(series, "quantile") else ("",))
}
"""The Collector's series that are known."""
