# SPDX-License-Identifier: Apache-2.0
"""What a heartbeat becomes: a span of the real SDK, exported at once."""

import pytest
from opentelemetry import context as context_api
from opentelemetry import metrics, trace
from opentelemetry.context import Context
from opentelemetry.instrumentation.utils import is_instrumentation_enabled, suppress_instrumentation
from opentelemetry.metrics import Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON
from opentelemetry.trace import ProxyTracerProvider

from support.engines import extend
from support.fake_time import START_NS, FakeTime
from support.receiver import Receiver
from support.tree import named
from torchspan import phase, semconv
from torchspan.engine import ActiveWork, Below, Engine
from torchspan.sdk import FileSpanExporter
from torchspan.writer import ProgressWriter, SpanWriter


@pytest.fixture
def time(monkeypatch):
    return FakeTime(monkeypatch)


def engine_writing_to(provider):
    engine = Engine()
    extend(engine, SpanWriter(provider).callback)
    return engine


@pytest.fixture
def engine(provider):
    return engine_writing_to(provider)


@pytest.fixture
def progress(provider):
    return ProgressWriter(provider)


def test_the_span_says_what_is_running_and_for_how_long(engine, exporter, progress, time):
    compilation = engine.open(phase.COMPILE, {semconv.MODEL_CLASS: "Net", semconv.ENTRY_POINT: "torch.compile"})
    time.jump(2)
    conversion = engine.open(phase.CONVERT, {semconv.ENGINE_NAME: "_run_on_acc_0"})
    build = engine.open(phase.BUILD_ENGINE, {})
    time.jump(3)

    assert progress.report(compilation, 4)

    (span,) = exporter.get_finished_spans()
    assert span.name == "torchspan.progress"
    assert dict(span.attributes) == {
        "torchspan.keep": True,
        "torchspan.progress.work": "torch_tensorrt.compile",
        "torchspan.progress.elapsed": 5.0,
        "torchspan.progress.running": "tensorrt.build_engine",
        "torchspan.progress.running_elapsed": 3.0,
        "torchspan.progress.number": 4,
        "torch_tensorrt.engine.name": "_run_on_acc_0",
        "torch_tensorrt.model.class": "Net",
        "torch_tensorrt.entry_point": "torch.compile",
    }
    assert (span.start_time, span.end_time) == (START_NS + 5 * 10**9, START_NS + 5 * 10**9)
    for event in (build, conversion, compilation):
        engine.close(event)


def test_what_is_not_known_is_not_said(engine, exporter, progress):
    build = engine.open(phase.BUILD_ENGINE, {})
    progress.report(build, 0)
    (span,) = exporter.get_finished_spans()
    assert {key for key in span.attributes if key.startswith("torch_tensorrt.")} == set()
    engine.close(build)


def test_a_bounded_target_is_part_of_what_is_running(engine, exporter, progress):
    build = engine.open(phase.BUILD_ENGINE, {})
    step = engine.open(phase.BUILD_PHASE, {}, target="Timing tactics", placement=Below(build))
    progress.report(build, 0)
    (span,) = exporter.get_finished_spans()
    assert span.attributes["torchspan.progress.running"] == "tensorrt.build_phase Timing tactics"
    engine.close(step)
    engine.close(build)


def test_between_two_parts_the_work_itself_is_what_is_running(engine, exporter, progress):
    compilation = engine.open(phase.COMPILE, {})
    engine.close(engine.open(phase.LOWER, {}))
    progress.report(compilation, 0)
    span = named(exporter.get_finished_spans(), "torchspan.progress")
    assert span.attributes["torchspan.progress.running"] == "torch_tensorrt.compile"
    engine.close(compilation)


def test_the_span_stands_in_the_trace_of_the_work_and_inside_its_time(engine, exporter, progress, tracer):
    with tracer.start_as_current_span("request"):
        compilation = engine.open(phase.COMPILE, {})
        build = engine.open(phase.BUILD_ENGINE, {})
        progress.report(compilation, 0)
        engine.close(build)
        engine.close(compilation)
    spans = exporter.get_finished_spans()
    told, whole = named(spans, "torchspan.progress"), named(spans, "torch_tensorrt.compile")
    assert told.parent.span_id == whole.context.span_id
    assert told.context.trace_id == whole.context.trace_id
    assert whole.start_time <= told.start_time < told.end_time <= whole.end_time


def test_work_that_has_ended_is_not_told_of(engine, exporter, progress):
    compilation = engine.open(phase.COMPILE, {})
    engine.close(compilation)
    assert not progress.report(compilation, 1)
    assert [span.name for span in exporter.get_finished_spans()] == ["torch_tensorrt.compile"]


def test_work_that_ends_while_the_span_is_made_is_not_told_of(engine, exporter, progress, monkeypatch):
    """The end comes between the decision to tell and the writing."""
    compilation = engine.open(phase.COMPILE, {})
    running = type(compilation).innermost_running

    def ends_meanwhile(event):
        found = running(event)
        engine.close(event)
        return found

    monkeypatch.setattr(type(compilation), "innermost_running", ends_meanwhile)
    assert not progress.report(compilation, 1)
    assert [span.name for span in exporter.get_finished_spans()] == ["torch_tensorrt.compile"]


def test_an_event_is_no_longer_open_when_the_time_of_its_end_is_read(engine):
    """So that a time which was read while the event was open never lies behind its end."""
    compilation = engine.open(phase.COMPILE, {})
    seen = []
    read = compilation.anchor.now_ns

    class Watched:
        def now_ns(self):
            seen.append(compilation.is_open)
            return read()

    compilation.anchor = Watched()
    engine.close(compilation)
    assert seen == [False]


def test_work_whose_span_is_not_sampled_is_not_told_of():
    exporter, provider = InMemorySpanExporter(), TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    engine, told = engine_writing_to(provider), InMemorySpanExporter()
    everything = TracerProvider(sampler=ALWAYS_ON, shutdown_on_exit=False)  # whatever is above
    everything.add_span_processor(SimpleSpanProcessor(told))
    compilation = engine.open(phase.COMPILE, {})
    assert not ProgressWriter(provider).report(compilation, 0)
    assert not ProgressWriter(everything).report(compilation, 0)
    engine.close(compilation)
    assert exporter.get_finished_spans() == told.get_finished_spans() == ()


def test_processors_see_a_span_like_any_other_though_nothing_in_the_thread_is_traced(engine, provider, progress):
    class Seeing(SpanProcessor):
        def on_start(self, span, parent_context=None):
            token = context_api.attach(parent_context or Context())
            seen.append((span.name, is_instrumentation_enabled()))
            context_api.detach(token)

    seen = []
    compilation = engine.open(phase.COMPILE, {})
    provider.add_span_processor(Seeing())
    with suppress_instrumentation():
        assert progress.report(compilation, 0)
    assert seen == [("torchspan.progress", True)]
    engine.close(compilation)


def test_without_an_sdk_nothing_is_told_and_nothing_fails():
    engine, progress = engine_writing_to(ProxyTracerProvider()), ProgressWriter()
    compilation = engine.open(phase.COMPILE, {})
    assert not progress.report(compilation, 0)
    progress.flush()
    engine.close(compilation)


def test_a_provider_that_takes_the_place_of_another_gets_the_next_span(monkeypatch):
    providers, exporters = [], []
    for _ in range(2):
        exporters.append(InMemorySpanExporter())
        providers.append(TracerProvider(shutdown_on_exit=False))
        providers[-1].add_span_processor(BatchSpanProcessor(exporters[-1], schedule_delay_millis=3_600_000))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: providers[0])
    engine, progress = engine_writing_to(None), ProgressWriter()
    compilation = engine.open(phase.COMPILE, {})
    progress.report(compilation, 0)
    progress.flush()
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: providers[1])
    progress.report(compilation, 1)
    progress.flush()
    numbers = [
        [span.attributes["torchspan.progress.number"] for span in each.get_finished_spans()] for each in exporters
    ]
    assert numbers == [[0], [1]]
    engine.close(compilation)
    for provider in providers:
        provider.shutdown()


# --- exported at once --------------------------------------------------------------------------------------------


@pytest.fixture
def receiver():
    with Receiver() as receiver:
        yield receiver


@pytest.fixture
def telling():
    """Tells once, through a provider with that processor, and has it exported; the compilation is still going on."""
    cleanup = []

    def tell(processor):
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(processor)
        engine, progress = engine_writing_to(provider), ProgressWriter(provider)
        compilation = engine.open(phase.COMPILE, {})
        cleanup.extend((lambda: engine.close(compilation), provider.shutdown))
        assert progress.report(compilation, 0)
        progress.flush()

    yield tell
    for each in cleanup:
        each()


def test_over_a_socket_with_a_batch_processor(receiver, telling):
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    telling(BatchSpanProcessor(OTLPSpanExporter(f"{receiver.url}/v1/traces"), schedule_delay_millis=3_600_000))
    assert [span.name for span in receiver.spans()] == ["torchspan.progress"]


def test_over_a_socket_with_a_simple_processor(receiver, telling):
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    telling(SimpleSpanProcessor(OTLPSpanExporter(f"{receiver.url}/v1/traces")))
    assert [span.name for span in receiver.spans()] == ["torchspan.progress"]


def test_into_a_file(telling, tmp_path):
    telling(BatchSpanProcessor(FileSpanExporter(tmp_path / "x.jsonl"), schedule_delay_millis=3_600_000))
    assert '"name":"torchspan.progress"' in (tmp_path / "x.jsonl").read_text()


def test_a_provider_that_cannot_be_flushed_is_written_to(exporter, provider):
    class Foreign(trace.TracerProvider):
        def get_tracer(self, *args, **kwargs):
            return provider.get_tracer(*args, **kwargs)

    engine, progress = engine_writing_to(Foreign()), ProgressWriter(Foreign())
    compilation = engine.open(phase.COMPILE, {})
    progress.report(compilation, 0)
    progress.flush()
    assert [span.name for span in exporter.get_finished_spans()] == ["torchspan.progress"]
    engine.close(compilation)


class Unwilling:
    def __init__(self, error):
        self.error, self.asked = error, []

    def force_flush(self, timeout_millis):
        self.asked.append(timeout_millis)
        raise self.error


def test_a_metrics_provider_whose_collector_is_down_is_no_failure(caplog, provider):
    unwilling = Unwilling(RuntimeError("collector is down"))
    for _ in range(5):
        ProgressWriter(provider, unwilling).flush()
    assert unwilling.asked == [5000] * 5
    assert caplog.messages == []


def test_a_provider_that_takes_long_is_left_alone_for_a_minute_and_the_other_is_not(provider):
    class Flushed:
        def __init__(self, seconds=0):
            self.seconds, self.at = seconds, []

        def force_flush(self, timeout_millis):
            self.at.append(clock[0])
            clock[0] += self.seconds

        def get_tracer(self, *args, **kwargs):
            return provider.get_tracer(*args, **kwargs)

    clock = [0]
    spans, measured = Flushed(), Flushed(7)
    engine, progress = engine_writing_to(provider), ProgressWriter(spans, measured, lambda: clock[0])
    compilation = engine.open(phase.COMPILE, {})
    progress.report(compilation, 0)
    for time in (0, 10, 66, 67):
        clock[0] = time
        progress.flush()
    assert spans.at == [0, 10, 66, 67]
    assert measured.at == [0, 67]
    engine.close(compilation)


def measuring(active):
    """A provider with a gauge of the active work, and a reader that is asked by nobody but `force_flush`."""

    class Reader(InMemoryMetricReader):
        def force_flush(self, timeout_millis=10_000):
            self.collect(timeout_millis=timeout_millis)
            (resource,) = self.get_metrics_data().resource_metrics
            (metric,) = resource.scope_metrics[0].metrics
            seen.append(metric.data.data_points[0].value)
            return True

    seen = []
    meter_provider = MeterProvider([Reader()], shutdown_on_exit=False)
    gauge = meter_provider.get_meter("test").create_observable_gauge
    gauge("active", callbacks=[lambda _options: [Observation(len(active))]])
    return meter_provider, seen


@pytest.mark.parametrize("is_global", [False, True])
def test_metrics_are_sent_with_it(engine, provider, monkeypatch, is_global):
    active = ActiveWork()
    extend(engine, active.callback)
    meter_provider, seen = measuring(active)
    if is_global:
        monkeypatch.setattr("torchspan.writer._progress.get_meter_provider", lambda: meter_provider)
    progress = ProgressWriter(provider, None if is_global else meter_provider)
    compilation = engine.open(phase.COMPILE, {})
    progress.report(compilation, 0)
    progress.flush()
    engine.close(compilation)
    progress.flush()
    assert seen == [1, 0]
    assert is_global or metrics.get_meter_provider() is not meter_provider
