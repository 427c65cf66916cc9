# SPDX-License-Identifier: Apache-2.0
"""The hot path without a library: what happens to a run, and the seams alongside it."""

import contextlib
import gc
import os
import threading
import weakref
from types import SimpleNamespace

import pytest
from opentelemetry import context as context_api
from opentelemetry.instrumentation.utils import suppress_instrumentation
from opentelemetry.trace import INVALID_SPAN, NonRecordingSpan, SpanContext, set_span_in_context, use_span

from support.engines import Callback, extend
from support.ports import make_ports
from torchspan import callbacks, phase
from torchspan.base.errors import UserCallback
from torchspan.engine import Engine, Listener, RateLimits, RunSampling
from torchspan.engine.subscribers.callback_registry import REGISTRY, Registry
from torchspan.engine.subscribers.entry import Entry, RecordFunctionCallback
from torchspan.hooks.adapters import Provenance
from torchspan.hooks.adapters.engine_runs import EngineRuns, RunState, wrap_run
from torchspan.hooks.adapters.machinery.wrap import WrapperFactory
from torchspan.hooks.probes import PROBES, Runs
from torchspan.output.writer import SpanParents
from torchspan.words import semconv
from torchspan.words.sampling.rules import SamplingRules

FOLDED = "torch_tensorrt.execute.folded.count"
(OPERATOR, *_) = (each for each in PROBES if isinstance(each.action, Runs) and each.action.phase is phase.EXECUTE)
(CONTEXT, *_) = (each for each in PROBES if isinstance(each.action, Runs) and each.action.excluded_callers)


class TrtEngine:
    """Stands for the engine that runs."""


class CountingSampling(RunSampling):
    """decisions: how many runs it has decided about."""

    decisions = 0

    def decide(self, *args, **kwargs):
        self.decisions += 1
        return super().decide(*args, **kwargs)


class Runs:
    """A bridge's hot path over a function of this test's, without a writer of spans."""

    def __init__(self, original, probe=OPERATOR, **ports):
        self.engine = Engine(Registry())
        self.events = []
        extend(self.engine, Callback("events", lambda event: event, lambda event, _: self.events.append(event)))
        self.parents = SpanParents()
        self.provenance = Provenance()
        self.ports = make_ports(**{"parents": self.parents, **ports})
        factory = WrapperFactory(self.engine, self.provenance)
        self.run = wrap_run(factory, self.ports, probe.target, probe.action, original)

    def close(self):
        self.engine.stop()
        self.parents.close()


@pytest.fixture
def hooked():
    """Makes the hot path; it is closed after the test."""
    made = []

    def make(original=lambda input_tensors, engine: input_tensors, **options):
        made.append(Runs(original, **options))
        return made[-1]

    yield make
    for each in made:
        each.close()


# --- counts -------------------------------------------------------------------------------------------------------


def test_folded_counts_are_exact_when_the_span_has_ended(hooked, exporter, tracer):
    runs, trt_engine = hooked(), TrtEngine()
    with tracer.start_as_current_span("request"):
        for _ in range(1000):
            runs.run([], trt_engine)
    (request,) = exporter.get_finished_spans()
    assert len(runs.events) == 10
    assert request.attributes[FOLDED] == 990


def test_before_its_end_a_span_whose_end_is_seen_has_no_folded_counts(hooked, exporter, tracer):
    runs, trt_engine = hooked(), TrtEngine()
    with tracer.start_as_current_span("request") as request:
        for _ in range(500):
            runs.run([], trt_engine)
        assert FOLDED not in request.attributes
    (request,) = exporter.get_finished_spans()
    assert request.attributes[FOLDED] == 490


class Unchangeable(type(NonRecordingSpan)):
    """Classes whose `end` cannot be replaced, as in those written in C."""

    def __setattr__(cls, name, value):
        if name == "end":
            raise TypeError(f"cannot set {name!r} attribute of immutable type")
        super().__setattr__(name, value)


class SpanWithUnseenEnd(NonRecordingSpan, metaclass=Unchangeable):
    """A recording span whose end torchspan cannot see."""

    def __init__(self):
        super().__init__(SpanContext(1, 2, is_remote=False))
        self.attributes = {}

    def is_recording(self):
        return True

    def set_attributes(self, attributes):
        self.attributes.update(attributes)

    def end(self, end_time=None):
        pass


def test_where_the_end_of_a_span_cannot_be_seen_counts_lag_by_a_factor_of_two_at_most(hooked):
    runs, trt_engine, request = hooked(), TrtEngine(), SpanWithUnseenEnd()
    with use_span(request):
        for number in range(1, 500):
            runs.run([], trt_engine)
            if number > 10:
                assert (number - 10) / 2 <= request.attributes[FOLDED] <= number - 10


@pytest.mark.parametrize("threads", [8, 16])
def test_no_run_is_lost_when_threads_share_a_span(hooked, exporter, tracer, threads, frequent_switches):
    runs, trt_engine = hooked(), TrtEngine()
    with tracer.start_as_current_span("request"):
        context = context_api.get_current()

        def work():
            token = context_api.attach(context)
            for _ in range(2000):
                runs.run([], trt_engine)
            context_api.detach(token)

        workers = [threading.Thread(target=work) for _ in range(threads)]
        for each in workers:
            each.start()
        for each in workers:
            each.join()
    (request,) = exporter.get_finished_spans()
    assert request.attributes[FOLDED] + len(runs.events) == threads * 2000


@pytest.fixture
def frequent_switches():
    """The interpreter changes threads as often as it can."""
    import sys

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_each_span_counts_its_own_runs_when_threads_work_below_different_ones(hooked, exporter, tracer):
    runs, trt_engine = hooked(), TrtEngine()

    def request(number):
        with tracer.start_as_current_span(f"request {number}"):
            for _ in range(200 * number):
                runs.run([], trt_engine)

    workers = [threading.Thread(target=request, args=(number,)) for number in range(1, 6)]
    for each in workers:
        each.start()
    for each in workers:
        each.join()
    recorded = sum(1 for _ in runs.events)
    folded = sum(span.attributes[FOLDED] for span in exporter.get_finished_spans())
    assert recorded + folded == 200 * (1 + 2 + 3 + 4 + 5)


def test_runs_of_an_object_without_weak_references_are_counted_and_nothing_is_logged(hooked, exporter, tracer, caplog):
    runs, trt_engine = hooked(), object()
    with tracer.start_as_current_span("request"):
        for _ in range(40):
            runs.run([], trt_engine)
    (request,) = exporter.get_finished_spans()
    assert (len(runs.events), request.attributes[FOLDED]) == (10, 30)
    assert caplog.messages == []


def test_engines_that_take_turns_below_one_span_are_each_limited_and_counted(hooked, exporter, tracer):
    runs, engines = hooked(), [TrtEngine(), TrtEngine()]
    with tracer.start_as_current_span("request"):
        for _ in range(40):
            for each in engines:
                runs.run([], each)
    (request,) = exporter.get_finished_spans()
    assert (len(runs.events), request.attributes[FOLDED]) == (20, 60)


def test_a_run_that_raises_is_counted_and_raises(hooked, exporter, tracer):
    def fails(input_tensors, engine):
        raise ValueError("the program's")

    runs, trt_engine = hooked(fails), TrtEngine()
    with tracer.start_as_current_span("request"):
        for _ in range(30):
            with pytest.raises(ValueError, match="the program's"):
                runs.run([], trt_engine)
    (request,) = exporter.get_finished_spans()
    assert request.attributes[FOLDED] == 20


@pytest.mark.fault("libraries", "a run of an engine raises")
@pytest.mark.parametrize("error", [KeyError, TypeError])
def test_a_run_that_raises_runs_once_whatever_it_raises(hooked, tracer, error):
    called = []

    def fails(input_tensors, engine):
        called.append(engine)
        raise error("the program's")

    runs, trt_engine = hooked(fails), TrtEngine()
    with tracer.start_as_current_span("request"):
        for _ in range(40):
            with pytest.raises(error):
                runs.run([], trt_engine)
    assert len(called) == 40


def test_below_a_span_that_has_ended_one_decision_lets_all_runs_pass(hooked, tracer):
    sampling = CountingSampling(RateLimits())
    runs, trt_engine = hooked(sampling=sampling), TrtEngine()
    with tracer.start_as_current_span("request", end_on_exit=False) as request:
        for _ in range(20):
            runs.run([], trt_engine)
        request.end()
        before = sampling.decisions
        for _ in range(20):
            runs.run([], trt_engine)
    assert sampling.decisions == before + 1


def test_a_span_that_has_ended_gets_no_more_runs_and_they_pass(hooked, exporter, tracer):
    runs, trt_engine = hooked(), TrtEngine()
    with tracer.start_as_current_span("request", end_on_exit=False) as request:
        for _ in range(100):
            runs.run([], trt_engine)
        request.end()
        for _ in range(100):
            runs.run([], trt_engine)
    assert exporter.get_finished_spans()[0].attributes[FOLDED] == 90
    assert len(runs.events) == 10


def test_contexts_of_the_library_that_has_a_probe_of_its_own_are_not_counted(hooked, exporter, tracer):
    runs = hooked(lambda self, stream_handle: True, probe=CONTEXT)
    library = {"__name__": "torch_tensorrt.runtime", "run": runs.run, "context": TrtEngine()}
    with tracer.start_as_current_span("request"):
        for _ in range(40):
            runs.run(library["context"], 0)
        for _ in range(40):
            exec("run(context, 0)", library)
    (request,) = exporter.get_finished_spans()
    assert len(runs.events) == 10
    assert request.attributes["tensorrt.execute.folded.count"] == 30


def test_the_limits_of_a_trace_hold_for_all_functions_that_run_engines_together(hooked, exporter, tracer):
    sampling = RunSampling(RateLimits())
    operator = hooked(sampling=sampling)
    contexts = hooked(lambda self, stream_handle: True, probe=CONTEXT, sampling=sampling)
    engines = [TrtEngine() for _ in range(20)]
    with tracer.start_as_current_span("request"):
        for each in engines:
            for _ in range(10):
                operator.run([], each)
                contexts.run(each, 0)
    assert len(operator.events) + len(contexts.events) == 50


def test_a_forked_child_ends_its_copy_of_a_span_while_a_parents_thread_was_summing_up(hooked, tracer):
    runs, trt_engine = hooked(), TrtEngine()
    with tracer.start_as_current_span("request"):
        for _ in range(20):
            runs.run([], trt_engine)
        tally = runs.parents.look(context_api.get_current()).tally(phase.EXECUTE)
        with tally._summing:  # as held by another thread at the fork
            pid = os.fork()
            if pid == 0:
                tally.close()
                os._exit(7)
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7


def test_below_one_span_with_two_contexts_that_take_turns_every_run_is_counted_there(hooked, exporter, tracer):
    runs, trt_engine = hooked(), TrtEngine()
    with tracer.start_as_current_span("request"):
        for _ in range(40):
            runs.run([], trt_engine)
            token = context_api.attach(context_api.set_value("baggage", "b"))
            runs.run([], trt_engine)
            context_api.detach(token)
    (request,) = exporter.get_finished_spans()
    assert (len(runs.events), request.attributes[FOLDED]) == (10, 70)


def test_at_most_8192_durations_are_held_below_a_span(hooked, exporter, tracer):
    runs, trt_engine = hooked(), TrtEngine()
    with tracer.start_as_current_span("request"):
        for _ in range(9000):
            runs.run([], trt_engine)
        recorded = len(runs.events)
        tally = runs.parents.look(context_api.get_current()).tally(phase.EXECUTE)
        assert len(tally.durations_s) < 1000
    (request,) = exporter.get_finished_spans()
    assert request.attributes[FOLDED] + recorded == 9000


def test_a_failure_to_sum_up_is_logged_and_every_run_is_the_programs_and_counted(
    hooked, exporter, tracer, monkeypatch, caplog
):
    runs, trt_engine = hooked(), TrtEngine()
    monkeypatch.setattr("torchspan.engine.RunTally.sum_up", lambda *_args: 1 / 0)
    given = []
    with tracer.start_as_current_span("request"):
        assert all(runs.run(given, trt_engine) is given for _ in range(9000))
    assert any("the program continues, with less telemetry" in message for message in caplog.messages)
    (request,) = exporter.get_finished_spans()
    assert request.attributes[FOLDED] + len(runs.events) == 9000


def test_durations_are_not_kept_where_writing_the_counts_fails(hooked, monkeypatch):
    runs, trt_engine, request = hooked(), TrtEngine(), SpanWithUnseenEnd()
    with use_span(request):
        used_up(runs, trt_engine)
        tally = runs.parents.look(context_api.get_current()).tally(phase.EXECUTE)
        monkeypatch.setattr(type(request), "set_attributes", lambda *_args: 1 / 0)
        for _ in range(1000):
            runs.run([], trt_engine)
        monkeypatch.undo()
    assert len(tally.durations_s) < 512


class Ambiguous:
    """Has no truth value, as a tensor of several elements has none."""

    def __bool__(self):
        raise RuntimeError("ambiguous")


UNUSUAL = [None, 7, (), ("an input",), {}, {"x": 1}, iter(()), Ambiguous()]


@pytest.mark.parametrize("is_timed", [False, True], ids=["", "timed"])
@pytest.mark.parametrize("inputs", UNUSUAL, ids=lambda each: type(each).__name__)
def test_unusual_inputs_reach_the_original_and_such_a_run_is_counted(hooked, exporter, tracer, inputs, is_timed):
    seen = []
    runs, trt_engine = hooked(lambda input_tensors, engine: seen.append(input_tensors)), TrtEngine()
    if is_timed:
        runs.engine.run_times[phase.EXECUTE].want(lambda: None)
    runs.run(inputs, trt_engine)
    with tracer.start_as_current_span("request"):
        for _ in range(40):
            runs.run([], trt_engine)
        runs.run(inputs, trt_engine)
    (request,) = exporter.get_finished_spans()
    assert (seen[0], seen[-1], len(seen)) == (inputs, inputs, 42)
    assert len(runs.events) + request.attributes[FOLDED] == 41


def test_an_exception_of_a_run_with_unusual_inputs_is_the_programs_alone(hooked, tracer):
    def fails_for_none(input_tensors, engine):
        if input_tensors is None:
            raise ValueError("the program's")

    runs, trt_engine = hooked(fails_for_none), TrtEngine()
    with tracer.start_as_current_span("request"):
        for _ in range(40):
            runs.run([], trt_engine)
        with pytest.raises(ValueError, match="the program's") as caught:
            runs.run(None, trt_engine)
    assert caught.value.__context__ is None


# --- what a reader gets -------------------------------------------------------------------------------------------


def test_counted_runs_are_timed_as_well_while_a_reader_wants_it(hooked, exporter, tracer):
    runs, trt_engine = hooked(), TrtEngine()
    runs.engine.run_times[phase.EXECUTE].want(lambda: None)
    with tracer.start_as_current_span("request"):
        for _ in range(100):
            runs.run([], trt_engine)
    (request,) = exporter.get_finished_spans()
    held = runs.engine.run_times[phase.EXECUTE].take()
    assert len(held) == request.attributes[FOLDED] == 90
    assert sum(held) == pytest.approx(request.attributes["torch_tensorrt.execute.folded.duration.sum"])
    assert max(held) == request.attributes["torch_tensorrt.execute.folded.duration.max"]


@pytest.mark.parametrize("is_below_a_span", [False, True], ids=["no span", "a span"])
def test_the_collector_is_called_when_a_batch_is_held_wherever_the_runs_are(hooked, tracer, is_below_a_span):
    runs, trt_engine = hooked(), TrtEngine()
    collected = []
    runs.engine.run_times[phase.EXECUTE].want(
        lambda: collected.append(len(runs.engine.run_times[phase.EXECUTE].take())), batch=64
    )

    def work():
        for _ in range(1000):
            runs.run([], trt_engine)

    if is_below_a_span:
        with tracer.start_as_current_span("request"):
            work()
        assert sum(collected) > 500
    else:
        work()
        assert collected == [64] * 15


@pytest.mark.parametrize("is_below_a_span", [False, True], ids=["no span", "a span"])
def test_each_duration_is_held_once_when_threads_run_and_another_collects(
    hooked, tracer, frequent_switches, is_below_a_span
):
    runs, collected = hooked(), []
    times = runs.engine.run_times[phase.EXECUTE]
    times.want(lambda: collected.extend(times.take()), batch=100)
    span = tracer.start_span("request") if is_below_a_span else INVALID_SPAN

    def work():
        trt_engine = TrtEngine()
        context_api.attach(set_span_in_context(span))
        for _ in range(1000):
            runs.run([], trt_engine)

    workers = [threading.Thread(target=work) for _ in range(16)]
    for each in workers:
        each.start()
    while any(each.is_alive() for each in workers):
        times.collect()
    for each in workers:
        each.join()
    times.collect()
    assert len(collected) + len(runs.events) == 16 * 1000


# --- what is kept alive -------------------------------------------------------------------------------------------


def test_an_engine_that_is_gone_is_freed_though_the_span_that_counted_its_runs_continues(hooked, tracer):
    runs, trt_engine = hooked(), TrtEngine()
    alive = weakref.ref(trt_engine)
    with tracer.start_as_current_span("request"):
        for _ in range(100):
            runs.run([], trt_engine)
        del trt_engine
        gc.collect()
        assert alive() is None


def test_a_context_in_which_runs_were_counted_is_freed_when_its_span_has_ended(hooked, tracer):
    runs, engines = hooked(), [TrtEngine(), TrtEngine()]
    with tracer.start_as_current_span("request"):
        alive = weakref.ref(context_api.get_current())
        for _ in range(50):
            for each in engines:
                runs.run([], each)
    gc.collect()
    assert alive() is None


def test_a_context_in_which_runs_were_counted_is_freed_when_torchspan_is_disabled(hooked, tracer):
    runs, trt_engine = hooked(), TrtEngine()
    with tracer.start_as_current_span("request", end_on_exit=False) as request:
        alive = weakref.ref(context_api.get_current())
        for _ in range(50):
            runs.run([], trt_engine)
    runs.close()
    del request
    gc.collect()
    assert alive() is None


def test_of_spans_that_never_end_none_is_kept(hooked, tracer):
    runs, trt_engine, alive = hooked(), TrtEngine(), []
    for _ in range(5):
        with tracer.start_as_current_span("request", end_on_exit=False) as request:
            alive.append(weakref.ref(request))
            for _ in range(50):
                runs.run([], trt_engine)
        del request
    gc.collect()
    assert [each() is None for each in alive] == [True] * 5


def test_a_context_without_a_span_is_not_kept(hooked):
    runs, trt_engine = hooked(), TrtEngine()
    token = context_api.attach(context_api.set_value("baggage", "b"))
    alive = weakref.ref(context_api.get_current())
    for _ in range(50):
        runs.run([], trt_engine)
    context_api.detach(token)
    gc.collect()
    assert alive() is None


# --- first runs ---------------------------------------------------------------------------------------------------


def firsts(runs):
    return [event.attributes.get(semconv.EXECUTE_FIRST) for event in runs.events]


def test_the_first_run_of_an_engine_is_recorded_where_another_ran_unrecorded(hooked):
    runs, one, other = hooked(), TrtEngine(), TrtEngine()
    runs.run([], one)
    runs.provenance.fresh[other] = True
    for each in (one, other, one, other):
        runs.run([], each)
    assert firsts(runs) == [True]


def test_an_engine_that_is_made_again_while_its_runs_are_counted_has_a_first_run_again(hooked, exporter, tracer):
    runs, trt_engine = hooked(), TrtEngine()
    with tracer.start_as_current_span("request"):
        for _ in range(50):
            runs.run([], trt_engine)
        runs.provenance.fresh[trt_engine] = True
        for _ in range(50):
            runs.run([], trt_engine)
    (request,) = exporter.get_finished_spans()
    assert firsts(runs) == [False] * 10 + [True]
    assert request.attributes[FOLDED] == 89


def test_while_an_engine_waits_for_its_first_run_others_run_without_a_decision(hooked, exporter, tracer):
    sampling = CountingSampling(RateLimits())
    runs, trt_engine, waits = hooked(sampling=sampling), TrtEngine(), TrtEngine()
    runs.provenance.fresh[waits] = True
    for _ in range(50):
        runs.run([], trt_engine)
    assert sampling.decisions == 1
    with tracer.start_as_current_span("request"):
        for _ in range(50):
            runs.run([], trt_engine)
    assert sampling.decisions == 12
    (request,) = exporter.get_finished_spans()
    assert request.attributes[FOLDED] == 40


# --- suppression --------------------------------------------------------------------------------------------------


def test_suppressed_runs_leave_no_event_no_count_and_no_duration_and_use_up_no_limit(hooked, exporter, tracer):
    runs, trt_engine = hooked(), TrtEngine()
    runs.engine.run_times[phase.EXECUTE].want(lambda: None)
    with tracer.start_as_current_span("request"):
        with suppress_instrumentation():
            for _ in range(100):
                runs.run([], trt_engine)
        assert list(runs.engine.run_times[phase.EXECUTE].take()) == []
        for _ in range(5):
            runs.run([], trt_engine)
    (request,) = exporter.get_finished_spans()
    assert FOLDED not in request.attributes
    assert len(runs.events) == 5


def test_a_suppressed_first_run_is_still_to_come(hooked):
    runs, trt_engine = hooked(), TrtEngine()
    runs.provenance.fresh[trt_engine] = True
    with suppress_instrumentation():
        runs.run([], trt_engine)
    assert runs.events == []
    runs.run([], trt_engine)
    assert [event.attributes[semconv.EXECUTE_FIRST] for event in runs.events] == [True]


def test_a_suppressed_first_run_is_still_to_come_after_suppressed_runs_of_another_engine(hooked):
    runs, one, other = hooked(), TrtEngine(), TrtEngine()
    with suppress_instrumentation():
        runs.run([], one)
        runs.provenance.fresh[other] = True
        runs.run([], other)
        runs.run([], one)
    assert runs.events == []
    runs.run([], other)
    assert [event.attributes[semconv.EXECUTE_FIRST] for event in runs.events] == [True]


def test_what_surrounds_suppressed_runs_is_looked_at_once(hooked, monkeypatch):
    runs, trt_engine = hooked(), TrtEngine()
    looked, look = [], runs.parents.look
    with suppress_instrumentation():
        monkeypatch.setattr(runs.parents, "look", lambda context: looked.append(context) or look(context))
        runs = hooked(parents=runs.parents)
        for _ in range(100):
            runs.run([], trt_engine)
    assert len(looked) == 1


# --- states: the table in the module's docstring ---------------------------------------------------------------------


@pytest.fixture
def states():
    """Makes `EngineRuns` of an operator that returns its inputs, with a sampler's rules; it is closed after the test."""
    closing = []

    def make(rules=None, clock=None):
        engine, provenance = Engine(REGISTRY), Provenance()
        sampling = RunSampling(RateLimits(), clock=clock)
        ports = make_ports(sampling=sampling)
        runs = EngineRuns(
            WrapperFactory(engine, provenance), ports, OPERATOR.target, OPERATOR.action, lambda inputs, engine: inputs
        )
        if rules is not None:
            sampling.use(rules)
        closing.extend((engine.stop, ports.parents.close))
        return SimpleNamespace(
            engine=engine,
            sampling=sampling,
            fresh=provenance.fresh,
            times=engine.run_times[phase.EXECUTE],
            run=runs.replacement(),
            state=runs.state,
            contexts=lambda: len(runs.states),
            closing=closing,
        )

    yield make
    for close in closing:
        close()


def used_up(runs, trt_engine):
    """Run until the engine has its events below the current span, and one run is counted."""
    for _ in range(11):
        runs.run([], trt_engine)


def test_a_context_in_which_nothing_has_run_is_undecided(states):
    assert states().state() is RunState.UNDECIDED


def test_undecided_to_passing_where_nothing_is_recorded(states):
    runs = states()
    runs.run([], TrtEngine())
    assert runs.state() is RunState.PASSING


def test_undecided_to_measured_where_durations_are_wanted(states):
    runs = states()
    runs.times.want(lambda: None)
    runs.run([], TrtEngine())
    assert runs.state() is RunState.MEASURED
    runs.run([], TrtEngine())
    assert len(runs.times.take()) == 2


def test_undecided_to_offered_where_a_rule_picks_another_run(states):
    runs = states(SamplingRules(execute_target=1e-6), clock=lambda: 1.0)
    runs.run([], TrtEngine())
    assert runs.state() is RunState.OFFERED


def test_an_offered_run_that_is_picked_is_recorded_and_its_context_stays_offered(states):
    now, recorded = [1000.0], []
    runs = states(SamplingRules(execute_target=1), clock=lambda: now[0])
    extend(runs.engine, Callback("events", recorded.append, lambda _event, _: None))
    runs.run([], TrtEngine())
    now[0] += 5
    for _ in range(10):
        runs.run([], TrtEngine())
    assert runs.state() is RunState.OFFERED
    assert 1 <= len(recorded) <= 3


def test_below_an_unsampled_span_nothing_is_offered(states):
    runs = states(SamplingRules(execute=0.5))
    with use_span(NonRecordingSpan(SpanContext(1, 2, is_remote=False))):
        runs.run([], TrtEngine())
        assert runs.state() is RunState.PASSING


def test_undecided_to_suppressed_where_instrumentation_is_suppressed(states):
    runs = states()
    with suppress_instrumentation():
        runs.run([], TrtEngine())
        assert runs.state() is RunState.SUPPRESSED
    assert runs.state() is RunState.UNDECIDED


def test_undecided_to_counted_where_an_engine_has_its_events(states, tracer):
    runs, trt_engine = states(), TrtEngine()
    with tracer.start_as_current_span("request"):
        runs.run([], trt_engine)
        assert runs.state() is RunState.UNDECIDED
        used_up(runs, trt_engine)
        assert runs.state() is RunState.COUNTED


def test_another_engine_is_decided_about_while_the_context_is_counted(states, exporter, tracer):
    runs, other = states(), TrtEngine()
    events = []
    extend(runs.engine, Callback("events", events.append, lambda _event, _: None))
    with tracer.start_as_current_span("request"):
        used_up(runs, TrtEngine())
        runs.run([], other)
        assert runs.state() is RunState.COUNTED
    assert len(events) == 11


def test_counted_to_undecided_when_the_time_of_the_limit_is_over(states, tracer, monkeypatch):
    now, events = [100.0], []
    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    monkeypatch.setattr("torchspan.hooks.adapters.engine_runs.perf_counter", lambda: now[0])
    runs, trt_engine = states(), TrtEngine()
    extend(runs.engine, Callback("events", events.append, lambda _event, _: None))
    with tracer.start_as_current_span("request"):
        used_up(runs, trt_engine)
        now[0] += 0.5
        runs.run([], trt_engine)
        assert len(events) == 10
        now[0] += 0.6
        runs.run([], trt_engine)
        assert len(events) == 11


def test_counted_to_passing_when_the_span_has_ended(states, tracer):
    runs, trt_engine = states(), TrtEngine()
    with tracer.start_as_current_span("request", end_on_exit=False) as request:
        used_up(runs, trt_engine)
        request.end()
        runs.run([], trt_engine)
        assert runs.state() is RunState.PASSING


def change_the_rules(runs):
    runs.sampling.use(SamplingRules(execute=0.5))


def want_durations(runs):
    runs.times.want(lambda: None)


def register_a_callback(runs):
    handle = callbacks.add_global_callback(callbacks.RecordFunctionCallback(lambda _record: None))
    runs.closing.append(handle.remove)


def surroundings(tracer):
    return {
        RunState.PASSING: contextlib.nullcontext(),
        RunState.SUPPRESSED: suppress_instrumentation(),
        RunState.COUNTED: tracer.start_as_current_span("request"),
    }


@pytest.mark.parametrize("state", [RunState.PASSING, RunState.SUPPRESSED, RunState.COUNTED])
@pytest.mark.parametrize("change", [change_the_rules, want_durations, register_a_callback])
def test_each_state_to_undecided_at_a_change(states, tracer, change, state):
    runs = states()
    with surroundings(tracer)[state]:
        used_up(runs, TrtEngine())
        assert runs.state() is state
        change(runs)
        assert runs.state() is RunState.UNDECIDED


@pytest.mark.parametrize("state", [RunState.PASSING, RunState.SUPPRESSED, RunState.COUNTED])
def test_each_state_to_closed_when_torchspan_is_disabled(states, tracer, state):
    runs = states()
    with surroundings(tracer)[state]:
        used_up(runs, TrtEngine())
        runs.engine.stop()
        assert runs.run(["inputs"], TrtEngine()) == ["inputs"]
        assert runs.state() is RunState.CLOSED


def test_while_a_callback_is_registered_a_run_leaves_no_state(states):
    runs = states()
    register_a_callback(runs)
    runs.run([], TrtEngine())
    assert runs.state() is RunState.UNDECIDED


def run_in(runs, context):
    token = context_api.attach(context)
    runs.run([], TrtEngine())
    context_api.detach(token)


def test_a_state_goes_with_its_context(states):
    runs = states()
    for number in range(100):
        run_in(runs, context_api.set_value("key", number))
    gc.collect()
    assert runs.contexts() == 0


def test_states_are_bounded_where_a_program_keeps_its_contexts(states):
    runs, contexts = states(), [context_api.set_value("key", number) for number in range(1500)]
    for context in contexts:
        run_in(runs, context)
    assert runs.contexts() == 500


# --- what the program gets ------------------------------------------------------------------------------------------


def test_a_policy_that_raises_has_runs_pass(hooked, tracer, caplog):
    class Broken(RunSampling):
        def decide(self, *_args, **_kwargs):
            raise KeyError("a policy's")

    runs = hooked(sampling=Broken(RateLimits()))
    with tracer.start_as_current_span("request"):
        assert [runs.run([number], TrtEngine()) for number in range(5)] == [[0], [1], [2], [3], [4]]
    assert runs.events == []
    assert "deciding about a run failed" in caplog.text


def test_after_close_a_wrapper_that_stayed_bound_passes_runs_through(hooked, tracer):
    runs = hooked()
    runs.close()
    with tracer.start_as_current_span("request"):
        assert runs.run([1], TrtEngine()) == [1]
    assert runs.events == []


# --- listeners to runs --------------------------------------------------------------------------------------------


class ShapeRecorder(Listener):
    """Records the shapes of inputs."""

    name = "recording shapes"
    is_innermost = True

    def __init__(self):
        self.shapes = []

    def open(self, event):
        self.shapes.append([tuple(each.shape) for each in event.observed.inputs])


class FakeGpuTimer(Listener):
    """Measures a time on a device that there is not."""

    name = "timing"
    is_innermost = True

    def open(self, event):
        return 10

    def leave(self, event, token):
        event.additions["gpu_time"] = token + 5


def test_a_listener_has_the_inputs_of_recorded_runs_alone(hooked, tracer):
    recorder = ShapeRecorder()
    runs, trt_engine = hooked(), TrtEngine()
    extend(runs.engine, recorder)
    with tracer.start_as_current_span("request"):
        for size in range(15):
            runs.run([SimpleNamespace(shape=(size, 16))], trt_engine)
    assert recorder.shapes == [[(size, 16)] for size in range(10)]


def test_a_listener_adds_the_time_of_a_device_to_the_event(hooked, tracer):
    runs = hooked()
    extend(runs.engine, ShapeRecorder(), FakeGpuTimer())
    with tracer.start_as_current_span("request"):
        runs.run([], TrtEngine())
    assert [event.additions for event in runs.events] == [{"gpu_time": 15}]
    assert [event.phase for event in runs.events] == [phase.EXECUTE]


def test_innermost_listeners_are_opened_inside_the_users_callbacks_and_left_first(hooked, tracer):
    seen = []

    class Named(Listener):
        def __init__(self, name, is_innermost):
            self.name, self.is_innermost = name, is_innermost

        def open(self, event):
            seen.append(f"{self.name} begins")

        def leave(self, event, token):
            seen.append(f"{self.name} ends")

    def fails(input_tensors, engine):
        seen.append("run")
        raise ValueError

    runs = hooked(fails)
    extend(runs.engine, Named("one", is_innermost=True), Named("two", is_innermost=False))
    starts = lambda _record: seen.append("user's begins")
    ends = lambda _record, _context: seen.append("user's ends")
    registry = runs.engine.registry
    registry.add(Entry(registry.new_handle(), UserCallback("user's"), RecordFunctionCallback(starts, ends)))
    with tracer.start_as_current_span("request"), pytest.raises(ValueError):
        runs.run([], TrtEngine())
    starts = ["two begins", "user's begins", "one begins"]
    assert seen == [*starts, "run", "one ends", "user's ends", "two ends"]


def test_a_listener_that_raises_costs_its_record_alone(hooked, tracer, caplog):
    class Broken(Listener):
        name = "broken"

        def open(self, event):
            raise RuntimeError("a listener's")

        def close(self, event, token):
            raise AssertionError("it has not begun")

    runs = hooked()
    extend(runs.engine, Broken(), FakeGpuTimer())
    with tracer.start_as_current_span("request"):
        assert runs.run([1], TrtEngine()) == [1]
    assert runs.events[0].additions == {"gpu_time": 15}
    assert "failed; the program continues, with less telemetry" in caplog.text
