# SPDX-License-Identifier: Apache-2.0
"""At most so many spans a trace; what exceeds that is folded."""

import contextvars
import threading
from collections import Counter

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import NonRecordingSpan, SpanContext, StatusCode, TraceFlags

from support.engines import extend
from support.tree import named
from torchspan import phase
from torchspan.engine import CURRENT, Engine, Occurrence, Placement
from torchspan.hooks.adapters.machinery.provenance import Provenance
from torchspan.hooks.adapters.machinery.wrap import WrapperFactory
from torchspan.hooks.probes import Function, Record
from torchspan.output.writer import MetricWriter, SpanWriter
from torchspan.output.writer._budget import TRACES, Budget
from torchspan.words import semconv

COMPILE, CONVERT, BUILD = "torch_tensorrt.compile", "torch_tensorrt.convert", "tensorrt.build_engine"


# --- counting ---------------------------------------------------------------------------------------------------


def test_a_trace_has_room_for_so_many_and_no_more():
    budget = Budget(3)
    assert [budget.take(1, 1.0) for _ in range(5)] == [True, True, True, False, False]
    assert budget.take(2, 1.0), "another trace"
    assert budget.refused == 2


def test_a_detail_stops_at_its_share():
    budget = Budget(10)
    assert [budget.take(1, 0.5) for _ in range(6)] == [True] * 5 + [False]
    assert [budget.take(1, 1.0) for _ in range(6)] == [True] * 5 + [False]


def test_a_span_that_records_nothing_takes_no_room():
    budget = Budget(1)
    for _ in range(3):
        assert budget.take(1, 1.0)
        budget.give_back(1)
    budget.give_back(7)
    assert budget.take(1, 1.0)
    assert not budget.take(1, 1.0)


def test_the_trace_that_had_none_for_longest_is_forgotten():
    budget = Budget(2)
    for trace_id in range(TRACES):
        budget.take(trace_id, 1.0)
    budget.take(0, 1.0)
    budget.take(TRACES, 1.0)
    assert not budget.take(0, 1.0)
    assert len(budget._used) == TRACES
    assert 1 not in budget._used


def test_on_many_threads_no_more_are_taken():
    budget, taken = Budget(1000), []
    threads = [threading.Thread(target=lambda: taken.extend(budget.take(1, 1.0) for _ in range(500))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (sum(taken), budget.refused) == (1000, 3000)


# --- folding ----------------------------------------------------------------------------------------------------


@pytest.fixture
def started(provider):
    """Engine and writer with room for so many spans a trace."""

    def start(spans_per_trace, tracer_provider=provider):
        engine, writer = Engine(), SpanWriter(tracer_provider, spans_per_trace=spans_per_trace)
        extend(engine, writer)
        return engine, writer

    return start


def run(engine, of_phase, *, target=None, placement=CURRENT, inside=lambda _event: None):
    event = engine.open(of_phase, {}, target=target, placement=placement)
    inside(event)
    engine.close(event)
    return event


def steps(span):
    """name -> how often."""
    names, counts = (span.attributes.get(f"torchspan.steps.{each}", ()) for each in ("names", "counts"))
    return dict(zip(names, counts, strict=True))


def test_what_exceeds_the_budget_is_steps_of_the_span_around_it_and_counted(started, exporter):
    engine, writer = started(2)

    def inside(_event):
        run(engine, phase.CONVERT)
        for _ in range(3):
            run(engine, phase.CONVERT)
        run(engine, phase.LOWER)

    run(engine, phase.COMPILE, inside=inside)
    spans = exporter.get_finished_spans()
    assert [span.name for span in spans] == [CONVERT, COMPILE]
    compilation = named(spans, COMPILE)
    assert steps(compilation) == {CONVERT: 3, "torch_tensorrt.lower": 1}
    assert compilation.attributes["torchspan.folded.count"] == 4
    assert writer.dropped == 4


def test_a_span_into_which_nothing_was_folded_says_nothing_of_it(started, exporter):
    engine, _ = started(10)
    run(engine, phase.COMPILE)
    (span,) = exporter.get_finished_spans()
    assert "torchspan.folded.count" not in span.attributes


def test_what_is_inside_folded_work_counts_at_the_nearest_span_and_no_time_twice(started, exporter):
    engine, _ = started(1)

    def conversion(event):
        event.steps.add("gc.collect", 0.0)
        run(
            engine,
            phase.BUILD_ENGINE,
            inside=lambda build: run(engine, phase.BUILD_PHASE, target="Timing tactics", placement=Placement(build)),
        )

    run(engine, phase.COMPILE, inside=lambda _: run(engine, phase.CONVERT, inside=conversion))
    (compilation,) = exporter.get_finished_spans()
    assert steps(compilation) == {"gc.collect": 1, CONVERT: 1, BUILD: 1, "tensorrt.build_phase Timing tactics": 1}
    assert compilation.attributes["torchspan.folded.count"] == 3
    total = (compilation.end_time - compilation.start_time) / 1e9
    assert 0 < sum(compilation.attributes["torchspan.steps.durations"]) <= total


def test_the_context_and_the_parents_stay_right(started, exporter, tracer):
    engine, _ = started(2)
    seen = []

    def conversion(event):
        seen.append((trace.get_current_span().get_span_context(), event.handle))
        with tracer.start_as_current_span("the user's converter"):
            pass

    def compilation(event):
        seen.append((trace.get_current_span().get_span_context(), event.handle))
        run(engine, phase.PARTITION)
        run(engine, phase.CONVERT, inside=conversion)
        seen.append((trace.get_current_span().get_span_context(), event.handle))

    with tracer.start_as_current_span("request") as request:
        run(engine, phase.COMPILE, inside=compilation)
        assert trace.get_current_span() is request
    spans = exporter.get_finished_spans()
    context = named(spans, COMPILE).get_span_context()
    assert seen == [(context, context)] * 3
    assert named(spans, "the user's converter").parent == context


def test_a_child_that_shares_no_frame_with_what_was_folded_has_the_nearest_span_for_parent(started, exporter):
    engine, _ = started(4)
    compilation = engine.open(phase.COMPILE, {})
    build = engine.open(phase.BUILD_ENGINE, {})
    outer = engine.open(
        phase.BUILD_PHASE, {}, target="Timing tactics", placement=Placement(build)
    )  # the detail for which there is no room

    def on_a_thread_of_tensorrts():
        engine.close(engine.open(phase.BUILD_ENGINE, {}, placement=Placement(outer)))

    thread = threading.Thread(target=contextvars.Context().run, args=(on_a_thread_of_tensorrts,))
    thread.start()
    thread.join()
    for event in (outer, build, compilation):
        engine.close(event)
    spans = exporter.get_finished_spans()
    assert [span.name for span in spans] == [BUILD, BUILD, COMPILE]
    inner, around, _ = spans
    assert inner.parent == around.get_span_context()
    assert steps(around) == {"tensorrt.build_phase Timing tactics": 1}


@pytest.fixture
def observed():
    """Makes a function an event of a phase, as an adapter does."""

    def decorate(engine, of_phase, function):
        return WrapperFactory(engine, Provenance()).record(Function("x:f"), Record(of_phase), function)

    return decorate


def raises():
    raise ValueError("boom")


def test_an_exception_in_folded_work_marks_the_spans_it_passes_and_is_on_the_innermost(started, observed, exporter):
    engine, _ = started(2)
    build = observed(engine, phase.BUILD_ENGINE, raises)
    construct = observed(engine, phase.CONSTRUCT_NETWORK, lambda: build())
    convert = observed(engine, phase.CONVERT, lambda: construct())
    with pytest.raises(ValueError):
        observed(engine, phase.COMPILE, lambda: convert())()
    spans = exporter.get_finished_spans()
    assert [(span.name, span.attributes["error.type"]) for span in spans] == [
        (CONVERT, "ValueError"),
        (COMPILE, "ValueError"),
    ]
    assert all(span.status.status_code is StatusCode.ERROR for span in spans)
    (event,) = named(spans, CONVERT).events
    assert (event.name, event.attributes["exception.type"]) == ("exception", "ValueError")
    assert event.attributes["code.function.name"].endswith("raises")
    assert named(spans, COMPILE).events == ()


def test_an_exception_swallowed_around_what_was_folded_is_reported_and_marks_nothing(started, observed, exporter):
    engine, _ = started(1)
    convert = observed(engine, phase.CONVERT, raises)

    def swallows():
        with pytest.raises(ValueError):
            convert()

    observed(engine, phase.COMPILE, swallows)()
    (compilation,) = exporter.get_finished_spans()
    assert compilation.status.status_code is StatusCode.UNSET
    assert [event.name for event in compilation.events] == ["exception"]


def test_a_folded_build_that_failed_without_an_exception_marks_the_span_around_it(started, exporter):
    engine, _ = started(1)
    compilation = engine.open(phase.COMPILE, {})
    build = engine.open(phase.BUILD_ENGINE, {})
    build.additions[semconv.ERROR_TYPE] = "engine_build_failed"
    engine.close(build)
    engine.close(compilation)
    (span,) = exporter.get_finished_spans()
    assert span.attributes["error.type"] == "engine_build_failed"


def test_what_occurred_in_what_was_folded_is_on_the_nearest_span_within_bounds(started, exporter):
    engine, _ = started(1)

    def occurs(event):
        event.occurrences.append(Occurrence("exception", event.start_ns, {semconv.EXCEPTION_TYPE: "Handled"}))

    compilation = engine.open(phase.COMPILE, {})
    event = run(engine, phase.CONVERT, inside=occurs)
    engine.close(compilation)
    (span,) = exporter.get_finished_spans()
    assert [(each.timestamp, each.attributes["exception.type"]) for each in span.events] == [
        (event.start_ns, "Handled")
    ]
    compilation = engine.open(phase.COMPILE, {})
    for _ in range(500):
        run(engine, phase.CONVERT, inside=occurs)
    assert len(compilation.occurrences) == 128
    engine.close(compilation)


def test_observers_that_fired_in_what_was_folded_are_a_number(started, exporter):
    engine, _ = started(1)
    compilation = engine.open(phase.COMPILE, {})
    for count in (2, 3):
        event = engine.open(phase.CONVERT, {})
        fired = {semconv.OBSERVER_NAME: "on_node", semconv.OBSERVER_COUNT: count}
        event.occurrences.append(Occurrence(semconv.OBSERVER_EVENT, event.start_ns, fired))
        engine.close(event)
    engine.close(compilation)
    (span,) = exporter.get_finished_spans()
    assert (span.events, span.attributes["torchspan.observer.omitted"]) == ((), 5)


def test_a_run_without_room_is_folded_as_runs_beyond_the_rate_are(started, exporter, tracer):
    engine, _ = started(1)
    with tracer.start_as_current_span("request"):
        run(engine, phase.EXECUTE)
        run(engine, phase.EXECUTE)
    request = named(exporter.get_finished_spans(), "request").attributes
    assert request["torch_tensorrt.execute.folded.count"] == 1


def test_dropped_work_without_a_span_of_torchspan_around_it_is_counted_on_the_users(started, exporter, tracer):
    engine, writer = started(1)
    with tracer.start_as_current_span("request"):
        for _ in range(3):
            run(engine, phase.COMPILE)
    request = named(exporter.get_finished_spans(), "request").attributes
    assert request["torchspan.folded.count"] == 2
    assert writer.dropped == 2


def test_below_a_remote_parent_the_trace_has_one_budget(started, exporter):
    engine, writer = started(3)
    remote = SpanContext(0xA, 0xB, is_remote=True, trace_flags=TraceFlags(1))
    with trace.use_span(NonRecordingSpan(remote)):
        for _ in range(5):
            run(engine, phase.COMPILE)
    assert len(exporter.get_finished_spans()) == 3
    assert writer.dropped == 2


def test_spans_that_the_sampler_refuses_use_up_no_room_and_are_not_dropped(started):
    unsampled = TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False)
    engine, writer = started(2, unsampled)
    with unsampled.get_tracer("user").start_as_current_span("request"):
        for _ in range(5):
            run(engine, phase.COMPILE)
    assert (writer.recorded, writer.unsampled, writer.dropped) == (0, 5, 0)


# --- 300 engines ------------------------------------------------------------------------------------------------

PHASES_OF_A_BUILD = 12
"""As TensorRT-RTX reports them for an engine of one layer."""


def engine_made(engine):
    """The events of one engine, as a real compilation has them."""

    def build(event):
        for number in range(PHASES_OF_A_BUILD):
            run(engine, phase.BUILD_PHASE, target=f"phase {number}", placement=Placement(event))

    def conversion(_event):
        run(engine, phase.CONSTRUCT_NETWORK)
        run(engine, phase.BUILD_ENGINE, inside=build)
        run(engine, phase.DESERIALIZE_ENGINE)
        run(engine, phase.SETUP_ENGINE, inside=lambda _: run(engine, phase.DESERIALIZE_ENGINE))

    run(engine, phase.CONVERT, inside=conversion)


@pytest.mark.fault(
    "the SDK",
    "a trace is larger than its budget",
    lost="the spans that are folded",
    counted="torchspan.span.dropped, reason budget",
)
def test_with_300_engines_every_conversion_and_build_is_a_span_and_the_rest_is_folded(provider, exporter, metrics):
    engine, writer = Engine(), SpanWriter(provider)
    extend(engine, writer)
    recorder = MetricWriter(engine, metrics.provider, dropped={"budget": lambda: writer.dropped})
    extend(engine, recorder)

    def compilation(_event):
        run(engine, phase.LOWER, inside=lambda _: [run(engine, phase.PASS, target="a pass") for _ in range(20)])
        run(engine, phase.PARTITION)
        for _ in range(300):
            engine_made(engine)

    run(engine, phase.COMPILE, inside=compilation)
    spans = exporter.get_finished_spans()
    names = Counter(span.name.partition(" ")[0] for span in spans)
    assert len(spans) < 2000
    assert (names[CONVERT], names[BUILD], names["torch_tensorrt.pass"], names[COMPILE]) == (300, 300, 20, 1)

    events = 3 + 20 + 300 * (6 + PHASES_OF_A_BUILD)
    folded = sum(span.attributes.get("torchspan.folded.count", 0) for span in spans)
    assert folded == events - len(spans) == writer.dropped
    assert metrics.values("torchspan.span.dropped", "torchspan.dropped.reason") == {"budget": folded}
    # In spans or in steps, each phase is as often there as the metric, which knows no budget, says.
    reported = Counter(names)
    for span in spans:
        for name, count in steps(span).items():
            reported[name.partition(" ")[0]] += count
    assert metrics.counts("torch_tensorrt.phase.duration", "torchspan.phase") == {
        name: count for name, count in reported.items() if name != COMPILE
    }
    recorder.stop()


def test_with_1000_engines_no_more_than_2000_spans_are_written(provider, exporter):
    engine, writer = Engine(), SpanWriter(provider)
    extend(engine, writer)
    run(engine, phase.COMPILE, inside=lambda _: [engine_made(engine) for _ in range(1000)])
    spans = exporter.get_finished_spans()
    assert len(spans) == 2000
    assert named(spans, COMPILE).attributes["torchspan.folded.count"] > 0
    assert sum(span.attributes.get("torchspan.folded.count", 0) for span in spans) == writer.dropped
