# SPDX-License-Identifier: Apache-2.0
"""What a heartbeat becomes: a span of the real SDK, which leaves when that SDK exports; at once in torchspan's own files."""

import pytest
from opentelemetry import context as context_api
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.instrumentation.utils import is_instrumentation_enabled, suppress_instrumentation
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON
from opentelemetry.trace import ProxyTracerProvider

from support import span_file
from support.engines import extend
from support.fake_time import START_NS, FakeTime
from support.tree import named
from torchspan import phase
from torchspan.engine import Engine, Placement
from torchspan.output.writer import ProgressWriter, SpanWriter
from torchspan.sdk import FileSpanExporter
from torchspan.words import semconv


@pytest.fixture
def time(monkeypatch):
    return FakeTime(monkeypatch)


def engine_writing_to(provider):
    engine = Engine()
    extend(engine, SpanWriter(provider))
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
        "torch.model.class": "Net",
        "torch_tensorrt.entry_point": "torch.compile",
    }
    assert (span.start_time, span.end_time) == (START_NS + 5 * 10**9, START_NS + 5 * 10**9)
    for event in (build, conversion, compilation):
        engine.close(event)


@pytest.mark.parametrize(("sampler", "emitted"), [(ALWAYS_ON, 2), (ALWAYS_OFF, 0)])
def test_spans_of_progress_that_are_sampled_are_counted(sampler, emitted):
    provider = TracerProvider(sampler=sampler, shutdown_on_exit=False)
    engine, progress = engine_writing_to(provider), ProgressWriter(provider)
    compilation = engine.open(phase.COMPILE, {})
    for number in (1, 2):
        progress.report(compilation, number)
    assert progress.emitted == emitted
    engine.close(compilation)
    progress.report(compilation, 3)
    assert progress.emitted == emitted


def test_what_is_not_known_is_not_said(engine, exporter, progress):
    build = engine.open(phase.BUILD_ENGINE, {})
    progress.report(build, 0)
    (span,) = exporter.get_finished_spans()
    assert {key for key in span.attributes if key.startswith("torch_tensorrt.")} == set()
    engine.close(build)


def test_a_bounded_target_is_part_of_what_is_running(engine, exporter, progress):
    build = engine.open(phase.BUILD_ENGINE, {})
    step = engine.open(phase.BUILD_PHASE, {}, target="Timing tactics", placement=Placement(build))
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
    reported, whole = named(spans, "torchspan.progress"), named(spans, "torch_tensorrt.compile")
    assert reported.parent.span_id == whole.context.span_id
    assert reported.context.trace_id == whole.context.trace_id
    assert whole.start_time <= reported.start_time < reported.end_time <= whole.end_time


def test_work_that_has_ended_is_not_reported(engine, exporter, progress):
    compilation = engine.open(phase.COMPILE, {})
    engine.close(compilation)
    assert not progress.report(compilation, 1)
    assert [span.name for span in exporter.get_finished_spans()] == ["torch_tensorrt.compile"]


def test_work_that_ends_while_the_span_is_made_is_not_reported(engine, exporter, progress, monkeypatch):
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


def test_work_whose_span_is_not_sampled_is_not_reported():
    exporter, provider = InMemorySpanExporter(), TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    engine, reported = engine_writing_to(provider), InMemorySpanExporter()
    everything = TracerProvider(sampler=ALWAYS_ON, shutdown_on_exit=False)  # whatever is above
    everything.add_span_processor(SimpleSpanProcessor(reported))
    compilation = engine.open(phase.COMPILE, {})
    assert not ProgressWriter(provider).report(compilation, 0)
    assert not ProgressWriter(everything).report(compilation, 0)
    engine.close(compilation)
    assert exporter.get_finished_spans() == reported.get_finished_spans() == ()


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


def test_without_an_sdk_nothing_is_reported_and_nothing_fails():
    engine, progress = engine_writing_to(ProxyTracerProvider()), ProgressWriter()
    compilation = engine.open(phase.COMPILE, {})
    progress.begin(compilation)
    assert not progress.report(compilation, 0)
    progress.flush()
    engine.close(compilation)


def test_a_provider_that_takes_the_place_of_another_gets_the_next_span(monkeypatch):
    providers, exporters = [], []
    for _ in range(2):
        exporters.append(InMemorySpanExporter())
        providers.append(TracerProvider(shutdown_on_exit=False))
        providers[-1].add_span_processor(SimpleSpanProcessor(exporters[-1]))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: providers[0])
    engine, progress = engine_writing_to(None), ProgressWriter()
    compilation = engine.open(phase.COMPILE, {})
    progress.report(compilation, 0)
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: providers[1])
    progress.report(compilation, 1)
    numbers = [
        [span.attributes["torchspan.progress.number"] for span in each.get_finished_spans()] for each in exporters
    ]
    assert numbers == [[0], [1]]
    engine.close(compilation)
    for provider in providers:
        provider.shutdown()


# --- what is flushed ---------------------------------------------------------------------------------------------


HOUR = 3_600_000


@pytest.fixture
def path(tmp_path):
    return tmp_path / "x.jsonl"


@pytest.fixture
def made():
    """Makes providers with such processors; they are shut down after the test."""
    providers = []

    def make(*processors, **options):
        providers.append(TracerProvider(shutdown_on_exit=False, **options))
        for each in processors:
            providers[-1].add_span_processor(each)
        return providers[-1]

    yield make
    for each in providers:
        each.shutdown()


def in_file(path):
    """Name and number of each span in the file, in the order in which they were written."""
    found = span_file.read(path) if path.exists() else []
    return [(span.name, span.attributes.get("torchspan.progress.number")) for span in found]


class Watched(BatchSpanProcessor):
    """Counts how often it is asked to flush."""

    def __init__(self, exporter):
        super().__init__(exporter, schedule_delay_millis=HOUR)
        self.asked = 0

    def force_flush(self, timeout_millis=30_000):
        self.asked += 1
        return super().force_flush(timeout_millis)


def test_no_provider_and_no_processor_of_the_programs_is_flushed(made, exporter):
    processor = Watched(exporter)
    provider = made(processor)
    asked = []
    provider.force_flush = asked.append
    engine, progress = engine_writing_to(provider), ProgressWriter(provider)
    compilation = engine.open(phase.COMPILE, {})
    progress.begin(compilation)
    for number in (1, 2, 3):
        assert progress.report(compilation, number)
        progress.flush()
    assert (processor.asked, asked, exporter.get_finished_spans()) == (0, [], ())
    engine.close(compilation)
    assert (processor.asked, asked, exporter.get_finished_spans()) == (0, [], ())


def test_with_a_simple_processor_a_heartbeat_leaves_like_any_span(made, exporter):
    provider = made(SimpleSpanProcessor(exporter))
    engine, progress = engine_writing_to(provider), ProgressWriter(provider)
    compilation = engine.open(phase.COMPILE, {})
    progress.begin(compilation)
    progress.report(compilation, 1)
    progress.flush()
    assert [span.attributes["torchspan.progress.number"] for span in exporter.get_finished_spans()] == [1]
    engine.close(compilation)


def test_a_heartbeat_is_in_torchspans_own_file_at_once_with_what_ended_before(made, path, exporter):
    other = Watched(exporter)
    provider = made(BatchSpanProcessor(FileSpanExporter(path), schedule_delay_millis=HOUR), other)
    engine, progress = engine_writing_to(provider), ProgressWriter(provider)
    compilation = engine.open(phase.COMPILE, {})
    engine.close(engine.open(phase.LOWER, {}))
    progress.report(compilation, 1)
    progress.flush()
    assert in_file(path) == [("torch_tensorrt.lower", None), ("torchspan.progress", 1)]
    assert (other.asked, exporter.get_finished_spans()) == (0, ())
    engine.close(compilation)


@pytest.mark.parametrize("processor", [BatchSpanProcessor, SimpleSpanProcessor])
def test_the_start_of_the_work_is_in_torchspans_own_file_alone(made, path, exporter, processor):
    provider = made(processor(FileSpanExporter(path)), SimpleSpanProcessor(exporter))
    engine, progress = engine_writing_to(provider), ProgressWriter(provider)
    compilation = engine.open(phase.COMPILE, {semconv.MODEL_CLASS: "Net", semconv.ENTRY_POINT: "torch.compile"})
    progress.begin(compilation)
    (span,) = span_file.read(path)
    assert exporter.get_finished_spans() == ()
    engine.close(compilation)
    (whole,) = exporter.get_finished_spans()
    assert (span.name, span.trace_id, span.parent_id) == (
        "torchspan.progress",
        f"{whole.context.trace_id:032x}",
        f"{whole.context.span_id:016x}",
    )
    assert (span.start_ns, span.end_ns) == (whole.start_time, whole.start_time)
    assert (span.scope, span.resource["service.name"]) == ("torchspan", provider.resource.attributes["service.name"])
    assert dict(span.attributes) == {
        "torchspan.keep": True,
        "torchspan.progress.work": "torch_tensorrt.compile",
        "torchspan.progress.elapsed": 0.0,
        "torchspan.progress.running": "torch_tensorrt.compile",
        "torchspan.progress.running_elapsed": 0.0,
        "torchspan.progress.number": 0,
        "torch.model.class": "Net",
        "torch_tensorrt.entry_point": "torch.compile",
    }


def test_the_start_of_the_work_obeys_the_limits_of_the_provider(made, path, monkeypatch):
    monkeypatch.setenv("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "3")
    monkeypatch.setenv("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "13")
    provider = made(SimpleSpanProcessor(FileSpanExporter(path)))
    engine, progress = engine_writing_to(provider), ProgressWriter(provider)
    compilation = engine.open(
        phase.COMPILE, {semconv.MODEL_CLASS: "NetworkOfLayers", semconv.ENTRY_POINT: "torch.compile"}
    )
    progress.begin(compilation)
    (span,) = span_file.read(path)
    assert dict(span.attributes) == {
        "torchspan.progress.number": 0,
        "torch.model.class": "NetworkOfLaye",
        "torch_tensorrt.entry_point": "torch.compile",
    }
    engine.close(compilation)


def test_the_start_of_work_that_is_not_sampled_is_in_no_file(made, path):
    provider = made(SimpleSpanProcessor(FileSpanExporter(path)), sampler=ALWAYS_OFF)
    engine, progress = engine_writing_to(provider), ProgressWriter(provider)
    compilation = engine.open(phase.COMPILE, {})
    progress.begin(compilation)
    engine.close(compilation)
    assert in_file(path) == []


@pytest.mark.parametrize("processors", [None, 3, [object()]])
def test_another_sdk_or_version_has_its_heartbeats_and_nothing_is_flushed(exporter, provider, processors):
    class Foreign(trace.TracerProvider):
        def __init__(self):
            self._active_span_processor = type("Processors", (), {"_span_processors": processors})()

        def get_tracer(self, *args, **kwargs):
            return provider.get_tracer(*args, **kwargs)

        def force_flush(self, timeout_millis=30_000):
            raise AssertionError("flushed")

    engine, progress = engine_writing_to(Foreign()), ProgressWriter(Foreign())
    compilation = engine.open(phase.COMPILE, {})
    progress.begin(compilation)
    progress.report(compilation, 1)
    progress.flush()
    assert [span.name for span in exporter.get_finished_spans()] == ["torchspan.progress"]
    engine.close(compilation)
