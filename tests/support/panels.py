# SPDX-License-Identifier: Apache-2.0
"""The queries of the committed dashboards, and what Prometheus and Tempo answer to them."""

import json
import math
import re
import urllib.parse
import urllib.request
from dataclasses import dataclass
from pathlib import Path

DASHBOARDS = Path(__file__).resolve().parents[2] / "collector-config" / "grafana" / "dashboards"


@dataclass(frozen=True)
class Target:
    """One query of one panel. over_time: whether the panel asks for points over time, with `$__rate_interval`."""

    dashboard: str
    title: str
    ref: str
    language: str
    text: str
    over_time: bool

    @property
    def key(self):
        return (self.dashboard, self.title, self.ref)

    def __str__(self):
        return "/".join(self.key)


def dashboards():
    """Name of the file, without its ending -> the dashboard."""
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(DASHBOARDS.glob("*.json"))}


def targets(language):
    """Every query of every panel in `prometheus` or `tempo`, those of panels in collapsed rows included."""
    return [
        Target(
            name,
            panel["title"],
            target["refId"],
            language,
            target["expr" if language == "prometheus" else "query"],
            not target.get("instant", False),
        )
        for name, dashboard in dashboards().items()
        for panel in _panels(dashboard)
        for target in panel.get("targets", ())
        if target["datasource"]["type"] == language
    ]


def variables():
    """(dashboard, name) -> the query of each variable that Grafana fills from Prometheus."""
    return {
        (name, each["name"]): each["query"]["query"]
        for name, dashboard in dashboards().items()
        for each in dashboard["templating"]["list"]
        if each["type"] == "query"
    }


def _panels(dashboard):
    for panel in dashboard["panels"]:
        yield panel
        yield from panel.get("panels", ())


def filled_in(text, **values):
    """A query with the values of variables in the places of `$name` and `${name}`; AssertionError where one is left."""
    for name in sorted(values, key=len, reverse=True):
        text = re.sub(rf"\$(?:{name}\b|\{{{name}\}})", lambda _, name=name: values[name], text)
    assert "$" not in text, text
    return text


class Prometheus:
    """The API of a Prometheus. api: its address."""

    def __init__(self, api):
        self._api = api

    def now(self, query, at):
        """labels -> value at a time, for a query whose answer is a vector; labels are a frozenset of pairs."""
        answer = self._get("query", query=query, time=at)
        return {_labels(each): float(each["value"][1]) for each in answer["result"]}

    def series(self, selector, at):
        """(name, labels, value) of each series at a time."""
        answer = self._get("query", query=selector, time=at)
        return [(each["metric"]["__name__"], _labels(each), float(each["value"][1])) for each in answer["result"]]

    def over_time(self, query, *, start, end, step):
        """labels -> the values at each step."""
        answer = self._get("query_range", query=query, start=start, end=end, step=step)
        return {_labels(each): [float(value) for _, value in each["values"]] for each in answer["result"]}

    def exemplars(self, query, *, start, end):
        """Trace ids of the exemplars of the series of a query."""
        answer = self._get("query_exemplars", query=query, start=start, end=end)
        return {each["labels"]["trace_id"] for series in answer for each in series["exemplars"]}

    def label_values(self, label, series):
        return self._get(f"label/{label}/values", **{"match[]": series})

    def _get(self, path, **query):
        address = f"{self._api}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(address, timeout=30) as answer:
            return json.load(answer)["data"]


class Tempo:
    """The API of a Tempo. api: its address."""

    def __init__(self, api):
        self._api = api

    def found(self, query, *, start, end):
        """Span ids -> seconds and attributes, of the spans that a search finds."""
        answer = self._get("search", q=query, start=int(start), end=int(end), limit=100, spss=100)
        return {
            span["spanID"]: (int(span["durationNanos"]) / 1e9, _attributes(span["attributes"]))
            for trace in answer["traces"]
            for group in trace["spanSets"]
            for span in group["spans"]
        }

    def measured(self, query, *, start, end):
        """labels -> the value over all of the time."""
        answer = self._get("metrics/query", q=query, start=int(start), end=int(end))
        return {frozenset(_attributes(each["labels"]).items()): each.get("value", 0) for each in answer["series"]}

    def over_time(self, query, *, start, end, step):
        """labels -> the values of each interval that is over."""
        answer = self._get("metrics/query_range", q=query, start=int(start), end=int(end), step=f"{step}s")
        return {
            frozenset(_attributes(each["labels"]).items()): [
                sample.get("value", 0) for sample in each.get("samples", ())
            ]
            for each in answer["series"]
        }

    def _get(self, path, **query):
        with urllib.request.urlopen(f"{self._api}/api/{path}?{urllib.parse.urlencode(query)}", timeout=30) as answer:
            return json.load(answer)


def _attributes(pairs):
    """The attributes of an answer of Tempo's, whose numbers may be strings."""
    values = {each["key"]: next(iter(each["value"].items())) for each in pairs}
    return {key: int(value) if kind == "intValue" else value for key, (kind, value) in values.items()}


def _labels(series):
    return frozenset((key, value) for key, value in series["metric"].items() if key != "__name__")


def seconds(duration_s):
    """A duration as PromQL writes it, rounded up."""
    return f"{math.ceil(duration_s)}s"
