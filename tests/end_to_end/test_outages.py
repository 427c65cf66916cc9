# SPDX-License-Identifier: Apache-2.0
"""Real compilations while a part of the route is down, slow, refuses or is killed: the program notices none of it, and what does
not arrive is counted.
"""

import contextlib
import gc
from collections import Counter
from functools import partial

import pytest
import torch
import torch_tensorrt
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcSpanExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import running
from support import backends, fetched, hostile_endpoints, models, otlp, scraped
from support.metrics import Metrics
from support.receiver import Receiver
from torchspan import TorchspanInstrumentor
from torchspan.sdk import FileSpanExporter

pytestmark = [pytest.mark.needs("otelcol-torchspan", "jaeger"), pytest.mark.slow]

ACCEPTED, FAILED = "otelcol_receiver_accepted_spans", "otelcol_exporter_send_failed_spans"
DECISIONS = "otelcol_processor_tail_sampling_global_count_traces_sampled"
RETRYING = {
    "exporters": {"otlp_http/backend": {"retry_on_failure": {"initial_interval": "100ms", "max_interval": "200ms"}}}
}
"""Over base.yaml, so that the tests need not wait for its pauses."""


def work():
    """What the program is for: numbers out of a model that is compiled first."""
    torch._dynamo.reset()
    gc.collect()
    gc.disable()  # Torch-TensorRT's runtime cache makes a tensor when it is finalized, which would break a trace
    try:
        with torch.no_grad():
            x = torch.linspace(-1, 1, 32).reshape(2, 16)
            module = torch_tensorrt.compile(models.seeded(models.Mlp), ir="dynamo", inputs=[x], min_block_size=1)
            return module(x).tolist()
    finally:
        gc.enable()


def failing_work():
    """A compilation that raises."""
    with torch.no_grad(), pytest.raises(AssertionError):
        torch_tensorrt.compile(
            models.seeded(models.Fallback),
            ir="dynamo",
            inputs=[models.image()],
            min_block_size=1,
            require_full_compilation=True,
        )


class Program:
    """This process as a program with torchspan, whose spans go to some exporters, each by a batch processor of its own.

    delay_s: for which a processor collects spans, where it is not flushed. queue: options of its queue.
    """

    def __init__(self, *exporters, delay_s=0.1, **queue):
        self.ended, self.measured = InMemorySpanExporter(), Metrics()
        self.provider = TracerProvider(resource=Resource({"service.name": "app"}), shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self.ended))
        self._of_sdk = InMemoryMetricReader()
        meters = MeterProvider([self._of_sdk], shutdown_on_exit=False)
        for make in exporters:
            exporter = make(meter_provider=meters) if isinstance(make, partial) else make
            batches = BatchSpanProcessor(exporter, schedule_delay_millis=1000 * delay_s, meter_provider=meters, **queue)
            self.provider.add_span_processor(batches)

    def __enter__(self):
        TorchspanInstrumentor().instrument(
            tracer_provider=self.provider, meter_provider=self.measured.provider, heartbeat="0"
        )
        return self

    def __exit__(self, *_):
        TorchspanInstrumentor().uninstrument()
        self.provider.shutdown()

    def messages(self):
        """What it emitted so far, as messages of OTLP."""
        return [encode_spans(self.ended.get_finished_spans())]

    def emitted_by(self, work):
        """What work emits, as messages, and the ids of its traces; and what it returned."""
        before = len(self.ended.get_finished_spans())
        result = work()
        spans = self.ended.get_finished_spans()[before:]
        return [encode_spans(spans)], result

    def dropped(self):
        """`queue` or `exporter` → spans that the SDK lost there, as its own metrics say."""
        places = {"otel.sdk.processor.span.processed": "queue", "otel.sdk.exporter.span.exported": "exporter"}
        lost = Counter()
        for name, point in self._points():
            if name in places and "error.type" in point.attributes:
                lost[places[name]] += point.value
        assert self.measured.read().get("torchspan.span.dropped") is None
        return dict(lost)

    def refused(self):
        """The statuses of HTTP with which batches were refused: the SDK counts their spans as exported."""
        return {
            point.attributes["http.response.status_code"]
            for name, point in self._points()
            if name == "otel.sdk.exporter.operation.duration" and "http.response.status_code" in point.attributes
        }

    def _points(self):
        for of_resource in self._of_sdk.get_metrics_data().resource_metrics:
            for metric in (metric for scope in of_resource.scope_metrics for metric in scope.metrics):
                yield from ((metric.name, point) for point in metric.data.data_points)


def over_http(url, timeout=60):
    return partial(HttpSpanExporter, endpoint=f"{url}/v1/traces", timeout=timeout)


def over_grpc(port, timeout=60):
    return partial(GrpcSpanExporter, endpoint=f"127.0.0.1:{port}", insecure=True, timeout=timeout)


@pytest.fixture(scope="module", autouse=True)
def _sdk_measures_itself():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OTEL_PYTHON_SDK_INTERNAL_METRICS_ENABLED", "true")
        yield


@pytest.fixture(scope="module")
def expected():
    """What the program computes without torchspan."""
    return work()


def accepted(collector, count):
    scraped.wait_for(collector.own_metrics, lambda found: scraped.total(found, ACCEPTED) == count)


def found_in(jaeger, messages):
    """Whether Jaeger gives back all these spans, with what it keeps; AssertionError where it never does."""
    found = fetched.in_any_order(fetched.whole(fetched.from_jaeger, jaeger, messages))
    return otlp.plain(found) == otlp.plain(fetched.as_kept_by_jaeger(jaeger, messages))


# --- the Collector is the part that fails -------------------------------------------------------------------------


def bad_endpoints(stack):
    """Exporters to endpoints of each bad kind."""

    def port(endpoint):
        return stack.enter_context(endpoint).port

    nothing = hostile_endpoints.closed_port()
    http = [
        nothing,
        port(hostile_endpoints.Endpoint(hostile_endpoints.CLOSE)),
        port(hostile_endpoints.Endpoint(hangs=True)),
        port(hostile_endpoints.Endpoint(b"SSH-2.0-OpenSSH\r\n")),
        port(hostile_endpoints.http(503)),
        port(hostile_endpoints.http(401)),
    ]
    grpc = [
        nothing,
        port(hostile_endpoints.GrpcEndpoint("UNAVAILABLE")),
        port(hostile_endpoints.GrpcEndpoint("PERMISSION_DENIED")),
        port(hostile_endpoints.GrpcEndpoint(hangs=True)),
    ]
    return [
        *(over_http(f"http://127.0.0.1:{each}", timeout=1) for each in http),
        *(over_grpc(each, timeout=1) for each in grpc),
    ]


@pytest.mark.fault(
    "exporters",
    "every bad endpoint: refuses, closes, hangs, answers garbage, 503, 401",
    lost="all spans for it",
    counted="otel.sdk.exporter.span.exported",
)
def test_collectors_of_every_bad_kind_change_no_result_and_each_span_that_they_lose_is_counted(expected):
    with contextlib.ExitStack() as stack, Receiver() as good:
        exporters = bad_endpoints(stack)
        with Program(over_http(good.url), *exporters) as program:
            assert work() == expected
            emitted = otlp.plain(program.messages())
            lost = (len(exporters) - 2) * len(emitted)
            otlp.wait_until(lambda: program.dropped() == {"exporter": lost})
            otlp.wait_until(lambda: program.refused() == {401, 503})
            good.wait_for(lambda receiver: len(receiver.spans()) == len(emitted))
        assert program.dropped() == {"exporter": lost}
    assert otlp.plain(good.messages()) == emitted


@pytest.mark.fault(
    "exporters",
    "the Collector hangs until the queue is full",
    lost="what the queue has no room for",
    counted="otel.sdk.processor.span.processed",
)
def test_what_a_full_queue_drops_alongside_a_collector_that_hangs_is_counted_too(expected):
    with (
        hostile_endpoints.Endpoint(hangs=True) as collector,
        Program(
            over_http(f"http://127.0.0.1:{collector.port}", timeout=3),
            delay_s=3600,
            max_queue_size=4,
            max_export_batch_size=4,
        ) as program,
    ):
        assert work() == expected
        program.provider.force_flush()
        emitted, dropped = len(otlp.plain(program.messages())), program.dropped()
    assert emitted > 8
    assert dropped.keys() == {"queue", "exporter"}
    assert sum(dropped.values()) == emitted


# --- the backend is the part that fails ---------------------------------------------------------------------------

BACKENDS = {
    "is down": lambda: contextlib.nullcontext(),
    "never answers": lambda: hostile_endpoints.Endpoint(hangs=True),
    "answers a byte at a time": lambda: hostile_endpoints.Dripping(),
    "closes connections": lambda: hostile_endpoints.Endpoint(hostile_endpoints.CLOSE),
    "is overloaded": lambda: hostile_endpoints.http(503),
}


@pytest.mark.fault("exporters", "the backend behind the Collector fails for a while")
@pytest.mark.parametrize("kind", BACKENDS)
def test_a_compilation_is_in_jaeger_once_the_backend_that_failed_works_again(kind, expected):
    with contextlib.ExitStack() as stack:
        with BACKENDS[kind]() as backend:
            port = backend.port if backend else running.free_ports(1)[0]
            collector = stack.enter_context(start(f"http://127.0.0.1:{port}"))
            with Program(over_http(collector.http)) as program:
                emitted, result = program.emitted_by(work)
                assert program.provider.force_flush()
            assert (result, program.dropped()) == (expected, {})
            accepted(collector, len(otlp.plain(emitted)))
            if backend:
                otlp.wait_until(lambda: backend.requests)
        with backends.jaeger(JAEGER_OTLP_PORT=port) as jaeger:
            assert found_in(jaeger, emitted)


def start(url, *layers, data=None, **environment):
    return backends.collector(
        "base.yaml", RETRYING, *layers, environment={"TORCHSPAN_OTLP_ENDPOINT": url, **environment}, data=data
    )


@pytest.mark.fault(
    "exporters",
    "the backend behind the Collector refuses for good",
    lost="all spans",
    counted="the Collector: otelcol_exporter_send_failed_spans",
)
def test_what_a_backend_refuses_for_good_is_counted_by_the_collector_and_not_by_the_program(expected):
    with (
        hostile_endpoints.http(401) as backend,
        start(f"http://127.0.0.1:{backend.port}") as collector,
        Program(over_http(collector.http)) as program,
    ):
        emitted, result = program.emitted_by(work)
        assert program.provider.force_flush()
        count = len(otlp.plain(emitted))
        scraped.wait_for(collector.own_metrics, lambda found: scraped.total(found, FAILED) == count)
        assert (result, program.dropped()) == (expected, {})
        assert any("Dropping data" in line for line in collector.complaints())


def test_a_jaeger_that_is_killed_and_starts_again_has_what_was_compiled_since(expected):
    with backends.jaeger() as before, start(before.otlp) as collector, Program(over_http(collector.http)) as program:
        first, _ = program.emitted_by(work)
        assert found_in(before, first)
        before.kill()
        second, result = program.emitted_by(work)
        assert program.provider.force_flush()
        with backends.jaeger(JAEGER_OTLP_PORT=before.otlp.rpartition(":")[2]) as after:
            assert found_in(after, second)
        assert (result, program.dropped()) == (expected, {})


# --- the Collector is killed --------------------------------------------------------------------------------------


class Killed:
    """A Collector that samples is killed while Jaeger is down, and both start again; what happened to three compilations.

    decided: of a trace that was decided before. undecided: accepted, and not decided. away: while no Collector ran.
    """

    def __init__(self, data):
        jaeger_port, grpc_port = running.free_ports(2)

        def start_here():
            variables = {"TORCHSPAN_GRPC_PORT": str(grpc_port), "TORCHSPAN_KEEP_PERCENT": "100"}
            url = f"http://127.0.0.1:{jaeger_port}"
            return start(url, "sampling.yaml", data=data, TORCHSPAN_DECISION_WAIT="3s", **variables)

        with Program(over_grpc(grpc_port), delay_s=3600) as program:
            with start_here() as collector:
                self.decided, first = program.emitted_by(work)
                assert program.provider.force_flush()
                traces = len(fetched.trace_ids(self.decided))
                scraped.wait_for(collector.own_metrics, lambda found: scraped.total(found, DECISIONS) == traces)
                self.undecided, second = program.emitted_by(failing_work)
                assert program.provider.force_flush()
                accepted(collector, len(otlp.plain(program.messages())))
                collector.kill()
            self.away, third = program.emitted_by(work)
            with start_here(), backends.jaeger(JAEGER_OTLP_PORT=jaeger_port) as jaeger:
                assert program.provider.force_flush(60_000)
                self.found_decided, self.found_away = (found_in(jaeger, each) for each in (self.decided, self.away))
                self.found_undecided = [
                    len(fetched.spans([fetched.from_jaeger(jaeger, trace_id)]))
                    for trace_id in fetched.trace_ids(self.undecided)
                ]
            self.dropped = program.dropped()
        self.results = (first, second, third)


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    return Killed(tmp_path_factory.mktemp("queue"))


def test_a_collector_that_is_killed_changes_no_result(killed, expected):
    assert killed.results == (expected, None, expected)


def test_a_compilation_that_was_decided_before_the_kill_is_in_jaeger_afterwards(killed):
    assert killed.found_decided


def test_the_one_trace_that_was_not_decided_is_what_a_kill_loses(killed):
    assert killed.found_undecided == [0]


def test_a_compilation_while_the_collector_is_away_arrives_when_it_is_back(killed):
    assert killed.found_away


def test_of_what_was_accepted_the_program_counts_nothing_as_dropped(killed):
    assert killed.dropped == {}


# --- a file instead of the network --------------------------------------------------------------------------------


def test_the_file_of_real_compilations_that_is_replayed_equals_the_live_route(tmp_path):
    with Receiver() as live, start(live.url) as collector:
        with Program(over_http(collector.http), FileSpanExporter(tmp_path / "traces.jsonl")) as program:
            work()
            failing_work()
            assert program.provider.force_flush()
            emitted = otlp.plain(program.messages())
        live.wait_for(lambda receiver: len(receiver.spans()) == len(emitted))
    with Receiver() as replayed, start(replayed.url, "file.yaml", TORCHSPAN_FILES=f"{tmp_path}/*.jsonl"):
        replayed.wait_for(lambda receiver: len(receiver.spans()) >= len(emitted))
        assert otlp.plain(replayed.messages()) == otlp.plain(live.messages()) == emitted
        assert len(replayed.spans()) == len(emitted)
