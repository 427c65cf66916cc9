# SPDX-License-Identifier: Apache-2.0
"""Dashboards and data sources for Grafana: rules that each keeps, and that the rules find what breaks them."""

import copy
import json
import re
import time
import urllib.parse
import urllib.request

import pytest
import yaml

import services
from support import backends, otlp, scraped
from support.backends import CONFIGURATIONS
from support.dashboard_rules import complaints, panels, queries
from support.receiver import Receiver

GRAFANA = CONFIGURATIONS / "grafana"
DASHBOARDS = {
    path.stem: json.loads(path.read_text("utf-8")) for path in sorted((GRAFANA / "dashboards").glob("*.json"))
}


def test_there_are_four_dashboards_with_fixed_addresses():
    assert {name: each["uid"] for name, each in DASHBOARDS.items()} == {
        "bridge-health": "torchspan-bridge-health",
        "compiles": "torchspan-compiles",
        "runtime": "torchspan-runtime",
        "torch-compile": "torchspan-torch-compile",
    }


@pytest.mark.parametrize("name", DASHBOARDS)
def test_a_dashboard_keeps_the_rules(name):
    assert complaints(DASHBOARDS[name]) == []


def test_compiles_has_a_panel_for_each_question_about_compilations():
    assert [each["title"] for each in panels(DASHBOARDS["compiles"])] == [
        "Compilations",
        "Compilations over time",
        "Compiled while serving",
        "Builds in progress",
        "Duration of compilations",
        "Duration by phase",
        "Time by phase",
        "Longest build in progress",
        "Engines",
        "Bytes of engines",
        "Size of engines",
        "Cache hit ratio",
        "Cache lookups",
        "Cost of cache lookups",
        "Duration of conversions by cache result",
        "Operators in PyTorch",
        "Subgraphs in PyTorch",
        "Slowest compilations",
    ]


def test_torch_compile_has_a_panel_for_each_question_about_frames():
    assert [each["title"] for each in panels(DASHBOARDS["torch-compile"])] == [
        "Frames",
        "Frames over time",
        "Compiled while serving",
        "Recompile limits reached",
        "Recompilations",
        "Recompilations over time",
        "Graph breaks",
        "Graph breaks over time",
        "Duration of frames",
        "Duration of backward graphs",
        "Duration by phase",
        "Time by phase",
        "Compilations in progress",
        "Longest compilation in progress",
        "Waits and workers",
        "Cache hit ratio",
        "Lookups in AOTAutograd's cache",
        "Lookups in Inductor's cache",
        "Frames that were compiled again",
        "Frames whose graph broke",
        "Slowest frames",
    ]


def test_runtime_has_a_panel_for_each_question_about_runs():
    assert [each["title"] for each in panels(DASHBOARDS["runtime"])] == [
        "Runs",
        "Latency of engines",
        "Latency of execution contexts",
        "Latency by engine",
        "Shape changes",
        "Failed runs",
        "Failed runs by error",
        "Traces of failed runs",
        "Sampled share",
    ]


def test_bridge_health_has_a_panel_for_each_place_where_spans_may_be_lost():
    assert [each["title"] for each in panels(DASHBOARDS["bridge-health"])] == [
        "Spans emitted",
        "Spans dropped",
        "Spans lost by the SDK",
        "Callback failures",
        "Spans that reached the Collector",
        "Spans received",
        "Spans sent",
        "Queues",
        "Memory",
        "Traces decided",
        "Traces kept by policy",
        "Lost decisions",
        "Traces waiting for their decision",
        "Late spans",
        "Time of decisions",
    ]


def panel(dashboard, title):
    (found,) = [each for each in panels(dashboard) if each["title"] == title]
    return found


def set_in(title, *path, to):
    """A change of a panel: `path` leads to what is set."""

    def change(dashboard):
        *way, last = path
        at = panel(dashboard, title)
        for each in way:
            at = at[each]
        at[last] = to

    return change


def asks(title, expression):
    """A change of the first query of a panel."""
    return lambda dashboard: panel(dashboard, title)["targets"][0].update(
        {"expr" if "expr" in panel(dashboard, title)["targets"][0] else "query": expression}
    )


def replaced(title, old, new):
    """A change within the first query of a panel."""

    def change(dashboard):
        (text, *_) = queries(panel(dashboard, title))
        assert old in text
        asks(title, text.replace(old, new))(dashboard)

    return change


OUTCOME = "torch_tensorrt_compile_outcome"
BROKEN = {
    "another address": (lambda dashboard: dashboard.update(uid="x1"), "no fixed uid that begins with torchspan-"),
    "a newer schema": (
        lambda dashboard: dashboard.update(schemaVersion=43),
        "schema version 43: no classic dashboard",
    ),
    "an id of one Grafana": (lambda dashboard: dashboard.update(id=7), "has the key id, which a Grafana writes"),
    "an id twice": (set_in("Engines", "id", to=2), "two panels with the id 2"),
    "a panel over another": (set_in("Engines", "gridPos", "x", to=6), "Bytes of engines: lies over Engines"),
    "a panel beyond the edge": (
        set_in("Builds in progress", "gridPos", "w", to=7),
        "Builds in progress: reaches beyond the 24 columns",
    ),
    "no unit": (
        set_in("Engines", "fieldConfig", "defaults", to={}),
        "Engines: no unit of those that are known",
    ),
    "no description": (
        set_in("Engines", "description", to="Source: the Collector's own metrics."),
        "Engines: it says its source is collector, and reads torchspan",
    ),
    "an empty description": (set_in("Engines", "description", to=""), "Engines: no description"),
    "no legend": (set_in("Size of engines", "options", "legend", "showLegend", to=False), "Size of engines: no legend"),
    "no name of a series": (
        set_in("Engines", "targets", 0, "legendFormat", to=""),
        "Engines: the query A has no legend",
    ),
    "a data source of one Grafana": (
        set_in("Engines", "datasource", to={"type": "prometheus", "uid": "abc"}),
        "Engines: its data source is not a variable: {'type': 'prometheus', 'uid': 'abc'}",
    ),
    "a window of its own": (
        replaced("Engines", "[$__range]", "[5m]"),
        "Engines: A looks back 5m and not $__range",
    ),
    "an offset of its own": (
        replaced("Engines", "offset $__range", "offset 1d"),
        "Engines: A looks back 1h from 1d on and not $__range",
    ),
    "an attribute that is not emitted": (
        replaced("Compilations", OUTCOME, "torch_tensorrt_compile_result"),
        "Compilations: there is no label torch_tensorrt_compile_result",
    ),
    "an attribute of another metric": (
        replaced("Compilations", OUTCOME, "torchspan_phase"),
        "Compilations: there is no label torchspan_phase",
    ),
    "a selected attribute that is not emitted": (
        replaced("Cache hit ratio", 'result="hit"', 'outcome="hit"'),
        "Cache hit ratio: torch_tensorrt_engine_cache_lookups_total has no label torch_tensorrt_engine_cache_outcome",
    ),
    "a metric that is not emitted": (
        replaced("Engines", "tensorrt_engine_build_size_bytes_count", "tensorrt_engine_count"),
        "Engines: tensorrt_engine_count is not a series of torchspan's or the Collector's that is known",
    ),
    "all services": (
        replaced("Builds in progress", '{job=~"(.+/)?$service"}', "{}"),
        "Builds in progress: torch_tensorrt_build_active is not limited to what is chosen",
    ),
    "two sources in one panel": (
        replaced("Engines", "tensorrt_engine_build_size_bytes_count", "traces_span_metrics_calls_total"),
        "Engines: it says its source is torchspan, and reads span metrics",
    ),
    "no exemplars": (
        set_in("Duration by phase", "targets", 0, "exemplar", to=False),
        "Duration by phase: A shows no exemplars",
    ),
    "an undeclared variable": (
        replaced("Builds in progress", "$service", "$team"),
        "no variable $team",
    ),
    "an attribute that the span does not have": (
        replaced("Slowest compilations", "span.torch_tensorrt.coverage", "span.torch_tensorrt.cover"),
        "Slowest compilations: torch_tensorrt.compile has no attribute torch_tensorrt.cover",
    ),
    "a span that is not emitted": (
        replaced("Slowest compilations", '"torch_tensorrt.compile"', '"torch_tensorrt.compiled"'),
        "Slowest compilations: torch_tensorrt.compiled is not a span of torchspan's",
    ),
    "a property that spans do not have": (
        replaced("Slowest compilations", "duration >=", "length >="),
        "Slowest compilations: TraceQL has no length",
    ),
    "traces of all services": (
        replaced("Slowest compilations", 'resource.service.name =~ "$service" && ', ""),
        "Slowest compilations: A is not limited to the chosen services",
    ),
}


@pytest.mark.parametrize("change", BROKEN)
def test_the_rules_find(change):
    dashboard = copy.deepcopy(DASHBOARDS["compiles"])
    make, complaint = BROKEN[change]
    make(dashboard)
    assert complaint in complaints(dashboard)


# --- what Grafana is provisioned with -----------------------------------------------------------------------------


def provisioned(kind):
    return yaml.safe_load((GRAFANA / "provisioning" / kind / "torchspan.yaml").read_text("utf-8"))


def test_a_dot_on_a_line_leads_from_prometheus_to_its_trace_in_tempo():
    sources = {each["uid"]: each for each in provisioned("datasources")["datasources"]}
    (exemplars,) = sources["prometheus"]["jsonData"]["exemplarTraceIdDestinations"]
    assert (exemplars["name"], exemplars["datasourceUid"]) == ("trace_id", "tempo")
    assert sources["tempo"]["type"] == "tempo"


def test_a_span_in_tempo_leads_to_the_span_metrics_of_its_service_and_name():
    sources = {each["uid"]: each for each in provisioned("datasources")["datasources"]}
    links = sources["tempo"]["jsonData"]["tracesToMetrics"]
    assert links["datasourceUid"] == "prometheus"
    assert links["tags"] == [{"key": "service.name", "value": "service_name"}]
    for each in links["queries"]:
        text = each["query"].replace("$$", "$")
        assert '{$__tags, span_name="${__span.name}"}' in text
        assert "$$" in each["query"], "provisioning takes a single $ for a variable of the environment"
        assert text.replace("$__", "").replace("${__", "").count("$") == 0


def test_the_dashboards_are_read_from_where_the_folder_is_mounted():
    (provider,) = provisioned("dashboards")["providers"]
    assert (provider["type"], provider["options"]) == ("file", {"path": "/etc/grafana/torchspan"})


# --- in a real Prometheus -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def read(tmp_path_factory):
    """The address of a Prometheus, and the Collector that it has read, to which the service `eu/shop` sent three spans."""
    folder = tmp_path_factory.mktemp("prometheus")
    made = otlp.Ids(1)
    spans = [otlp.make_span(made, "torch_tensorrt.compile", made.trace(), duration_ms=2000) for _ in range(3)]
    resource = {"service.name": "shop", "service.namespace": "eu", "service.instance.id": "i1"}
    with Receiver() as backend:
        variables = {"TORCHSPAN_OTLP_ENDPOINT": backend.url, "TORCHSPAN_METRICS_FLUSH": "1s"}
        with backends.collector("base.yaml", "metrics.yaml", environment=variables) as collector:
            ports = {f"TORCHSPAN_{name.upper()}_PORT": port for name, port in collector.ports.items()}
            with backends.prometheus(services.prometheus_configuration(folder, ports)) as prometheus:
                otlp.send(collector.http, spans, resource=resource)
                scraped.query(prometheus.api, 'sum(traces_span_metrics_calls_total{service_name="shop"}) == 3')
                scraped.query(prometheus.api, "otelcol_process_uptime")
                yield prometheus.api, collector


def offered(api, dashboard, name, replacing=("", "")):
    """What a variable of a dashboard lets choose from. replacing: a series in its query, and another."""
    (variable,) = [each for each in dashboard["templating"]["list"] if each["name"] == name]
    selector, label = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["definition"]).groups()
    asked = urllib.parse.urlencode({"match[]": selector.replace(*replacing), "start": time.time() - 600})
    with urllib.request.urlopen(f"{api}/api/v1/label/{label}/values?{asked}", timeout=30) as answer:
        values = json.load(answer)["data"]
    pattern = re.compile(variable.get("regex", "/(.*)/").strip("/"))
    return [found[1] for each in values if (found := pattern.search(each))]


@pytest.mark.needs("otelcol-torchspan", "prometheus")
def test_related_metrics_of_a_span_are_those_of_its_service_and_name(read):
    api, _ = read
    sources = {each["uid"]: each for each in provisioned("datasources")["datasources"]}
    found = []
    for each in sources["tempo"]["jsonData"]["tracesToMetrics"]["queries"]:
        query = each["query"].replace("$$", "$").replace("$__tags", 'service_name="shop"')
        query = query.replace("${__span.name}", "torch_tensorrt.compile").replace("$__rate_interval", "5m")
        found += [(series["metric"], float(series["value"][1])) for series in scraped.query(api, query)]
    (calls, duration_s) = found
    assert calls == ({"status_code": "STATUS_CODE_UNSET"}, 3)
    assert 1 < duration_s[1] <= 2.5


@pytest.mark.needs("otelcol-torchspan", "prometheus")
def test_services_are_offered_without_their_namespaces(read):
    api, _ = read
    there = ("torchspan_span_emitted_total", "traces_span_metrics_calls_total")
    assert offered(api, DASHBOARDS["bridge-health"], "service", there) == ["shop"]


@pytest.mark.needs("otelcol-torchspan", "prometheus")
def test_collectors_are_offered_by_their_addresses(read):
    api, collector = read
    assert offered(api, DASHBOARDS["bridge-health"], "collector") == [f"127.0.0.1:{collector.ports['self']}"]
