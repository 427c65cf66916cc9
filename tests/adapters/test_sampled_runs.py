# SPDX-License-Identifier: Apache-2.0
"""Runs of engines under torchspan's sampler and under others, from the hooked function to the span."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from opentelemetry import context as context_api
from opentelemetry import trace
from opentelemetry.instrumentation.utils import suppress_instrumentation
from opentelemetry.sdk.trace import SpanProcessor
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, ParentBased, TraceIdRatioBased
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

from support import seeded_runs
from support.emitted import EMITTED
from support.sampled_runs import CONTEXT, MODULE, SampledRuns, TrtEngine, echo
from torchspan import callbacks, observers
from torchspan.engine.subscribers.callback_registry import REGISTRY
from torchspan.output.writer import MetricWriter
from torchspan.sdk import ParentBasedTorchspanSampler, TorchspanIdGenerator, TorchspanSampler
from torchspan.words.sampling.rules import SamplingRules

TESTS = Path(__file__).resolve().parents[1]
RUNS = 20_000
UNSAMPLED = SpanContext(0xA, 0xB, is_remote=True, trace_flags=TraceFlags(0))
EXECUTE = "torch_tensorrt.execute"
BOTH = pytest.mark.parametrize("kind", [TorchspanSampler, ParentBasedTorchspanSampler])


class Counted(SpanProcessor):
    """How many spans began, and the contexts of those with a tracestate."""

    def __init__(self):
        self.count, self.states = 0, []

    def on_start(self, span, parent_context=None):
        self.count += 1
        context = span.get_span_context()
        if context.trace_state:
            self.states.append((context.trace_id, dict(context.trace_state)))


@pytest.fixture
def runs(exporter):
    """Makes the hot path on a provider with this sampler; it is closed after the test."""
    made = []

    def make(sampler, *args, **options):
        processors = [SimpleSpanProcessor(exporter), SimpleSpanProcessor(EMITTED)]
        made.append(SampledRuns(sampler, *args, **{"processors": processors, **options}))
        return made[-1]

    yield make
    for each in made:
        each.close()


def names(exporter):
    return [span.name for span in exporter.get_finished_spans()]


def within_bounds(found, share, runs):
    """Within six standard deviations of the binomial distribution: wrong once in 500 million runs."""
    return abs(found - share * runs) < 6 * (share * (1 - share) * runs) ** 0.5


# --- one decision -------------------------------------------------------------------------------------------------


@BOTH
def test_of_20_000_roots_the_share_is_kept_and_no_second_decision_is_made(runs, kind):
    counted, engine = Counted(), TrtEngine()
    hooked = runs(kind("other=0.1,execute=0.05,execute_per_second=1000000"), processors=[counted])
    for _ in range(RUNS):
        hooked.run([], engine)
    assert within_bounds(counted.count, 0.05, RUNS)


def test_over_three_processes_that_seed_alike_the_share_is_kept_and_each_picks_other_runs():
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, seeded_runs.__file__, "0.05", str(RUNS // 4)]
    programs = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    outputs = [program.communicate(timeout=300)[0].split() for program in programs]
    assert within_bounds(sum(int(output[0]) for output in outputs), 0.05, RUNS // 4 * 3)
    assert len({tuple(output[1:]) for output in outputs}) == 3


def test_another_sampler_decides_alone_about_roots_that_a_setting_asks_for(runs):
    counted, engine = Counted(), TrtEngine()
    sampler = ParentBased(TraceIdRatioBased(0.05))
    rules = SamplingRules(execute=0.01, execute_per_second=1_000_000)
    hooked = runs(sampler, processors=[counted], rules=rules)
    for _ in range(RUNS):
        hooked.run([], engine)
    assert within_bounds(counted.count, 0.05, RUNS)


def test_another_sampler_is_asked_for_no_root_unless_a_setting_asks_for_it(runs, exporter):
    hooked, engine = runs(ALWAYS_ON), TrtEngine()
    for _ in range(100):
        hooked.run([], engine)
    assert names(exporter) == []


@BOTH
def test_without_rules_runs_outside_begin_no_trace_and_those_inside_follow(runs, exporter, kind):
    hooked, engine = runs(kind()), TrtEngine()
    for _ in range(100):
        hooked.run([], engine)
    with hooked.tracer.start_as_current_span("request"):
        for _ in range(100):
            hooked.run([], engine)
    request = exporter.get_finished_spans()[-1]
    assert names(exporter) == [EXECUTE] * 10 + ["request"]
    assert request.attributes["torch_tensorrt.execute.folded.count"] == 90


@BOTH
@pytest.mark.parametrize("rule", ["execute=1", "execute_target=100000"])
def test_runs_below_a_span_that_is_not_sampled_are_not_roots(runs, exporter, kind, rule):
    hooked, engine = runs(kind(f"other=0,{rule}")), TrtEngine()
    with trace.use_span(NonRecordingSpan(UNSAMPLED)):
        for _ in range(100):
            hooked.run([], engine)
    with hooked.tracer.start_as_current_span("request"):
        for _ in range(100):
            hooked.run([], engine)
    assert names(exporter) == []


def test_below_a_span_that_is_not_sampled_no_clock_is_read(runs):
    readings = []
    clock = lambda: readings.append(1) or 1000.0 + len(readings)
    hooked, engine = runs(TorchspanSampler("execute_target=1"), clock=clock), TrtEngine()
    hooked.run([], engine)
    with trace.use_span(NonRecordingSpan(UNSAMPLED)):
        readings.clear()
        for _ in range(100):
            hooked.run([], engine)
    assert readings == []


@pytest.mark.parametrize("rule", ["execute=0.1,execute_per_second=1000000", "execute_target=10"])
def test_runs_outside_every_span_are_picked_alike_whether_or_not_their_context_is_empty(runs, rule):
    counts = []
    for entries in ({}, {"baggage": "b"}):
        counted, now = Counted(), [1000.0]
        hooked, engine = runs(TorchspanSampler(rule), processors=[counted], clock=lambda now=now: now[0]), TrtEngine()
        token = context_api.attach(context_api.Context(entries)) if entries else None
        for _ in range(RUNS):
            now[0] += 0.005
            hooked.run([], engine)
        if token is not None:
            context_api.detach(token)
        counts.append(counted.count)
    if "target" in rule:
        assert counts == pytest.approx([1000, 1000], rel=0.1)
    else:
        assert [within_bounds(count, 0.1, RUNS) for count in counts] == [True, True]


def test_rules_that_change_hold_for_a_context_that_has_been_seen_before(runs, exporter):
    hooked, engine = runs(TorchspanSampler()), TrtEngine()
    hooked.run([], engine)
    with trace.use_span(NonRecordingSpan(UNSAMPLED)):
        hooked.run([], engine)
    hooked.run([], engine)
    assert names(exporter) == []
    hooked.sampling.use(SamplingRules(execute=1))
    hooked.run([], engine)
    hooked.sampling.use(SamplingRules())
    hooked.run([], engine)
    assert names(exporter) == [EXECUTE]


def test_a_run_after_the_end_of_a_span_that_is_still_current_is_a_root(runs, exporter):
    hooked, engine = runs(TorchspanSampler("execute=1")), TrtEngine()
    with hooked.tracer.start_as_current_span("request") as request:
        request.end()
        hooked.run([], engine)
    run = exporter.get_finished_spans()[-1]
    assert (run.name, run.parent) == (EXECUTE, None)
    assert run.context.trace_id != request.get_span_context().trace_id


def test_a_target_rate_holds_for_all_runs_of_the_process(runs, exporter):
    now = [1000.0]
    hooked, engine = runs(TorchspanSampler("execute_target=5"), clock=lambda: now[0]), TrtEngine()
    for _ in range(1000):
        now[0] += 0.01
        hooked.run([], engine)
    assert len(names(exporter)) == pytest.approx(50, rel=0.1)


def test_where_instrumentation_is_suppressed_nothing_is_picked(runs, exporter):
    hooked, engine = runs(TorchspanSampler("execute=1")), TrtEngine()
    with suppress_instrumentation():
        hooked.run([], engine)
    assert names(exporter) == []


def test_after_the_bridge_is_closed_nothing_is_picked(runs, exporter):
    hooked, engine = runs(TorchspanSampler("execute=1")), TrtEngine()
    hooked.run([], engine)
    hooked.close()
    hooked.run([], engine)
    assert names(exporter) == [EXECUTE]


def test_runs_of_contexts_that_the_program_makes_are_picked_as_well(runs, exporter):
    hooked = runs(TorchspanSampler("execute=1"), lambda context, stream: True, probe=CONTEXT)
    assert hooked.run(TrtEngine(), 7) is True
    assert names(exporter) == ["tensorrt.execute"]


def test_runs_of_a_module_that_runs_its_engine_itself_are_picked_as_well(runs, exporter):
    hooked, module = runs(TorchspanSampler("execute=1"), lambda module, x: x, probe=MODULE), TrtEngine()
    assert [hooked.run(module, number) for number in range(3)] == [0, 1, 2]
    assert names(exporter) == [EXECUTE] * 3


# --- the probability in the tracestate ----------------------------------------------------------------------------


@pytest.mark.parametrize("ids", [None, TorchspanIdGenerator()], ids=["the SDK's ids", "torchspan's ids"])
def test_a_picked_root_says_its_probability_and_has_a_trace_id_that_is_kept_with_it(runs, ids):
    counted, engine = Counted(), TrtEngine()
    sampler = TorchspanSampler("execute=0.01,execute_per_second=1000000")
    hooked = runs(sampler, processors=[counted], ids=ids)
    for _ in range(20_000):
        hooked.run([], engine)
    assert counted.count == len(counted.states) > 100
    threshold = int("fd70a3d70a3d71", 16)
    for trace_id, state in counted.states:
        assert state == {"ot": "th:fd70a3d70a3d71"}
        assert trace_id & (2**56 - 1) >= threshold


def test_each_of_all_roots_has_the_probability_one(runs):
    counted = Counted()
    runs(TorchspanSampler("execute=1"), processors=[counted]).run([], TrtEngine())
    assert [state for _, state in counted.states] == [{"ot": "th:0"}]


def test_with_ids_that_a_backend_prescribes_no_probability_is_said(runs, exporter):
    class Prescribed(IdGenerator):
        def generate_span_id(self):
            return 7

        def generate_trace_id(self):
            return 8

    runs(TorchspanSampler("execute=0.999999"), ids=Prescribed()).run([], TrtEngine())
    (span,) = exporter.get_finished_spans()
    assert (span.context.trace_id, dict(span.context.trace_state)) == (8, {})


@pytest.mark.parametrize("rule", ["execute_target=1000"])
def test_where_a_rate_decides_no_probability_is_said(runs, exporter, rule):
    now = [1000.0]
    hooked, engine = runs(TorchspanSampler(rule), clock=lambda: now[0]), TrtEngine()
    for _ in range(20):
        now[0] += 0.01
        hooked.run([], engine)
    found = exporter.get_finished_spans()
    assert len(found) == 20
    assert {len(span.context.trace_state) for span in found} == {0}


def test_under_another_sampler_no_probability_is_said(runs, exporter):
    runs(ALWAYS_ON, rules=SamplingRules(execute=0.5)).run([], TrtEngine())
    assert [dict(span.context.trace_state) for span in exporter.get_finished_spans()] == [{}]


def test_children_of_a_picked_root_have_its_tracestate(runs, exporter):
    hooked = None

    def original(input_tensors, engine):
        with hooked.tracer.start_as_current_span("inside"):
            return input_tensors

    hooked = runs(TorchspanSampler("execute=1"), original)
    hooked.run([], TrtEngine())
    assert [dict(span.context.trace_state) for span in exporter.get_finished_spans()] == [{"ot": "th:0"}] * 2


# --- first runs and failures --------------------------------------------------------------------------------------


@BOTH
def test_the_first_run_of_an_engine_is_kept_also_below_a_span_that_is_not_sampled(runs, exporter, kind):
    hooked, engine = runs(kind("other=0")), TrtEngine()
    hooked.provenance.made_runner(engine, None)
    with trace.use_span(NonRecordingSpan(UNSAMPLED)):
        hooked.run([], engine)
        hooked.run([], engine)
    (first,) = exporter.get_finished_spans()
    assert (first.context.trace_id, first.parent) == (0xA, None)
    assert first.attributes["torch_tensorrt.execute.first"] is True
    assert first.attributes["torchspan.parent_sampled"] is False


def failing(input_tensors, engine):
    raise RuntimeError("no memory")


@BOTH
def test_a_failed_run_is_kept_also_below_a_span_that_is_not_sampled(runs, exporter, kind):
    hooked, engine = runs(kind("other=0"), failing), TrtEngine()
    for around in (trace.INVALID_SPAN, NonRecordingSpan(UNSAMPLED)):
        with trace.use_span(around), pytest.raises(RuntimeError, match="no memory"):
            hooked.run([], engine)
    outside, below = exporter.get_finished_spans()
    assert [span.attributes["error.type"] for span in (outside, below)] == ["RuntimeError"] * 2
    assert [span.attributes.get("torchspan.parent_sampled") for span in (outside, below)] == [None, False]
    assert (below.context.trace_id, below.parent) == (0xA, None)
    assert outside.start_time <= outside.end_time


def test_failed_runs_among_counted_ones_are_spans_and_are_not_counted(runs, exporter):
    def sometimes(input_tensors, engine):
        if input_tensors == ["bad"]:
            raise RuntimeError
        return input_tensors

    hooked, engine = runs(TorchspanSampler(), sometimes), TrtEngine()
    with hooked.tracer.start_as_current_span("request"):
        for _ in range(100):
            hooked.run([], engine)
        for _ in range(3):
            with pytest.raises(RuntimeError):
                hooked.run(["bad"], engine)
    *found, request = exporter.get_finished_spans()
    assert len(found) == 13
    assert [span.attributes.get("error.type") for span in found[10:]] == ["RuntimeError"] * 3
    assert {span.parent.span_id for span in found} == {request.context.span_id}
    assert request.attributes["torch_tensorrt.execute.folded.count"] == 90


def test_failures_are_kept_ten_a_second_and_the_others_are_counted(runs, exporter):
    hooked, engine = runs(TorchspanSampler(), failing), TrtEngine()
    with hooked.tracer.start_as_current_span("request"):
        for _ in range(60):
            with pytest.raises(RuntimeError):
                hooked.run([], engine)
    *found, request = exporter.get_finished_spans()
    counted = request.attributes["torch_tensorrt.execute.folded.count"]
    assert len(found) >= 20  # ten by the rate limit, ten because they failed
    assert len(found) + counted == 60


def test_a_failed_run_is_measured_once(runs, metrics):
    hooked, engine = runs(TorchspanSampler(), failing), TrtEngine()
    writer = MetricWriter(hooked.engine, metrics.provider, dropped={})
    hooked.engine.listen([hooked.writer, writer])
    for _ in range(15):
        with pytest.raises(RuntimeError):
            hooked.run([], engine)
    points = metrics.read()["torch_tensorrt.execute.duration"]
    writer.stop()
    assert sum(point.count for point in points) == 15


@pytest.mark.parametrize(("sampler", "spans"), [(ALWAYS_ON, 2), (ALWAYS_OFF, 0)], ids=["always on", "always off"])
def test_under_another_sampler_each_failed_run_is_offered_to_it_and_passes_through(runs, exporter, sampler, spans):
    def sometimes(input_tensors, engine):
        if input_tensors:
            raise RuntimeError("no memory")
        return input_tensors

    hooked, engine = runs(sampler, sometimes), TrtEngine()
    for inputs in ([], ["bad"], [], ["bad"]):
        with pytest.raises(RuntimeError, match="no memory") if inputs else contextlib.nullcontext():
            hooked.run(inputs, engine)
    assert [span.attributes["error.type"] for span in exporter.get_finished_spans()] == ["RuntimeError"] * spans


def test_a_run_that_fails_where_instrumentation_is_suppressed_is_not_an_event(runs, exporter):
    hooked, engine = runs(ALWAYS_ON, failing), TrtEngine()
    with suppress_instrumentation():
        for _ in range(2):
            with pytest.raises(RuntimeError):
                hooked.run([], engine)
    assert names(exporter) == []


def test_an_interruption_is_not_kept(runs, exporter):
    def interrupted(input_tensors, engine):
        raise KeyboardInterrupt

    hooked = runs(TorchspanSampler(), interrupted)
    with pytest.raises(KeyboardInterrupt):
        hooked.run([], TrtEngine())
    assert names(exporter) == []


# --- callbacks of the user ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["execute=0", "execute=0.5", "execute=1", "execute_target=1000000"])
@pytest.mark.parametrize("original", [echo, failing], ids=["returns", "raises"])
def test_user_callbacks_have_each_run_once_whatever_is_picked(runs, rule, original):
    seen = []
    hooked, engine = runs(TorchspanSampler(rule), original, registry=REGISTRY), TrtEngine()
    handle = callbacks.add_global_callback(
        callbacks.RecordFunctionCallback(lambda record: seen.append("start"), lambda record, _: seen.append("end"))
    )
    for _ in range(50):
        with contextlib.suppress(RuntimeError):
            hooked.run([], engine)
    callbacks.remove_callback(handle)
    assert seen == ["start", "end"] * 50


def test_what_a_callbacks_policy_raises_is_not_a_failure_of_the_run(runs, exporter):
    def refuse(record):
        raise RuntimeError("policy")

    hooked, engine = runs(TorchspanSampler(), registry=REGISTRY), TrtEngine()
    policy = observers.ErrorPolicy(rethrow=True)
    with observers.torch_tensorrt.execute.pre.add(refuse, policy=policy), pytest.raises(RuntimeError, match="policy"):
        hooked.run([], engine)
    assert names(exporter) == []


@pytest.mark.parametrize("rule", ["execute=0", "execute=0.5", "execute=1", "execute_target=1000000"])
def test_a_failed_run_is_one_span_whether_it_was_picked_or_not(runs, exporter, rule):
    hooked, engines = runs(TorchspanSampler(f"{rule},execute_per_second=1000000"), failing), []
    for _ in range(40):
        engines.append(TrtEngine())
        with pytest.raises(RuntimeError):
            hooked.run([], engines[-1])
    assert len(names(exporter)) == 40
    assert {span.attributes["error.type"] for span in exporter.get_finished_spans()} == {"RuntimeError"}
