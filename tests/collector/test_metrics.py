# SPDX-License-Identifier: Apache-2.0
"""`metrics.yaml`: span metrics of all spans, whatever is kept of them."""

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from support import backends, otlp, scraped
from support.receiver import Receiver
from support.sampled_runs import SampledRuns, TrtEngine
from torchspan.sdk import TorchspanIdGenerator, TorchspanSampler

pytestmark = pytest.mark.needs("otelcol-torchspan")

CALLS = "traces_span_metrics_calls_total"
ACCEPTED = "otelcol_receiver_accepted_spans"
COUNT, SUM, BUCKET = (f"traces_span_metrics_duration_seconds_{each}" for each in ("count", "sum", "bucket"))


@pytest.fixture
def backend():
    with Receiver() as receiver:
        yield receiver


@pytest.fixture
def start(backend):
    """A Collector whose span metrics are up to date after 0.2 s."""

    def start(*layers, **environment):
        variables = {
            "TORCHSPAN_OTLP_ENDPOINT": backend.url,
            "TORCHSPAN_METRICS_FLUSH": "200ms",
            "TORCHSPAN_DECISION_WAIT": "1s",
            **environment,
        }
        return backends.collector("base.yaml", *layers, "metrics.yaml", environment=variables)

    return start


def spans(made, name, count, **fields):
    return [otlp.make_span(made, name, made.trace(), **fields) for _ in range(count)]


def counted(collector, count):
    return scraped.wait_for(collector.metrics, lambda found: scraped.total(found, CALLS) == count)


def test_spans_are_counted_by_service_name_kind_and_status(start):
    made = otlp.Ids(1)
    with start() as collector:
        otlp.send(collector.http, spans(made, "torch_tensorrt.compile", 3, duration_ms=2000))
        otlp.send(collector.http, spans(made, "torch_tensorrt.compile", 2, duration_ms=4000, status=otlp.ERROR))
        otlp.send(collector.http, spans(made, "tensorrt.build_engine", 1), resource={"service.name": "other"})
        samples = counted(collector, 6)
        own = {"service_name": "app", "span_name": "torch_tensorrt.compile", "span_kind": "SPAN_KIND_INTERNAL"}
        assert scraped.total(samples, CALLS, **own, status_code="STATUS_CODE_UNSET") == 3
        assert scraped.total(samples, CALLS, **own, status_code="STATUS_CODE_ERROR") == 2
        assert scraped.total(samples, CALLS, service_name="other", span_name="tensorrt.build_engine") == 1
        assert scraped.total(samples, COUNT, **own) == 5
        assert scraped.total(samples, SUM, **own) == pytest.approx(14)
        assert {each.labels.get("instance") for each in samples if each.name == CALLS} == {None}
        assert collector.complaints() == []


BUCKETS = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600]


@pytest.mark.parametrize(("duration_ms", "below"), [(0.5, 0.001), (3_000, 5), (59 * 60_000, 3600), (61 * 60_000, None)])
def test_buckets_reach_from_a_millisecond_to_an_hour(start, duration_ms, below):
    with start() as collector:
        otlp.send(collector.http, spans(otlp.Ids(2), "tensorrt.build_engine", 1, duration_ms=duration_ms))
        samples = [each for each in counted(collector, 1) if each.name == BUCKET]
    bounds = {float(each.labels["le"]): each.value for each in samples}
    assert sorted(bounds) == [*BUCKETS, float("inf")]
    assert min(bound for bound, count in bounds.items() if count) == (below or float("inf"))


def test_they_count_every_span_whatever_tail_sampling_keeps(start, backend):
    made = otlp.Ids(3)
    with start("sampling.yaml", TORCHSPAN_KEEP_PERCENT="0") as collector:
        otlp.send(collector.http, spans(made, "torch_tensorrt.execute", 50))
        otlp.send(collector.http, spans(made, "torch_tensorrt.compile", 2, attributes={"torchspan.keep": True}))
        samples = counted(collector, 52)
        backend.wait_for(lambda receiver: len(receiver.spans()) == 2)
        assert scraped.total(samples, CALLS, span_name="torch_tensorrt.execute") == 50
        assert collector.complaints() == []
    assert {span.name for span in backend.spans()} == {"torch_tensorrt.compile"}


def test_a_series_continues_over_processes_that_compile_once_and_end(start, backend):
    made = otlp.Ids(4)
    with start() as collector:
        for number in range(4):
            process = {"service.name": "job", "service.instance.id": f"i{number}", "process.pid": 100 + number}
            otlp.send(collector.http, spans(made, "torch_tensorrt.compile", 1), resource=process)
        samples = counted(collector, 4)
        assert [each.value for each in samples if each.name == CALLS] == [4]
        backend.wait_for(lambda receiver: len(receiver.spans()) == 4)
    # The traces keep what the series have not.
    assert {span.resource["service.instance.id"] for span in backend.spans()} == {"i0", "i1", "i2", "i3"}


def test_services_of_different_namespaces_and_environments_are_different_series(start):
    made = otlp.Ids(5)
    with start() as collector:
        for namespace, environment in (("a", "production"), ("b", "production"), ("b", "test")):
            resource = {
                "service.name": "app",
                "service.namespace": namespace,
                "deployment.environment.name": environment,
            }
            otlp.send(collector.http, spans(made, "torch_tensorrt.compile", 1), resource=resource)
        samples = counted(collector, 3)
    labels = ("job", "deployment_environment_name")
    assert sorted(tuple(each.labels[label] for label in labels) for each in samples if each.name == CALLS) == [
        ("a/app", "production"),
        ("b/app", "production"),
        ("b/app", "test"),
    ]


def test_an_exemplar_names_the_trace(start):
    made = otlp.Ids(6)
    (span,) = spans(made, "torch_tensorrt.compile", 1, duration_ms=700)
    with start(TORCHSPAN_METRICS_FLUSH="1s") as collector:
        otlp.send(collector.http, [span])
        samples = scraped.wait_for(
            collector.metrics, lambda found: any(each.exemplar for each in found if each.name == BUCKET)
        )
    (found,) = [each for each in samples if each.exemplar and each.name == BUCKET]
    assert (found.labels["le"], found.exemplar) == (
        "1.0",
        {"trace_id": span.trace_id.hex(), "span_id": span.span_id.hex()},
    )


# --- the probability in the tracestate ----------------------------------------------------------------------------


def run_sampled(collector, rules, runs):
    """Runs of an engine, sampled by torchspan's sampler."""
    exporter = OTLPSpanExporter(endpoint=f"{collector.http}/v1/traces")
    recording = SampledRuns(
        TorchspanSampler(rules),
        processors=[BatchSpanProcessor(exporter, max_queue_size=10_000)],
        ids=TorchspanIdGenerator(),
    )
    engine = TrtEngine()
    for _ in range(runs):
        recording.run([], engine)
    recording.close()
    recording.provider.shutdown()


def states_of(backend):
    """The tracestate of each span."""
    return [
        span.trace_state
        for message in backend.messages()
        for of_resource in message.resource_spans
        for of_scope in of_resource.scope_spans
        for span in of_scope.spans
    ]


def test_a_run_that_torchspan_sampled_counts_for_those_that_it_did_not(start, backend):
    with start() as collector:
        run_sampled(collector, "execute=0.25,execute_per_second=1000000", 2001)
        accepted = scraped.total(scraped.read(collector.own_metrics), ACCEPTED)
        backend.wait_for(lambda receiver: len(receiver.spans()) == accepted)
        samples = counted(collector, 4 * accepted)
    states = states_of(backend)
    assert set(states) == {"ot=th:c"}
    assert 350 < accepted < 650
    assert scraped.total(samples, COUNT) == scraped.total(samples, CALLS)


EQUALIZING = {
    "processors": {"probabilistic_sampler": {"mode": "equalizing", "sampling_percentage": 12.5}},
    "service": {
        "pipelines": {
            "traces/selected": {
                "receivers": ["forward/received"],
                "processors": ["probabilistic_sampler"],
                "exporters": ["forward/selected"],
            }
        }
    },
}


def test_the_collectors_equalizing_sampler_takes_the_probability_up(start, backend):
    """Spans at 25 % are brought to 12.5 %: half of them stay, and record it."""
    with start(EQUALIZING) as collector:
        run_sampled(collector, "execute=0.25,execute_per_second=1000000", 4001)
        received = scraped.total(scraped.read(collector.own_metrics), ACCEPTED)
        collector.stop()
        assert collector.complaints() == []
    states = states_of(backend)
    assert set(states) == {"ot=th:e"}
    assert 0.4 * received < len(states) < 0.6 * received
