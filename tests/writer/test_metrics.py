# SPDX-License-Identifier: Apache-2.0
"""Events of the engine as metrics of the real SDK; no library is observed here."""

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from opentelemetry import trace
from opentelemetry.instrumentation.utils import suppress_instrumentation
from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

import torchspan
from support.engines import extend
from support.fake_time import FakeTime
from support.metrics import Metrics
from support.own_failures import consequences
from support.ports import make_ports
from torchspan import phase
from torchspan.engine import Engine
from torchspan.engine.run_times import HELD
from torchspan.hooks.adapters import Provenance
from torchspan.hooks.adapters.engine_runs import wrap_run
from torchspan.hooks.adapters.machinery.wrap import WrapperFactory
from torchspan.hooks.probes import PROBES, Runs
from torchspan.output.writer import MetricWriter, ServingMarks, SpanWriter
from torchspan.output.writer._instruments import Instruments
from torchspan.words import semconv


class Bridge:
    """Engine and writers as the session puts them together, with one observed operator."""

    def __init__(self, tracer_provider, meter_provider):
        self.engine = Engine()
        self.spans = SpanWriter(tracer_provider)
        extend(self.engine, ServingMarks(), self.spans)
        self.metrics = MetricWriter(self.engine, meter_provider, dropped={"budget": lambda: self.spans.dropped})
        extend(self.engine, *self.metrics.listeners)
        self.provenance = Provenance()
        factory = WrapperFactory(self.engine, self.provenance)
        ports = make_ports()
        for name, of in (("operator", phase.EXECUTE), ("context", phase.RUN_CONTEXT)):
            probe = next(each for each in PROBES if isinstance(each.action, Runs) and each.action.phase is of)
            setattr(self, name, partial(wrap_run, factory, ports, probe.target, probe.action))

    def event(self, of_phase, facts=None, additions=None, error=None):
        event = self.engine.open(of_phase, facts or {})
        event.additions.update(additions or {})
        self.engine.close(event, error)
        return event

    def close(self):
        self.engine.stop()
        self.metrics.stop()


class TrtEngine:
    """Stands for the engine that runs."""


@pytest.fixture
def bridge(provider, metrics):
    bridge = Bridge(provider, metrics.provider)
    yield bridge
    metrics.read()
    bridge.close()


def seconds(event):
    return (event.end_ns - event.start_ns) / 1e9


# --- events -----------------------------------------------------------------------------------------------------


def test_a_compilations_duration_is_that_of_its_event(bridge, metrics):
    event = bridge.event(phase.COMPILE, {semconv.ENTRY_POINT: "torch.compile"})
    (point,) = metrics.read()["torch_tensorrt.compile.duration"]
    assert point.attributes == {
        "torch_tensorrt.entry_point": "torch.compile",
        "torch_tensorrt.compile.outcome": "complete",
    }
    assert (point.count, point.sum) == (1, seconds(event))


def test_every_other_phase_is_in_one_metric_by_its_name_without_the_target(bridge, metrics):
    bridge.event(phase.LOWER)
    event = bridge.engine.open(phase.PASS, {}, target="constant_fold")
    bridge.engine.close(event)
    assert metrics.counts("torch_tensorrt.phase.duration", "torchspan.phase") == {
        "torch_tensorrt.lower": 1,
        "torch_tensorrt.pass": 1,
    }


def test_what_failed_has_the_class_of_its_exception(bridge, metrics):
    bridge.event(phase.COMPILE, error=ValueError("secret"))
    bridge.event(phase.BUILD_ENGINE, additions={semconv.ERROR_TYPE: "engine_build_failed"})
    assert metrics.counts("torch_tensorrt.compile.duration", "error.type") == {"ValueError": 1}
    assert metrics.counts("torch_tensorrt.phase.duration", "error.type") == {"engine_build_failed": 1}


def test_no_model_engine_or_shape_is_an_attribute(bridge, metrics):
    facts = {semconv.MODEL_CLASS: "Secret", semconv.ENGINE_NAME: "_run_on_acc_0", semconv.INPUT_SHAPES: ["[1]"]}
    for each in phase.PHASES:
        bridge.event(each, {key: value for key, value in facts.items() if each in key.on})
    reported = [point.attributes for points in metrics.read().values() for point in points]
    assert reported
    assert all(attributes.keys() <= {"torchspan.phase", "torch_tensorrt.compile.outcome"} for attributes in reported)


def test_a_lookup_is_counted_once_though_the_conversion_around_it_knows_the_result_too(metrics):
    bridge = Bridge(None, metrics.provider)
    conversion = bridge.engine.open(phase.CONVERT, {})
    bridge.event(phase.CACHE_LOOKUP, additions={semconv.CACHE_RESULT: "hit"})
    conversion.additions[semconv.CACHE_RESULT] = "hit"
    bridge.engine.close(conversion)
    bridge.event(phase.CONVERT, additions={semconv.CACHE_RESULT: "disabled"})
    bridge.event(phase.CACHE_INSERT, additions={semconv.CACHE_RESULT: "inserted"})
    lookups = metrics.values("torch_tensorrt.engine_cache.lookups", "torch_tensorrt.engine_cache.result")
    assert lookups == {"hit": 1, "disabled": 1}
    bridge.close()


TOTALS = {
    semconv.FALLBACK_TOTAL_REASONS: ["no_converter", "min_block_size"],
    semconv.FALLBACK_TOTAL_OPERATORS: [5, 2],
    semconv.FALLBACK_TOTAL_SUBGRAPHS: [3, 0],
}


def test_the_metric_writer_leaves_nothing_in_the_scratch_space_of_an_event(bridge):
    conversion = bridge.engine.open(phase.CONVERT, {})
    lookup = bridge.event(phase.CACHE_LOOKUP, additions={semconv.CACHE_RESULT: "hit"})
    bridge.engine.close(conversion)
    assert [each.scratch for each in (conversion, lookup)] == [{}, {}]


def test_a_lookup_with_no_conversion_around_it_is_counted(bridge, metrics):
    bridge.event(phase.CACHE_LOOKUP, additions={semconv.CACHE_RESULT: "miss"})
    assert metrics.values("torch_tensorrt.engine_cache.lookups", "torch_tensorrt.engine_cache.result") == {"miss": 1}


def test_the_size_of_an_engine_is_recorded_once_for_its_conversion_and_its_build(bridge, metrics):
    conversion = bridge.engine.open(phase.CONVERT, {})
    bridge.event(phase.BUILD_ENGINE, additions={semconv.ENGINE_SIZE: 4711})
    conversion.additions[semconv.ENGINE_SIZE] = 4711
    bridge.engine.close(conversion)
    assert metrics.counts("tensorrt.engine.build.size") == {(): 1}
    assert metrics.sums("tensorrt.engine.build.size") == {(): 4711}


def test_the_size_of_an_engine_that_the_program_builds_itself_is_recorded(bridge, metrics):
    bridge.event(phase.BUILD_ENGINE, additions={semconv.ENGINE_SIZE: 4711})
    bridge.event(phase.DESERIALIZE_ENGINE, {semconv.ENGINE_SIZE: 4711})
    assert metrics.counts("tensorrt.engine.build.size") == {(): 1}


@pytest.mark.parametrize("outer", [phase.COMPILE, None], ids=["compilation", "alone"])
def test_fallback_is_counted_on_the_outermost_event_that_reports_it(bridge, metrics, outer):
    compilation = bridge.engine.open(outer, {}) if outer else None
    bridge.event(phase.PARTITION, additions=TOTALS)
    if compilation is not None:
        compilation.additions.update(TOTALS)
        bridge.engine.close(compilation)
    by_reason = "torch_tensorrt.fallback.reason_class"
    assert metrics.values("torch_tensorrt.fallback.operators", by_reason) == {"no_converter": 5, "min_block_size": 2}
    assert metrics.values("torch_tensorrt.fallback.subgraphs", by_reason) == {"no_converter": 3}


def test_operators_in_the_way_of_a_compilation_that_failed_are_counted_with_its_error(bridge, metrics):
    compilation = bridge.engine.open(phase.COMPILE, {})
    bridge.event(phase.PARTITION, additions=TOTALS)
    compilation.additions[semconv.UNSUPPORTED_TOTAL_REASONS] = ["min_block_size", "no_converter"]
    compilation.additions[semconv.UNSUPPORTED_TOTAL_OPERATORS] = [2, 5]
    bridge.engine.close(compilation, ValueError("secret"))
    keys = ("torch_tensorrt.fallback.reason_class", "error.type")
    assert metrics.values("torch_tensorrt.fallback.operators", *keys) == {
        ("min_block_size", "ValueError"): 2,
        ("no_converter", "ValueError"): 5,
    }
    assert "torch_tensorrt.fallback.subgraphs" not in metrics.read()


@pytest.mark.parametrize("error", [None, ValueError(), KeyboardInterrupt()], ids=["success", "error", "interrupt"])
def test_builds_active_is_one_while_one_continues_and_none_after_it_however_it_ended(bridge, metrics, error):
    event = bridge.engine.open(phase.COMPILE, {})
    inner = bridge.engine.open(phase.BUILD_ENGINE, {})
    assert metrics.values("torch_tensorrt.build.active") == {(): 1}
    for each in (inner, event):
        bridge.engine.close(each, error)
    assert metrics.values("torch_tensorrt.build.active") == {(): 0}


def test_the_longest_of_the_builds_that_run_is_measured_in_seconds(bridge, metrics, monkeypatch):
    clock, longest = FakeTime(monkeypatch), "torch_tensorrt.build.longest"
    compilation = bridge.engine.open(phase.COMPILE, {})
    clock.advance(500)
    with ThreadPoolExecutor(1) as other:
        build = other.submit(bridge.engine.open, phase.BUILD_ENGINE, {}).result()
        clock.advance(120.5)
        assert metrics.values(longest) == {(): 620.5}
        bridge.engine.close(compilation)
        assert metrics.values(longest) == {(): 120.5}
        other.submit(bridge.engine.close, build).result()
    assert metrics.values(longest) == {(): 0}


def test_a_compilation_inside_a_frame_counts_among_the_frames_and_among_the_builds(bridge, metrics):
    work = [bridge.engine.open(each, {}) for each in (phase.COMPILE_FRAME, phase.COMPILE_FRAME, phase.COMPILE)]
    assert metrics.values("torch.compile.active") == {(): 1}
    assert metrics.values("torch_tensorrt.build.active") == {(): 1}
    for each in reversed(work):
        bridge.engine.close(each)
    assert metrics.values("torch.compile.active") == {(): 0}


@pytest.mark.parametrize("of", [phase.COMPILE_FRAME, phase.COMPILE_BACKWARD], ids=["frame", "backward"])
def test_the_longest_frame_or_backward_graph_that_is_compiled_is_measured(bridge, metrics, monkeypatch, of):
    clock = FakeTime(monkeypatch)
    work = bridge.engine.open(of, {})
    clock.advance(61)
    assert metrics.values("torch.compile.longest") == {(): 61}
    bridge.engine.close(work)
    assert metrics.values("torch.compile.longest") == {(): 0}


def test_where_only_torch_compile_works_nothing_is_said_of_builds(bridge, metrics):
    bridge.event(phase.COMPILE_FRAME)
    assert {name for name in metrics.read() if "active" in name or "longest" in name} == {
        "torch.compile.active",
        "torch.compile.longest",
    }


@pytest.mark.parametrize(
    ("of", "metric"),
    [
        (phase.EXPORT, "torch.phase.duration"),
        (phase.COMPILE_WAIT, "torch.phase.duration"),
        (phase.COMPILE_WORKER, "torch.phase.duration"),
        (phase.IMPORT, "torchspan.import.duration"),
        (phase.PARSE, "torch_tensorrt.phase.duration"),
        (phase.LOWER, "torch_tensorrt.phase.duration"),
    ],
    ids=lambda each: getattr(each, "name", ""),
)
def test_the_duration_of_a_phase_is_in_the_metric_of_its_library(bridge, metrics, of, metric):
    bridge.event(of, error=ValueError())
    assert [name for name in metrics.read() if name.endswith(".duration")] == [metric]
    assert metrics.counts(metric, "error.type") == {"ValueError": 1}


def test_while_instrumentation_is_suppressed_a_compilation_is_not_among_active_work(bridge, metrics):
    with suppress_instrumentation():
        event = bridge.engine.open(phase.COMPILE, {})
    assert "torch_tensorrt.build.active" not in metrics.read()
    bridge.engine.close(event)


def test_while_instrumentation_is_suppressed_nothing_is_recorded(bridge, metrics):
    with suppress_instrumentation():
        bridge.event(phase.COMPILE)
    assert metrics.read() == {}


def test_failures_alongside_the_program_are_counted(bridge, metrics, caplog):
    def fails():
        raise RuntimeError("torchspans")

    for _ in range(5):
        bridge.engine.guard.call("an observer", fails)
    assert metrics.values("torchspan.callback.failures") == {(): 3}, "three calls, then it was left out"
    bridge.engine.guard.call("another", fails)
    assert metrics.values("torchspan.callback.failures") == {(): 4}


# --- while serving ----------------------------------------------------------------------------------------------


@pytest.fixture
def ready():
    yield torchspan.mark_ready
    torchspan.mark_not_ready()


def while_serving(metrics, exporter):
    (span,) = [each for each in exporter.get_finished_spans() if each.name == "torch_tensorrt.compile"]
    counted = metrics.counts("torch_tensorrt.compile.duration", "torchspan.while_serving")
    assert counted == {span.attributes.get("torchspan.while_serving"): 1}
    return span.attributes.get("torchspan.while_serving")


def test_a_compilation_before_the_program_is_ready_is_not_marked(bridge, metrics, exporter):
    bridge.event(phase.COMPILE)
    assert while_serving(metrics, exporter) is None


def test_a_compilation_after_the_program_is_ready_is_marked_with_what_it_left_to_pytorch(
    bridge, metrics, exporter, ready
):
    ready()
    bridge.event(phase.COMPILE, additions=TOTALS)
    assert while_serving(metrics, exporter) is True
    for name in ("operators", "subgraphs"):
        assert set(metrics.values(f"torch_tensorrt.fallback.{name}", "torchspan.while_serving")) == {True}


def test_a_compilation_below_a_server_span_is_marked(bridge, metrics, exporter, tracer):
    with tracer.start_as_current_span("GET /", kind=trace.SpanKind.SERVER):
        bridge.event(phase.COMPILE)
    assert while_serving(metrics, exporter) is True


def test_a_compilation_below_a_span_of_another_kind_is_not_marked(bridge, metrics, exporter, tracer):
    with tracer.start_as_current_span("job", kind=trace.SpanKind.CONSUMER):
        bridge.event(phase.COMPILE)
    assert while_serving(metrics, exporter) is None


@pytest.mark.parametrize(
    ("compile_id", "kind"),
    [
        (None, "compilation"),
        ("0/0", "compilation"),
        ("3/0_1", "compilation"),
        ("0/1", "recompilation"),
        ("0/12_3", "recompilation"),
    ],
)
def test_compilations_while_serving_are_counted_by_whether_the_frame_was_compiled_before(
    bridge, metrics, ready, compile_id, kind
):
    bridge.event(phase.COMPILE)
    ready()
    bridge.event(phase.COMPILE, {} if compile_id is None else {semconv.COMPILE_ID: compile_id})
    keys = ("torchspan.phase", "torchspan.serving.kind", "error.type")
    counted = metrics.values("torchspan.serving.compilations", *keys)
    assert counted == {("torch_tensorrt.compile", kind, None): 1}


def test_a_compilation_inside_a_frame_while_serving_counts_with_the_frame(bridge, metrics, ready):
    ready()
    frame = bridge.engine.open(phase.COMPILE_FRAME, {semconv.COMPILE_ID: "0/1"})
    backend = bridge.engine.open(phase.COMPILE_PHASE, {})
    bridge.event(phase.COMPILE, {semconv.COMPILE_ID: "0/1"})
    bridge.engine.close(backend)
    bridge.engine.close(frame)
    keys = ("torchspan.phase", "torchspan.serving.kind")
    counted = metrics.values("torchspan.serving.compilations", *keys)
    assert counted == {("torch.compile_frame", "recompilation"): 1}


def test_a_frame_without_a_span_while_serving_is_counted(metrics, ready):
    bridge = Bridge(TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False), metrics.provider)
    ready()
    bridge.event(phase.COMPILE_FRAME, {semconv.COMPILE_ID: "0/0"})
    keys = ("torchspan.phase", "torchspan.serving.kind")
    counted = metrics.values("torchspan.serving.compilations", *keys)
    assert counted == {("torch.compile_frame", "compilation"): 1}
    bridge.close()


def test_a_compilation_while_serving_that_fails_is_counted_with_its_error(bridge, metrics, ready):
    ready()
    bridge.event(phase.COMPILE, error=ValueError("secret"))
    keys = ("torchspan.serving.kind", "error.type")
    assert metrics.values("torchspan.serving.compilations", *keys) == {("compilation", "ValueError"): 1}


def test_no_longer_ready_is_no_longer_marked(bridge, metrics, exporter, ready):
    ready()
    torchspan.mark_not_ready()
    bridge.event(phase.COMPILE)
    assert while_serving(metrics, exporter) is None


# --- runs -------------------------------------------------------------------------------------------------------


def test_each_run_is_counted_once_whatever_happens_to_it(bridge, metrics, exporter, tracer):
    called = []
    operator, trt_engine = bridge.operator(lambda tensors, _engine: called.append(tensors)), TrtEngine()
    bridge.provenance.fresh[trt_engine] = True
    operator([], trt_engine)  # the first: a span
    for _ in range(5):
        operator([], trt_engine)  # no callback is registered
    with tracer.start_as_current_span("request"):
        for _ in range(30):
            operator([], trt_engine)  # ten spans, twenty folded
    (request,) = [span for span in exporter.get_finished_spans() if span.name == "request"]
    spans = [span for span in exporter.get_finished_spans() if span.name == "torch_tensorrt.execute"]
    assert (len(spans), request.attributes["torch_tensorrt.execute.folded.count"]) == (11, 20)
    assert metrics.counts("torch_tensorrt.execute.duration") == {(): 36}
    assert len(called) == 36


def test_a_run_that_is_a_span_has_the_spans_duration(bridge, metrics, exporter):
    operator, trt_engine = bridge.operator(lambda _tensors, _engine: None), TrtEngine()
    bridge.provenance.fresh[trt_engine] = True
    operator([], trt_engine)
    (span,) = exporter.get_finished_spans()
    assert metrics.sums("torch_tensorrt.execute.duration") == {(): (span.end_time - span.start_time) / 1e9}


def test_folded_runs_add_up_to_what_the_span_around_them_says(bridge, metrics, exporter, tracer):
    operator, trt_engine = bridge.operator(lambda _tensors, _engine: None), TrtEngine()
    with tracer.start_as_current_span("request"):
        for _ in range(100):
            operator([], trt_engine)
    *spans, request = exporter.get_finished_spans()
    reported = sum((each.end_time - each.start_time) / 1e9 for each in spans)
    reported += request.attributes["torch_tensorrt.execute.folded.duration.sum"]
    assert metrics.counts("torch_tensorrt.execute.duration") == {(): 100}
    assert metrics.sums("torch_tensorrt.execute.duration")[()] == pytest.approx(reported, rel=1e-9)


@pytest.mark.parametrize("recording", [True, False])
def test_a_run_that_raises_is_counted_with_its_class_and_the_exception_is_the_users(bridge, metrics, tracer, recording):
    error = ValueError("secret")

    def fails(_tensors, _engine):
        raise error

    operator, trt_engine = bridge.operator(fails), TrtEngine()
    span = tracer.start_span("request") if recording else trace.INVALID_SPAN
    with trace.use_span(span, end_on_exit=True, record_exception=False):
        for _ in range(15):
            with pytest.raises(ValueError) as caught:
                operator([], trt_engine)
            assert caught.value is error
    assert metrics.counts("torch_tensorrt.execute.duration", "error.type") == {"ValueError": 15}


def test_each_run_of_the_programs_own_contexts_is_counted_once_in_a_metric_of_its_own(
    bridge, metrics, exporter, tracer
):
    run, context = bridge.context(lambda self, stream_handle: True), TrtEngine()
    for _ in range(5):
        run(context, 0)
    with tracer.start_as_current_span("request"):
        for _ in range(30):
            run(context, 0)  # ten spans, twenty folded
    assert len(exporter.get_finished_spans()) == 11
    assert metrics.counts("tensorrt.execute.duration") == {(): 35}
    assert "torch_tensorrt.execute.duration" not in metrics.read()


def test_runs_of_contexts_that_torch_tensorrt_makes_are_in_its_own_metric_alone(bridge, metrics, tracer):
    run, operator = bridge.context(lambda self, stream_handle: True), bridge.operator(lambda tensors, _engine: tensors)
    library = {"__name__": "torch_tensorrt.runtime", "run": run, "context": TrtEngine()}
    for _ in range(5):
        exec("run(context, 0)", library)
        operator([], library["context"])
    with tracer.start_as_current_span("request"):
        for _ in range(30):
            exec("run(context, 0)", library)
    assert "tensorrt.execute.duration" not in metrics.read()
    assert metrics.counts("torch_tensorrt.execute.duration") == {(): 5}


def test_a_context_run_that_raises_is_counted_with_its_class(bridge, metrics):
    def fails(self, stream_handle):
        raise ValueError("secret")

    run = bridge.context(fails)
    with pytest.raises(ValueError):
        run(TrtEngine(), 0)
    assert metrics.counts("tensorrt.execute.duration", "error.type") == {"ValueError": 1}


def test_more_runs_than_are_held_between_two_collections_are_all_counted(bridge, metrics):
    operator, trt_engine = bridge.operator(lambda _tensors, _engine: None), TrtEngine()
    for _ in range(HELD + 7):
        operator([], trt_engine)
    assert metrics.counts("torch_tensorrt.execute.duration") == {(): HELD + 7}


def test_runs_on_many_threads_are_each_counted_while_readers_collect(bridge, metrics):
    operator, trt_engine = bridge.operator(lambda _tensors, _engine: None), TrtEngine()

    def run():
        for _ in range(2000):
            operator([], trt_engine)

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        metrics.reader.get_metrics_data()
    for thread in threads:
        thread.join()
    assert metrics.counts("torch_tensorrt.execute.duration") == {(): 16000}


def test_inputs_that_cannot_be_looked_at_are_the_programs_own_affair(bridge, metrics):
    operator = bridge.operator(lambda tensors, _engine: tensors)
    assert operator(7, TrtEngine()) == 7
    assert metrics.counts("torch_tensorrt.execute.duration") == {(): 1}


def test_after_the_end_runs_pass_and_none_is_counted(provider, metrics):
    bridge = Bridge(provider, metrics.provider)
    operator, trt_engine = bridge.operator(lambda _tensors, _engine: "result"), TrtEngine()
    operator([], trt_engine)
    bridge.close()
    assert operator([], trt_engine) == "result"
    assert metrics.counts("torch_tensorrt.execute.duration") == {(): 1}


def test_with_a_sampler_that_drops_everything_the_counts_are_the_same(provider):
    counted = []
    for tracers in (provider, TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False)):
        metrics = Metrics()
        bridge = Bridge(tracers, metrics.provider)
        operator, trt_engine = bridge.operator(lambda _tensors, _engine: None), TrtEngine()
        with tracers.get_tracer("user").start_as_current_span("request"):
            bridge.event(phase.COMPILE, additions=TOTALS)
            bridge.event(phase.CONVERT, additions={semconv.ENGINE_SIZE: 4711})
            for _ in range(30):
                operator([], trt_engine)
        counted.append(
            {
                name: sorted((sorted(each.attributes.items()), each.value, each.count) for each in points)
                for name, points in metrics.read().items()
            }
        )
        bridge.close()
    assert counted[0] == counted[1]
    assert counted[0]["torch_tensorrt.execute.duration"] == [([], None, 30)]


# --- providers --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("meters", "wanted"),
    [
        (lambda: NoOpMeterProvider(), False),
        (lambda: MeterProvider([InMemoryMetricReader()], shutdown_on_exit=False), True),
    ],
    ids=["no-op", "SDK"],
)
def test_runs_are_timed_only_where_there_is_a_provider_of_an_sdk(provider, meters, wanted):
    bridge = Bridge(provider, meters())
    assert bridge.engine.run_times[phase.EXECUTE].wanted is wanted
    bridge.close()
    assert bridge.engine.run_times[phase.EXECUTE].wanted is False


def test_disabling_and_enabling_again_with_one_provider_doubles_nothing(provider, metrics, caplog):
    for number in range(1, 4):
        bridge = Bridge(provider, metrics.provider)
        event = bridge.engine.open(phase.COMPILE, {})
        assert metrics.values("torch_tensorrt.build.active") == {(): 1}
        bridge.engine.close(event)
        bridge.close()
        read = metrics.read()
        assert "torch_tensorrt.build.active" not in read, "nothing is observed after the end"
        assert read["torch_tensorrt.compile.duration"][0].count == number
    assert caplog.messages == []


def test_what_is_held_at_the_end_is_recorded(provider, metrics):
    bridge = Bridge(provider, metrics.provider)
    operator, trt_engine = bridge.operator(lambda _tensors, _engine: None), TrtEngine()
    operator([], trt_engine)
    bridge.close()
    assert metrics.counts("torch_tensorrt.execute.duration") == {(): 1}


def test_an_event_that_is_open_at_the_end_is_still_recorded(provider, metrics):
    bridge = Bridge(provider, metrics.provider)
    event = bridge.engine.open(phase.COMPILE, {})
    bridge.close()
    bridge.engine.close(event)
    assert metrics.counts("torch_tensorrt.compile.duration") == {(): 1}


def test_each_provider_has_what_was_recorded_with_it(provider):
    first, second = Metrics(), Metrics()
    for each in (first, second, first):
        bridge = Bridge(provider, each.provider)
        bridge.event(phase.COMPILE)
        bridge.close()
    assert first.counts("torch_tensorrt.compile.duration") == {(): 2}
    assert second.counts("torch_tensorrt.compile.duration") == {(): 1}


def test_a_build_is_counted_once_after_two_threads_have_noticed_a_provider_at_once(monkeypatch):
    first, second = Metrics(), Metrics()
    providers, together, detach = [first.provider], threading.Barrier(2, timeout=60), Instruments.detach
    engine = Engine()
    writer = MetricWriter(engine, None, dropped={}, default=lambda: providers[-1])
    extend(engine, *writer.listeners)
    with monkeypatch.context() as patched, ThreadPoolExecutor(2) as pool:
        patched.setattr(Instruments, "detach", lambda self, source: together.wait() < 2 and detach(self, source))
        providers.append(second.provider)
        assert list(pool.map(lambda _thread: writer.is_read(), range(2))) == [True, True]
    event = engine.open(phase.COMPILE, {})
    assert second.values("torch_tensorrt.build.active") == {(): 1}
    engine.close(event)
    engine.stop()
    writer.stop()


def test_several_readers_of_one_provider_read_the_same(provider):
    readers = [InMemoryMetricReader(), InMemoryMetricReader()]
    meters = MeterProvider(readers, shutdown_on_exit=False)
    bridge = Bridge(provider, meters)
    operator, trt_engine = bridge.operator(lambda _tensors, _engine: None), TrtEngine()
    for _ in range(3):
        operator([], trt_engine)
    for reader in readers:
        assert Metrics(meters, reader).counts("torch_tensorrt.execute.duration") == {(): 3}
    bridge.close()


def test_a_provider_that_is_gone_is_not_kept(provider):
    import gc
    import weakref

    metrics = Metrics()
    bridge = Bridge(provider, metrics.provider)
    bridge.event(phase.COMPILE)
    bridge.close()
    gone = weakref.ref(metrics.provider)
    del metrics, bridge
    gc.collect()
    assert gone() is None


def test_a_provider_that_raises_stops_no_program(provider, caplog):
    class Broken(NoOpMeterProvider):
        def get_meter(self, *args, **kwargs):
            raise RuntimeError("theirs")

    bridge = Bridge(provider, Broken())
    operator = bridge.operator(lambda tensors, _engine: tensors)
    assert [operator([1], TrtEngine()) for _ in range(3)] == [[1]] * 3
    bridge.event(phase.COMPILE)
    bridge.close()
    assert "making instruments failed; the program continues, with less telemetry." in consequences(caplog)


LATE = """
import sys
sys.path.insert(0, sys.argv[1])
import opentelemetry.metrics
from opentelemetry.sdk.metrics import MeterProvider
from writer.test_metrics import Bridge, Metrics, TrtEngine, phase

bridge = Bridge(None, None)
operator, trt_engine = bridge.operator(lambda _tensors, _engine: None), TrtEngine()
operator([], trt_engine)
assert not bridge.engine.run_times[phase.EXECUTE].wanted
metrics = Metrics()
opentelemetry.metrics.set_meter_provider(metrics.provider)
bridge.event(phase.LOWER)
assert bridge.engine.run_times[phase.EXECUTE].wanted
operator([], trt_engine)
assert metrics.counts("torch_tensorrt.execute.duration") == {(): 1}, metrics.read()
bridge.close()

# Once more: with the provider that is there now, by its own name and as the global one.
for given in (metrics.provider, None):
    bridge = Bridge(None, given)
    event = bridge.engine.open(phase.COMPILE, {})
    assert metrics.values("torch_tensorrt.build.active") == {(): 1}
    bridge.engine.close(event)
    bridge.close()
assert metrics.counts("torch_tensorrt.compile.duration") == {(): 2}
assert "torch_tensorrt.build.active" not in metrics.read()
print("right")
"""


def test_a_global_provider_that_is_set_late_is_noticed_at_the_next_event():
    """In a process of its own: the global provider can be set once."""
    folder = os.path.dirname(os.path.dirname(__file__))
    result = subprocess.run([sys.executable, "-c", LATE, folder], capture_output=True, text=True, check=False)
    assert (result.stdout.strip(), result.stderr) == ("right", "")


def test_with_otel_metrics_exporter_none_nothing_is_measured_for_the_global_provider(provider, metrics, monkeypatch):
    monkeypatch.setenv("OTEL_METRICS_EXPORTER", "none")
    engine = Engine()
    writer = MetricWriter(engine, None, dropped={}, default=lambda: metrics.provider)
    assert not writer.is_read()
    assert not engine.run_times[phase.EXECUTE].wanted
    writer.stop()
