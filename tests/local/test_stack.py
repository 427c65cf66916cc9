# SPDX-License-Identifier: Apache-2.0
"""`make up`, `make demo-up` and `make down` with the real Collector, Jaeger and Prometheus."""

import json
import os
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from pathlib import Path

import pytest

import backends
import local
import running
import services
from support.needs import program

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ("otelcol-torchspan", "jaeger", "prometheus")
PROGRAM = """
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
tracer = provider.get_tracer("by hand")
with tracer.start_as_current_span("torch_tensorrt.compile") as span:
    print(format(span.get_span_context().trace_id, "032x"), flush=True)
    with tracer.start_as_current_span("torch_tensorrt.lower", attributes={"a": 1, "b": "two"}):
        pass
provider.shutdown()
"""
pytestmark = [pytest.mark.needs(*PROGRAMS), pytest.mark.slow]


class Stack:
    """What the commands printed, and the folder with the data."""

    def __init__(self, folder, *more):
        """more: programs besides the three."""
        self.folder = folder / "stack"
        ports = {name: port for kind in local.KINDS for name, port in kind.PORTS.items()}
        self._environment = {
            **os.environ,
            **{name: str(port) for name, port in zip(ports, running.free_ports(len(ports)), strict=True)},
            **{backends.BY_NAME[name].variable: program(name) for name in (*PROGRAMS, *more)},
            "TORCHSPAN_LOCAL": str(self.folder),
        }

    def run(self, *arguments):
        command = [sys.executable, ROOT / "tools" / "local.py", *arguments]
        done = subprocess.run(command, env=self._environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.splitlines()

    def address(self, name):
        return local.Stack(self.folder).addresses[name]


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    """A stack that is up, and that a program has sent a trace to; `said` is what that command printed."""
    stack = Stack(tmp_path_factory.mktemp("local"))
    try:
        stack.said_up = stack.run("up")
        stack.said = stack.run("demo", "--", sys.executable, "-c", PROGRAM)
        yield stack
    finally:
        stack.run("down")


def fetch(address):
    """JSON of an address."""
    with urllib.request.urlopen(address, timeout=30) as response:
        assert response.headers["Content-Type"].startswith("application/json")
        return json.load(response)


def measured(stack, query, until):
    """Prometheus's answer, once it is what `until` wants."""
    limit = time.monotonic() + 60
    while True:
        asked = urllib.parse.urlencode({"query": query})
        result = fetch(f"{stack.address('prometheus')}/api/v1/query?{asked}")["data"]["result"]
        if until(result):
            return result
        assert time.monotonic() < limit, result
        time.sleep(0.2)


def test_the_address_alone_on_its_line_returns_the_trace_of_the_last_compilation(stack):
    trace_id, *_, address = stack.said
    (trace,) = fetch(address)["data"]
    spans = {span["operationName"]: span for span in trace["spans"]}
    assert trace["traceID"] == trace_id
    assert sorted(spans) == ["torch_tensorrt.compile", "torch_tensorrt.lower"]
    root, child = spans["torch_tensorrt.compile"], spans["torch_tensorrt.lower"]
    assert child["references"] == [{"refType": "CHILD_OF", "traceID": trace_id, "spanID": root["spanID"]}]
    assert {tag["key"]: tag["value"] for tag in child["tags"] if tag["key"] in "ab"} == {"a": 1, "b": "two"}


def test_up_prints_that_address_before_there_is_a_trace(stack):
    assert stack.said_up[-1] == stack.said[-1]
    assert stack.said_up[0] == f"Up, with data in {stack.folder}; make down ends it and removes them."


def test_the_newest_of_several_traces_is_returned(stack):
    first = stack.run("demo", "--", sys.executable, "-c", PROGRAM)
    second = stack.run("demo", "--", sys.executable, "-c", PROGRAM)
    assert first[0] != second[0]
    (trace,) = fetch(second[-1])["data"]
    assert trace["traceID"] == second[0]


def test_prometheus_reads_the_span_metrics_and_what_the_collector_says_of_itself(stack):
    calls = measured(stack, 'traces_span_metrics_calls_total{span_name="torch_tensorrt.compile"}', bool)
    assert {row["metric"]["service_name"] for row in calls} == {"torchspan-demo"}
    measured(stack, "up == 1", lambda result: {row["metric"].get("job") for row in result} >= {"collector", "spans"})
    measured(stack, "otelcol_receiver_accepted_spans > 0", bool)


def test_an_exemplar_leads_from_the_metric_to_the_trace(stack):
    limit, found = time.monotonic() + 60, []
    now = time.time()
    asked = {"query": "traces_span_metrics_duration_seconds_bucket", "start": now - 600, "end": now + 600}
    while not found:
        assert time.monotonic() < limit
        time.sleep(0.2)
        found = fetch(f"{stack.address('prometheus')}/api/v1/query_exemplars?{urllib.parse.urlencode(asked)}")["data"]
    # Of several traces, Prometheus has those that were measured last when it read.
    for trace_id in {each["labels"]["trace_id"] for series in found for each in series["exemplars"]}:
        (found,) = fetch(f"{stack.address('jaeger')}/api/traces/{trace_id}")["data"]
        assert "torch_tensorrt.compile" in {span["operationName"] for span in found["spans"]}


def test_jaeger_has_no_service_but_the_users(stack):
    assert fetch(f"{stack.address('jaeger')}/api/services")["data"] == ["torchspan-demo"]


def test_the_collector_complains_of_nothing(stack):
    log = (stack.folder / "otelcol-torchspan" / "otelcol-torchspan.log").read_text(encoding="utf-8")
    assert [line for line in log.splitlines() if "\twarn\t" in line or "\terror\t" in line] == []


@pytest.mark.needs("promtool")
def test_prometheus_has_nothing_against_its_configuration(tmp_path):
    file = services.prometheus_configuration(tmp_path, {"TORCHSPAN_METRICS_PORT": 8889, "TORCHSPAN_SELF_PORT": 8888})
    command = [program("promtool"), "check", "config", "--lint-fatal", file]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, "WARNING" in done.stdout + done.stderr) == (0, False), done.stdout + done.stderr


@pytest.fixture(scope="module")
def address_of_demo(stack):
    """The address that `make demo-up` prints at its end."""
    return stack.run("demo")[-1]


def test_the_demos_compilations_are_found_by_the_address_that_is_printed(address_of_demo):
    (trace,) = fetch(address_of_demo)["data"]
    names = [span["operationName"] for span in trace["spans"]]
    assert (names.count("torch_tensorrt.compile"), names.count("torch_tensorrt.convert")) == (2, 3)


def test_the_demo_has_its_page(address_of_demo):
    assert "ConvNetWithBessel" in local.PAGE.read_text(encoding="utf-8")


def test_the_demos_metrics_are_in_prometheus(stack, address_of_demo):
    query = 'sum(torch_tensorrt_phase_duration_seconds_count{torchspan_phase="torch_tensorrt.convert"})'
    (row,) = measured(stack, query, bool)
    assert int(row["value"][1]) >= 3


def test_down_ends_the_real_programs(tmp_path):
    stack = Stack(tmp_path)
    stack.run("up")
    processes = local.Stack(stack.folder).started
    assert len(processes) == 3
    assert stack.run("down") == ["Down: otelcol-torchspan, prometheus, jaeger."]
    assert not any(each.runs() for each in processes)


@pytest.mark.needs("tempo")
def test_a_tempo_that_is_given_has_the_trace_too_and_the_search_that_is_printed_finds_it(tmp_path):
    stack = Stack(tmp_path, "tempo")
    stack.run("up")
    try:
        said = stack.run("demo", "--", sys.executable, "-c", PROGRAM)
        (jaegers,) = fetch(next(line for line in said if line.startswith(stack.address("jaeger"))))["data"]
        (tempos,) = fetch(said[-1])["traces"]
        assert (jaegers["traceID"], tempos["traceID"].zfill(32)) == (said[0], said[0])
    finally:
        stack.run("down")
