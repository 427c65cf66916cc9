# SPDX-License-Identifier: Apache-2.0
"""`gateway/`: two tiers, one Collector that receives and two that sample; every trace is whole on one of those."""

import time
from collections import Counter
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource

from support import backends, otlp, scraped
from support.receiver import Receiver

pytestmark = pytest.mark.needs("otelcol-torchspan")

CALLS = "traces_span_metrics_calls_total"
FIRST, SECOND = ("gateway/first-tier.yaml",), ("base.yaml", "sampling.yaml", "metrics.yaml")


@dataclass
class Tiers:
    """first: the Collector that programs send to. second: those behind it. backends: what each of those sends to."""

    first: Any
    second: list
    backends: list

    def samples(self):
        """What Prometheus reads at all of the second tier."""
        return [sample for each in self.second for sample in scraped.read(each.metrics)]


def static(*collectors):
    """Variables of a first tier in front of these."""
    return {"TORCHSPAN_SECOND_TIER": f"{{static: {{hostnames: [{', '.join(each.grpc for each in collectors)}]}}}}"}


@contextmanager
def tiers(**environment):
    with ExitStack() as held:
        receivers = [held.enter_context(Receiver()) for _ in range(2)]
        second = [
            held.enter_context(
                backends.collector(
                    *SECOND,
                    environment={
                        "TORCHSPAN_OTLP_ENDPOINT": receiver.url,
                        "TORCHSPAN_DECISION_WAIT": "2s",
                        "TORCHSPAN_KEEP_PERCENT": "0",
                        "TORCHSPAN_METRICS_FLUSH": "200ms",
                        **environment,
                    },
                )
            )
            for receiver in receivers
        ]
        first = held.enter_context(backends.collector(*FIRST, environment=static(*second)))
        yield Tiers(first, second, receivers)


def a_compilation(made):
    trace_id = made.trace()
    root = otlp.make_span(made, "torch_tensorrt.compile", trace_id, attributes={"torchspan.keep": True})
    return [
        root,
        otlp.make_span(made, "torch_tensorrt.convert", trace_id, parent=root),
        otlp.make_span(made, "tensorrt.build_engine", trace_id, parent=root),
    ]


def wait_for_spans(tiers, count, timeout_s=60):
    """Until so many spans have arrived in all."""
    until = time.monotonic() + timeout_s
    while sum(len(each.spans()) for each in tiers.backends) < count:
        assert time.monotonic() < until, [len(each.spans()) for each in tiers.backends]
        time.sleep(0.05)


def test_every_trace_arrives_whole_on_exactly_one_of_the_second_tier():
    made = otlp.Ids(1)
    traces = [a_compilation(made) for _ in range(100)]
    with tiers() as running:
        for part in range(3):  # no two spans of a trace come in one request
            otlp.send(running.first.http, [trace[part] for trace in traces])
        wait_for_spans(running, 300)
        spans_of = [Counter(span.trace_id for span in receiver.spans()) for receiver in running.backends]
        assert running.first.complaints() == []
        assert [collector.complaints() for collector in running.second] == [[], []]
    assert set(spans_of[0]) | set(spans_of[1]) == {trace[0].trace_id.hex() for trace in traces}
    assert set(spans_of[0]) & set(spans_of[1]) == set()
    assert {count for each in spans_of for count in each.values()} == {3}
    assert all(len(each) > 20 for each in spans_of)
    assert otlp.plain([message for each in running.backends for message in each.messages()]) == otlp.plain(
        [otlp.request([span for trace in traces for span in trace])]
    )


def test_a_span_counts_once_in_the_span_metrics_of_both_tiers():
    made = otlp.Ids(2)
    with tiers() as running:
        for _ in range(50):
            otlp.send(running.first.http, a_compilation(made))
        for collector in running.second:
            scraped.wait_for(collector.metrics, lambda _: scraped.total(running.samples(), CALLS) >= 150)
        samples = running.samples()
    by_name = Counter()
    for each in samples:
        if each.name == CALLS:
            by_name[each.labels["span_name"]] += each.value
    assert by_name == {"torch_tensorrt.compile": 50, "torch_tensorrt.convert": 50, "tensorrt.build_engine": 50}
    # Two Collectors count the same name; what tells their series apart is the Collector's own id.
    compiles = [
        each.labels
        for each in samples
        if each.name == CALLS and each.labels["span_name"] == by_name.most_common()[0][0]
    ]
    assert len({each["collector_instance_id"] for each in compiles}) == 2


def test_what_a_process_measured_is_on_one_of_the_second_tier():
    name = "torch_tensorrt_compilations_total"
    processes = [
        f"i{number:02}" for number in range(32)
    ]  # of a few, all may be on the same one by chance: ports differ
    with tiers() as running:
        for process in processes:
            exporter = OTLPMetricExporter(endpoint=f"{running.first.http}/v1/metrics")
            reader = PeriodicExportingMetricReader(exporter, export_interval_millis=3_600_000)
            resource = Resource({"service.name": "app", "service.instance.id": process})
            provider = MeterProvider([reader], resource=resource, shutdown_on_exit=False)
            counter = provider.get_meter("torchspan").create_counter("torch_tensorrt.compilations")
            for _ in range(3):  # cumulative: the same series again and again
                counter.add(1)
                provider.force_flush()
            provider.shutdown()
        scraped.wait_for(
            running.second[0].metrics, lambda _: scraped.total(running.samples(), name) == 3 * len(processes)
        )
        found = [
            [each.labels["instance"] for each in scraped.read(collector.metrics) if each.name == name]
            for collector in running.second
        ]
    assert sorted(found[0] + found[1]) == processes
    assert all(found)


def test_a_collector_of_the_second_tier_that_is_down_gets_its_traces_when_it_is_back():
    made = otlp.Ids(3)
    traces = [a_compilation(made) for _ in range(40)]
    with ExitStack() as held:
        receiver = held.enter_context(Receiver())
        environment = {"TORCHSPAN_OTLP_ENDPOINT": receiver.url, "TORCHSPAN_DECISION_WAIT": "1s"}
        up = held.enter_context(backends.collector(*SECOND, environment=environment))
        with backends.collector(*SECOND, environment=environment) as down:
            ports = {f"TORCHSPAN_{kind.upper()}_PORT": str(port) for kind, port in down.ports.items()}
        first = held.enter_context(backends.collector(*FIRST, environment=static(up, down)))
        otlp.send(first.http, [span for trace in traces for span in trace])
        held.enter_context(backends.collector(*SECOND, environment={**environment, **ports}))
        receiver.wait_for(lambda found: len({span.span_id for span in found.spans()}) == 120, timeout_s=120)
    assert otlp.plain(receiver.messages()) == otlp.plain([otlp.request([span for trace in traces for span in trace])])


def test_the_first_tier_killed_while_the_second_is_down_loses_nothing_that_it_accepted(tmp_path):
    made = otlp.Ids(4)
    traces = [a_compilation(made) for _ in range(40)]
    with Receiver() as receiver:
        environment = {"TORCHSPAN_OTLP_ENDPOINT": receiver.url, "TORCHSPAN_DECISION_WAIT": "1s"}
        with backends.collector(*SECOND, environment=environment) as second:
            ports = {f"TORCHSPAN_{kind.upper()}_PORT": str(port) for kind, port in second.ports.items()}
        variables = static(second)
        with backends.collector(*FIRST, environment=variables, data=tmp_path) as first:
            for trace in traces:
                otlp.send(first.http, trace)
            first.kill()
        with (
            backends.collector(*SECOND, environment={**environment, **ports}),
            backends.collector(*FIRST, environment=variables, data=tmp_path),
        ):
            receiver.wait_for(lambda found: len({span.span_id for span in found.spans()}) == 120, timeout_s=120)
    assert otlp.plain(receiver.messages()) == otlp.plain([otlp.request([span for trace in traces for span in trace])])


def test_the_second_tier_is_found_by_its_name_too():
    made = otlp.Ids(5)
    with (
        Receiver() as receiver,
        backends.collector("base.yaml", environment={"TORCHSPAN_OTLP_ENDPOINT": receiver.url}) as second,
    ):
        found = {"TORCHSPAN_SECOND_TIER": f"{{dns: {{hostname: 127.0.0.1, port: '{second.ports['grpc']}'}}}}"}
        with backends.collector(*FIRST, environment=found) as first:
            otlp.send(first.http, a_compilation(made))
            receiver.wait_for(lambda found: len(found.spans()) == 3)
            assert first.complaints() == []
