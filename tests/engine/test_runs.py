# SPDX-License-Identifier: Apache-2.0
import math

import pytest

from support.engines import Callback, extend
from torchspan import callbacks, phase
from torchspan.base.by_identity import ByIdentity
from torchspan.engine import (
    BegunCall,
    Decision,
    Decisions,
    Engine,
    LimitedCalls,
    RateLimits,
    RunSampling,
    RunTally,
    Surroundings,
    Verdict,
)
from torchspan.engine.runs import FOR_ITSELF
from torchspan.engine.subscribers.callback_registry import REGISTRY


class Thing:
    pass


class Request:
    """Stands for a recording span."""

    trace = "trace"


# --- rate limits --------------------------------------------------------------------------------------------------


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    return now


def allowed(limits, thing, trace, times=1):
    return sum(limits.refused_until(thing, trace) is None for _ in range(times))


def test_ten_a_second_and_object(clock):
    limits, thing = RateLimits(), Thing()
    assert allowed(limits, thing, "trace", 20) == 10
    assert limits.refused_until(thing, "trace") == 101.0
    clock[0] += 1
    assert allowed(limits, thing, "trace", 20) == 10


def test_fifty_a_trace(clock):
    limits, things = RateLimits(), [Thing() for _ in range(8)]
    assert sum(allowed(limits, thing, "trace") for _ in range(10) for thing in things) == 50
    clock[0] += 1
    assert limits.refused_until(things[0], "trace") == math.inf
    assert allowed(limits, things[0], "another trace") == 1


def test_traces_are_forgotten_oldest_first(clock):
    limits, thing = RateLimits(), Thing()
    for trace in range(3000):
        clock[0] += 1
        limits.refused_until(thing, trace)
    assert len(limits._traces) == 1024
    assert min(limits._traces) == 3000 - 1024


def test_a_new_object_at_the_address_of_a_dead_one_starts_from_zero(clock):
    limits = RateLimits()
    assert sum(allowed(limits, Thing(), f"trace {number}") for number in range(3000)) == 3000
    assert not limits._windows


# --- policies -----------------------------------------------------------------------------------------------------


class Probe:
    """Reports surroundings that a test chooses."""

    def __init__(self, around):
        self.context = dict
        self.around = around

    def look(self, _context):
        return self.around


class Parent(Request):
    """Counts calls by phase."""

    tallies = {phase.EXECUTE: "tally of runs"}

    def tally(self, of_phase):
        return self.tallies[of_phase]


def decisions(around, policy=None, fresh=None):
    return Decisions(Probe(around), policy or RunSampling(RateLimits()), phase.EXECUTE, fresh)


@pytest.mark.parametrize("around", [Surroundings.OUTSIDE, Surroundings.UNRECORDED, Parent()])
def test_the_first_run_is_recorded_wherever_it_is_and_beyond_all_limits(clock, around):
    fresh, thing = ByIdentity(), Thing()
    decided = decisions(around, fresh=fresh)
    for _ in range(60):
        decided.decide(thing)
    fresh[thing] = True
    assert decided.decide(thing) == Decision(Verdict.RECORD, pick=FOR_ITSELF, is_first=True)
    assert decided.decide(thing).is_first is False


def test_a_suppressed_first_run_is_still_to_come():
    fresh, thing = ByIdentity(), Thing()
    fresh[thing] = True
    assert decisions(Surroundings.SUPPRESSED, fresh=fresh).decide(thing) == Decision(Verdict.SUPPRESS)
    assert decisions(Surroundings.OUTSIDE, fresh=fresh).decide(thing).is_first is True


def test_runs_below_a_span_are_recorded_within_the_limits_and_counted_there_beyond(clock):
    decided, thing = decisions(Parent()), Thing()
    assert [decided.decide(thing).verdict for _ in range(10)] == [Verdict.RECORD] * 10
    assert decided.decide(thing) == Decision(Verdict.COUNT, 101.0, "tally of runs")


@pytest.mark.parametrize("around", [Surroundings.OUTSIDE, Surroundings.UNRECORDED])
def test_a_run_without_a_recording_span_passes_and_uses_up_no_limit(clock, around):
    limits, thing = RateLimits(), Thing()
    decided = decisions(around, RunSampling(limits))
    assert {decided.decide(thing).verdict for _ in range(20)} == {Verdict.PASS}
    assert allowed(limits, thing, "trace", 20) == 10


def test_calls_of_observed_functions_are_recorded_without_a_parent_too_within_the_limits(clock):
    policy, thing = LimitedCalls(RateLimits()), Thing()
    outside, below = decisions(Surroundings.OUTSIDE, policy), decisions(Parent(), policy)
    assert [outside.decide(thing).verdict for _ in range(11)] == [Verdict.RECORD] * 10 + [Verdict.PASS]
    assert below.decide(thing) == Decision(Verdict.COUNT, 101.0, "tally of runs")


# --- a call that has begun ----------------------------------------------------------------------------------------


def test_the_end_of_a_call_counts_it_and_closes_its_event():
    engine, written = Engine(), []
    event = engine.open(phase.RUN_GRAPH, {})
    tally = RunTally(lambda count, _total_s, _longest_s: written.append(count))
    BegunCall(event, tally, 0.0).end(engine, None)
    tally.close()
    assert (written, event.is_open) == ([1], False)


def test_a_call_that_ends_after_the_span_on_which_it_is_counted_is_late():
    engine, tally = Engine(), RunTally(lambda *_sums: None)
    BegunCall(None, tally, 0.0).end(engine, None)
    tally.close()
    BegunCall(None, tally, 0.0).end(engine, None)
    assert engine.late == 1


def test_what_begins_inside_the_loop_over_listeners_is_missed_and_inside_a_callback_it_is_not():
    engine, missed = Engine(REGISTRY), []
    finalizer = lambda *_event: missed.append(engine.is_missed())
    extend(engine, Callback("finalizer", finalizer, finalizer))
    with callbacks.add_global_callback(
        callbacks.RecordFunctionCallback(lambda _record: missed.append(engine.is_missed()))
    ):
        engine.close(engine.open(phase.RUN_GRAPH, {}))
    engine.stop()
    assert (missed, engine.missed) == ([True, False, True], 2)
